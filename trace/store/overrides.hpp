// trace/store/overrides.hpp: what a user says of tensors in place of what their trace says, so that a
// wrong annotation or another program's names need no new capture.
//
//   {"schema": "plumb-overrides/1",
//    "tensors": [{"match": "^decoder\\.layers\\.(\\d+)\\.(.*)", "id": "layers.\\1.\\2",
//                 "renumber": {"group": 1, "axis": "pp", "first": [0, 4]},
//                 "says": {"placements": [...]}},
//                {"match": "^decoder\\.layers\\.(\\d+)\\.qkv", "split": {"dim": 0, "parts": [
//                   {"id": "layers.\\1.q", "size": 512}, {"id": "layers.\\1.k", "size": 128}, ...]}}]}
//
// A rule holds for the names in files, and for ids, that its expression matches anywhere. Rules are
// taken one after the other; of what they say the last word counts. "says" has the fields of
// tensor.schema.json; null takes a field away, and one spelling of a placement takes away the others.
//
// REFUSES  one sentence: what is not as overrides.schema.json says; rules that match no tensor
// TESTED   tests/trace/overrides_test.cpp
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "trace/placements/blocks.hpp"
#include "trace/placements/mesh.hpp"
#include "trace/sees.hpp"
#include "trace/selection.hpp"

namespace plumb::trace {

// What is said of a tensor; and what it is made of, if it is several that lie fused.
struct Overridden {
  nlohmann::json says;
  struct Part {
    std::string id;
    Fused lies;
  };
  std::vector<Part> parts = {};
};

class Overrides {
 public:
  Overrides() = default;  // none
  // Throws Failure.
  explicit Overrides(const std::filesystem::path& file);

  bool empty() const { return rules_.empty(); }
  // What is said of the tensor `name` of a rank, where its file says `says`.
  Overridden applied(const std::string& name, nlohmann::json says, std::size_t rank,
                     const Mesh& mesh);
  // Throws Failure if a rule matched nothing so far.
  void refuse_idle() const;

 private:
  struct Rule {
    std::string text;
    Pattern match;
    nlohmann::json rule;
    bool used;  // or need not be
  };
  std::string renamed(const Rule& rule, std::string form, const std::string& name, std::size_t rank,
                      const Mesh& mesh) const;

  std::filesystem::path file_;
  std::vector<Rule> rules_;
};

}  // namespace plumb::trace

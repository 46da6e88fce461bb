// trace/store/overriding.hpp: overrides at work on the tensors of one trace.
//
// TESTED   tests/trace/overrides_test.cpp, tests/trace/names_test.cpp
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trace/placements/blocks.hpp"
#include "trace/placements/mesh.hpp"
#include "trace/sees.hpp"
#include "trace/store/overrides.hpp"

namespace plumb::trace {

// What is said of a tensor; and what it is made of, if it is several that lie fused.
struct Overridden {
  nlohmann::json says;
  struct Part {
    std::string id;
    Fused lies;
  };
  std::vector<Part> parts = {};
  std::filesystem::path by = {};  // the file whose rules changed it; empty if none did
};

class Overriding {
 public:
  explicit Overriding(Overrides overrides);

  // What is said of the tensor `name` of a rank, where its file says `says`. Throws Failure.
  Overridden applied(const std::string& name, nlohmann::json says, std::size_t rank,
                     const Mesh& mesh);
  // Throws Failure if a rule that has to match matched nothing so far.
  void refuse_idle() const;
  // Throws Failure if a rule gives ids: a sketch is drawn by the id that it was made under.
  void refuse_renaming() const;

 private:
  std::string rewritten(std::size_t rule, const std::string& name, const std::string& id) const;
  std::string renamed(std::size_t rule, std::string form, const std::string& name, std::size_t rank,
                      const Mesh& mesh) const;

  Overrides overrides_;
  std::vector<bool> used_;  // by rule
};

}  // namespace plumb::trace

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
#include <memory>

#include "trace/sees.hpp"

namespace plumb::trace {

class Overrides {
 public:
  Overrides() = default;  // none
  // Throws Failure.
  explicit Overrides(const std::filesystem::path& file);

  bool empty() const { return rules_ == nullptr; }

 private:
  friend class Overriding;  // trace/store/overriding.hpp
  struct Rules;
  std::shared_ptr<const Rules> rules_;
};

}  // namespace plumb::trace

// trace/store/messages_file.hpp: what each rank of a step recorded of its collectives.
//
//   RUN/step_000001/messages_00000.safetensors   of rank 0; of each call, numbered from 0 in its order:
//     "0" in __metadata__     a JSON object: op, reduce, group, root, at, given, got (struct Message)
//     0/given, 0/got          its numbers, pieces behind each other; absent where there are none
//
// A file is untrusted: names, groups, roots and sizes are checked before anything is read.
//
// TESTED   tests/trace/messages_test.cpp
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "trace/sees.hpp"
#include "trace/store/tensor_file.hpp"

namespace plumb::trace {

// A collective as one of its ranks called it. What it gave and what it got are pieces behind each
// other, of so many numbers each; none of what it has no part in.
struct Message {
  std::string op;          // all_reduce, reduce, reduce_scatter, all_gather, gather, broadcast,
                           // scatter, all_to_all; others are read, and not judged
  std::string reduce;      // sum, avg, min, max; empty: it only moves numbers
  std::string at;          // where the program called it; may be empty
  std::vector<int> group;  // the ranks, in the group's order
  int root = -1;           // a rank, of reduce, gather, broadcast, scatter
  std::vector<std::size_t> given, got;
  std::shared_ptr<TensorFile> file;
  const StoredTensor *in = nullptr, *out = nullptr;  // of the file; null: it has none
};

// By rank, in its order. `step`: the folder RUN/step_000001. Throws Failure on anything that is no
// such record, and where a rank's is lacking.
std::vector<std::vector<Message>> read_messages(const std::filesystem::path& step, int ranks);
// Has any of the ranks recorded some? Then all have to.
bool has_messages(const std::filesystem::path& step, int ranks);

}  // namespace plumb::trace

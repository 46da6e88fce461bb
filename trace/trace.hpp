// trace/trace.hpp: which tensor was computed where, in one step of one run. The narrow waist:
// producers write it, everything else reads it. This is the form in memory; trace/store puts the
// same on disk.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bounds/operation.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"
#include "trace/about.hpp"
#include "trace/finding.hpp"
#include "trace/graph.hpp"
#include "trace/placement.hpp"
#include "trace/sees.hpp"
#include "trace/store/mapped.hpp"

namespace plumb::trace {

struct Message;  // trace/store/messages_file.hpp

// Whole tensors by canonical id. Shared, so that runs hold tensors that they have in common once.
template <class T>
using ValuesOf = std::map<std::string, std::shared_ptr<const Matrix<T>>>;
using Values = ValuesOf<float>;

// A matrix whose numbers stay in their file.
struct InFile {
  std::size_t rows = 0, cols = 0;
  Mapped numbers;
};

// One rank's piece of one tensor.
struct Shard {
  Placement placement;
  Tensor values;         // none if they are in a file
  Format format = fp32;  // the logical format: every value is one of its numbers
  std::optional<InFile> in_file = {};

  std::size_t rows() const { return in_file ? in_file->rows : values.rows; }
  std::size_t cols() const { return in_file ? in_file->cols : values.cols; }
  // Returns n numbers from `first` on: where they lie, or in `room`.
  const float* at(std::size_t first, std::size_t n, float* room) const {
    return in_file ? in_file->numbers.at(first, n, room) : values.values.data() + first;
  }
  // All of them in memory.
  Tensor tensor() const {
    if (!in_file) return values;
    Tensor all(rows(), cols(), to_be_written);
    const float* from = at(0, all.size(), all.values.data());
    if (from != all.values.data()) std::copy(from, from + all.size(), all.values.data());
    return all;
  }
};

// The record of one rank: its shards, and how it evaluated each tensor that the promise speaks of.
struct RankRecord {
  std::map<std::string, Shard> shards;
  std::map<std::string, Evaluation> ran;
};

struct Manifest {
  std::string producer = "plumb";
  int world_size = 1;
  int step = 1;
  std::map<std::string, std::string> settings;         // family, recipe, layout, seed, sizes ...
  std::map<std::string, std::string> may_differ = {};  // those that a producer sets apart
};

struct Trace {
  Manifest manifest;
  std::optional<Graph> graph;     // absent for producers that promise nothing
  std::vector<RankRecord> ranks;  // by rank number
  Abouts about = {};              // what the producer says of tensors; of plumb's own nothing
  std::vector<Finding> unfit =
      {};  // ranks that lack what their placement gives them; merge() tells
  // What ranks sent each other, by rank; null: nobody recorded it. Its numbers stay in their files.
  std::shared_ptr<const std::vector<std::vector<Message>>> messages = {};
};

}  // namespace plumb::trace

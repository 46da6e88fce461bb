// trace/whole.hpp: a whole tensor of which any stretch can be read: it lies in memory, or is put
// together from shards as it is read (trace/merge.hpp), so that no run has to be in memory.
//
// ASSUMES  Whoever holds shards or tensors that are only looked at outlives the Whole.
// COSTS    nothing until it is read; then a few ten thousand numbers, or one row if that is longer
// TESTED   tests/trace/whole_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "number/format.hpp"
#include "number/matrix.hpp"
#include "trace/finding.hpp"
#include "trace/sees.hpp"
#include "trace/store/mapped.hpp"

namespace plumb::trace {

// Where a shard was seen to disagree with the one whose value counts: the first place, by its own
// pieces, then by rows and columns of the whole.
struct Disagreement {
  std::size_t piece, row, column;
  std::size_t owner;  // the other shard
  float counts, here;
};
using Disagreements = std::map<std::size_t, Disagreement>;  // by shard

// Some columns of some rows, which lie in one piece: `width` of each row, from `column` on.
struct Columns {
  const char* bytes;
  Stored stored;
  std::size_t column, width;
};

// The numbers of a tensor, row by row.
class Elements {
 public:
  virtual ~Elements() = default;
  // Returns n of them from `first` on: where they lie, or in `room`.
  virtual const float* at(std::size_t first, std::size_t n, float* room) const = 0;
  // Adds where these lie, in whatever numbers that are FP32's, BF16's or FP16's; or lie in `room`.
  virtual void lie(std::size_t first, std::size_t n, float* room, std::vector<Lying>& runs) const {
    runs.push_back({reinterpret_cast<const char*>(at(first, n, room)), Stored::f32, n});
  }
  // Returns where these rows lie, from the first column to the last, if each file has its columns of them in
  // one piece; else nothing.
  virtual std::vector<Columns> by_columns(std::size_t, std::size_t) const { return {}; }
  // Notes where replicas of the same stretch disagree.
  virtual void hold_together(std::size_t, std::size_t, Disagreements&) const {}
  // What is wrong with how it was put together, statistic "structure".
  virtual std::vector<Finding> findings(const Disagreements&) const { return {}; }
};

struct Whole {
  std::size_t rows = 0, cols = 0;
  std::shared_ptr<const Elements> elements;
  Format format = fp32;

  Whole() = default;
  Whole(std::size_t r, std::size_t c, std::shared_ptr<const Elements> e, const Format& f = fp32)
      : rows(r), cols(c), elements(std::move(e)), format(f) {}
  Whole(const Tensor& tensor);  // looks at it
  Whole(std::shared_ptr<const Tensor> tensor, const Format& f = fp32);

  std::size_t size() const { return rows * cols; }
  bool has_shape_of(const Whole& other) const { return rows == other.rows && cols == other.cols; }
};
using Wholes = std::map<std::string, Whole>;  // by canonical id

// As many numbers as are read at once: of two tensors they stay in the nearest caches.
inline constexpr std::size_t stretch = std::size_t(1) << 13;

// Reads one tensor, a stretch at a time, each until the next.
class Reading {
 public:
  explicit Reading(const Whole& whole) : whole_(whole) {}
  const float* operator()(std::size_t first, std::size_t n) {
    if (room_.size() < n) room_.resize(n);
    return whole_.elements->at(first, n, room_.data());
  }
  const std::vector<Lying>& lying(std::size_t first, std::size_t n) {
    if (room_.size() < n) room_.resize(n);
    runs_.clear();
    whole_.elements->lie(first, n, room_.data(), runs_);
    return runs_;
  }
  // Nothing, where these are no whole rows either.
  std::vector<Columns> by_columns(std::size_t first, std::size_t n) const {
    const std::size_t cols = whole_.cols;
    if (cols == 0 || first % cols != 0 || n % cols != 0) return {};
    return whole_.elements->by_columns(first / cols, n / cols);
  }
  std::size_t cols() const { return whole_.cols; }

 private:
  const Whole& whole_;
  Tensor::Numbers room_;
  std::vector<Lying> runs_;
};

// Calls f(first, n) for stretches of `size` numbers until it returns false.
template <class F>
void by_stretches(std::size_t size, const F& f, std::size_t at_once = stretch) {
  for (std::size_t first = 0; first < size; first += at_once) {
    if (!f(first, std::min(at_once, size - first))) return;
  }
}

// Calls f(first row, how many) for as many rows as a stretch has.
template <class F>
void by_some_rows(const Whole& whole, const F& f) {
  const std::size_t at_once =
      std::max<std::size_t>(stretch / std::max<std::size_t>(whole.cols, 1), 1);
  for (std::size_t i = 0; i < whole.rows; i += at_once) f(i, std::min(at_once, whole.rows - i));
}

// Calls f(row, its numbers) for each row.
template <class F>
void by_rows(const Whole& whole, const F& f) {
  Reading reading(whole);
  const std::size_t cols = whole.cols;
  by_some_rows(whole, [&](std::size_t first, std::size_t n) {
    const float* x = reading(first * cols, n * cols);
    for (std::size_t k = 0; k < n; ++k) f(first + k, x + k * cols);
  });
}

// Calls f(row, numbers of a, numbers of b) for each row of two tensors of one shape.
template <class F>
void by_rows(const Whole& a, const Whole& b, const F& f) {
  Reading of_a(a), of_b(b);
  const std::size_t cols = a.cols;
  by_some_rows(a, [&](std::size_t first, std::size_t n) {
    const float *x = of_a(first * cols, n * cols), *y = of_b(first * cols, n * cols);
    for (std::size_t k = 0; k < n; ++k) f(first + k, x + k * cols, y + k * cols);
  });
}

// All of it.
Tensor in_memory(const Whole& whole);

// Shape and every number.
bool equal(const Whole& a, const Whole& b);

}  // namespace plumb::trace

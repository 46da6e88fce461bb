// trace/judge/given.hpp: a tensor that somebody gives to be judged, or to be judged by: in a file, or
// in memory.
//
// REFUSES  with one sentence: numbers that FP32 does not have, when they are read; in memory, shapes
//          and strides that no memory has
// COSTS    of a tensor in memory nothing is copied but the pieces that are read.
// TESTED   tests/trace/judge_test.cpp, tests/trace/given_test.cpp
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/sees.hpp"
#include "trace/store/tensor_file.hpp"

namespace plumb::trace {

class GivenTensor {
 public:
  virtual ~GivenTensor() = default;
  // Reads numbers from `first` on, in the order of rows.
  virtual void read(std::size_t first, std::span<double> into) = 0;
  // Where it is, for sentences: the file, or how the caller counts it.
  virtual std::string where() const = 0;

  const std::vector<std::size_t>& shape() const { return shape_; }
  std::size_t size() const { return size_; }  // numbers, 1 of a scalar
  const Format& format() const { return format_of(stored_); }
  // Why it cannot be read, to stand after its name; empty: it can.
  virtual std::string unreadable() const { return ""; }

 protected:
  GivenTensor(std::vector<std::size_t> shape, std::size_t size, Stored stored)
      : shape_(std::move(shape)), size_(size), stored_(stored) {}

  std::vector<std::size_t> shape_;
  std::size_t size_;
  Stored stored_;
};

using GivenTensors = std::map<std::string, std::shared_ptr<GivenTensor>>;

// All tensors of a file, by name. Throws Failure as TensorFile does.
GivenTensors tensors_in(const std::filesystem::path& file);

// Numbers of the caller, who keeps them until all is judged.
class TensorInMemory final : public GivenTensor {
 public:
  // `strides`: elements from one index of a dimension to the next; none: rows lie one behind the
  // other. `where`: what sentences call it. Throws Failure if no memory could hold it; read() does
  // if `data` is null.
  TensorInMemory(const void* data, Stored stored, std::vector<std::size_t> shape,
                 std::vector<std::ptrdiff_t> strides, std::string where);

  void read(std::size_t first, std::span<double> into) override;
  std::string where() const override { return where_; }

 private:
  std::vector<char> gathered(std::size_t first, std::size_t n) const;

  const char* data_;
  std::vector<std::ptrdiff_t> strides_;
  std::string where_;
};

// "[3, 17]": an element of a tensor of that shape.
std::string place_in(const std::vector<std::size_t>& shape, std::size_t element);

}  // namespace plumb::trace

#include "trace/judge/given.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

namespace plumb::trace {
namespace {

class TensorInFile final : public GivenTensor {
 public:
  TensorInFile(std::shared_ptr<TensorFile> file, const StoredTensor& tensor)
      : GivenTensor(tensor.shape, tensor.size, tensor.stored),
        file_(std::move(file)),
        tensor_(tensor) {}

  void read(std::size_t first, std::span<double> into) override {
    file_->read(tensor_, first, into);
  }
  std::string where() const override { return file_->path().string(); }
  std::string unreadable() const override { return tensor_.unreadable; }

 private:
  std::shared_ptr<TensorFile> file_;
  const StoredTensor& tensor_;  // of the file
};

// Indices of element `e`, in the order of rows.
std::vector<std::size_t> index_of(const std::vector<std::size_t>& shape, std::size_t e) {
  std::vector<std::size_t> index(shape.size());
  for (std::size_t d = index.size(); d-- > 0;) {
    index[d] = e % shape[d];
    e /= shape[d];
  }
  return index;
}

// How many numbers a shape has. Throws Failure if their bytes could not be counted.
std::size_t numbers_of(const std::vector<std::size_t>& shape, std::size_t width,
                       const std::string& where) {
  std::size_t n = 1;
  for (const std::size_t d : shape) {
    if (d == 0) return 0;
  }
  for (const std::size_t d : shape) {
    if (d > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / width / n) {
      throw Failure(fmt::format("{} says that it is {}, which no memory holds; give its real shape",
                                where, text_of(shape)));
    }
    n *= d;
  }
  return n;
}

bool rows_one_behind_the_other(const std::vector<std::size_t>& shape,
                               const std::vector<std::ptrdiff_t>& strides) {
  std::size_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != static_cast<std::ptrdiff_t>(step)) return false;
    step *= shape[d];
  }
  return true;
}

}  // namespace

GivenTensors tensors_in(const std::filesystem::path& file) {
  const auto open = std::make_shared<TensorFile>(file);
  GivenTensors tensors;
  for (const auto& [name, tensor] : open->tensors()) {
    tensors.emplace(name, std::make_shared<TensorInFile>(open, tensor));
  }
  return tensors;
}

TensorInMemory::TensorInMemory(const void* data, Stored stored, std::vector<std::size_t> shape,
                               std::vector<std::ptrdiff_t> strides, std::string where)
    : GivenTensor(std::move(shape), 0, stored),
      data_(static_cast<const char*>(data)),
      strides_(std::move(strides)),
      where_(std::move(where)) {
  size_ = numbers_of(shape_, width_of(stored), where_);
  if (!strides_.empty() && strides_.size() != shape_.size()) {
    throw Failure(fmt::format("{} has {} dimensions and {} strides; give one for each", where_,
                              shape_.size(), strides_.size()));
  }
  if (!strides_.empty() && rows_one_behind_the_other(shape_, strides_)) strides_.clear();
}

std::vector<char> TensorInMemory::gathered(std::size_t first, std::size_t n) const {
  const std::size_t width = width_of(stored_);
  std::vector<char> bytes(n * width);
  std::vector<std::size_t> index = index_of(shape_, first);
  for (std::size_t e = 0; e < n; ++e) {
    std::ptrdiff_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      at += static_cast<std::ptrdiff_t>(index[d]) * strides_[d];
    }
    std::memcpy(bytes.data() + e * width, data_ + at * static_cast<std::ptrdiff_t>(width), width);
    for (std::size_t d = index.size(); d-- > 0 && ++index[d] == shape_[d];) index[d] = 0;
  }
  return bytes;
}

void TensorInMemory::read(std::size_t first, std::span<double> into) {
  if (into.empty()) return;
  if (data_ == nullptr) {
    throw Failure(fmt::format("{} is {} numbers at the address NULL; say where they are", where_,
                              text_of(shape_)));
  }
  const std::size_t width = width_of(stored_);
  std::size_t read = 0;
  if (strides_.empty()) {
    read = read_numbers({data_ + first * width, into.size() * width}, stored_, into);
  } else {
    read = read_numbers(gathered(first, into.size()), stored_, into);
  }
  if (read == into.size()) return;
  throw Failure(
      fmt::format("{} of {} is {}, which FP32 does not have; cast it as the kernel does, "
                  "and give that",
                  place_in(shape_, first + read), where_, into[read]));
}

std::string place_in(const std::vector<std::size_t>& shape, std::size_t element) {
  return fmt::format("[{}]", fmt::join(index_of(shape, element), ", "));
}

}  // namespace plumb::trace

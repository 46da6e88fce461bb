#include "trace/whole.hpp"

namespace plumb::trace {
namespace {

class InMemory : public Elements {
 public:
  explicit InMemory(std::shared_ptr<const Tensor> tensor) : tensor_(std::move(tensor)) {}
  const float* at(std::size_t first, std::size_t, float*) const override {
    return tensor_->values.data() + first;
  }

 private:
  std::shared_ptr<const Tensor> tensor_;
};

}  // namespace

Whole::Whole(const Tensor& tensor)
    : Whole(std::shared_ptr<const Tensor>(std::shared_ptr<const Tensor>(), &tensor)) {}

Whole::Whole(std::shared_ptr<const Tensor> tensor, const Format& f)
    : rows(tensor->rows),
      cols(tensor->cols),
      elements(std::make_shared<InMemory>(std::move(tensor))),
      format(f) {}

Tensor in_memory(const Whole& whole) {
  Tensor all(whole.rows, whole.cols, to_be_written);
  by_stretches(all.size(), [&](std::size_t first, std::size_t n) {
    float* into = all.values.data() + first;
    const float* x = whole.elements->at(first, n, into);
    if (x != into) std::copy(x, x + n, into);
    return true;
  });
  return all;
}

bool equal(const Whole& a, const Whole& b) {
  if (!a.has_shape_of(b)) return false;
  Reading of_a(a), of_b(b);
  bool same = true;
  by_stretches(a.size(), [&](std::size_t first, std::size_t n) {
    const float *x = of_a(first, n), *y = of_b(first, n);
    return same = std::equal(x, x + n, y);
  });
  return same;
}

}  // namespace plumb::trace

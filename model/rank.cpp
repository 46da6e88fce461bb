#include "model/rank.hpp"

namespace plumb {
namespace {

Placement placed(const Tensor& x, Held held, int tp, int tp_size) {
  const auto size = static_cast<std::size_t>(tp_size);
  const auto mine = static_cast<std::size_t>(tp);
  if (held == Held::rows) {
    return row_slice(x.rows * size, x.cols, x.rows * mine, x.rows * (mine + 1));
  }
  if (held == Held::columns) {
    return column_slice(x.rows, x.cols * size, x.cols * mine, x.cols * (mine + 1));
  }
  return whole(x.rows, x.cols);
}

}  // namespace

Tensor Rank::own_tokens(const Tensor& x) const {
  if (!l.sp) return x;
  Tensor mine(x.rows / where.tp_size, x.cols);
  std::copy_n(x.row(first(x.rows)), mine.size(), mine.values.begin());
  return mine;
}

void Rank::tap_leaf(const std::string& id, const Tensor& x, Held held, const Format& format) {
  record.shards[id] = {placed(x, held, where.tp, where.tp_size), x, format};
}

void Rank::tap_step(const std::string& id, const Tensor& x, Held held, const Format& format,
                    const Evaluation& ran) {
  tap_leaf(id, x, held, format);
  record.ran[id] = ran;
}

void Rank::tap(const std::string& name, const Tensor& x, Held held, const Format& format,
               const Evaluation& ran) {
  tap_step("m" + std::to_string(where.micro_batch) + "/" + name, x, held, format, ran);
}

Tensor Rank::multiply(View<float> a, View<float> b) const {
  Tensor product(a.rows, b.cols);
  backend.gemm(a, b, product.values.data(), product.cols, false);
  return product;
}

void Rank::collect(const std::string& parameter, const std::string& as, const Tensor& gradient,
                   Held held, const Evaluation& ran) {
  tap(as + "/wgrad", gradient, held, fp32, ran);
  Tensor& total = main_grad[parameter];
  if (total.size() == 0) total = Tensor(gradient.rows, gradient.cols);
  add_to(total, gradient);
}

}  // namespace plumb

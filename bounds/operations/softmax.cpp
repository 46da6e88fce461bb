// softmax: p_tj = exp(x_tj - m_t) / z_t,  m_t = max_j x_tj,  z_t = sum_j exp(x_tj - m_t)
//
//   inputs     x (T, N)                              outputs   p (T, N)
// softmax_grad: dx_tj = p_tj (dp_tj - sum_i p_ti dp_ti)
//   inputs     p, dp (T, N)                          outputs   dx (T, N)
// softmax_merge: what ranks know of their own keys, put together (context parallelism, T = tokens)
//   l = ln sum_r exp(l_r),  o = sum_r exp(l_r - l) o_r
//   inputs     o_1 (T, D), l_1 (T, 1), o_2, l_2 ...  outputs   o (T, D), l (T, 1)
//
//   evaluate   sums over j: pairwise, halves of the row added; softmax_grad a chain of fused
//              multiply-adds; over ranks a chain in their order. Each step rounded to FP32; one
//              rounding to the output format, which l does not get: it stays FP32.
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/softmax_row.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  Matrix<T> p(call[0].rows, call[0].cols);
  for (std::size_t t = 0; t < p.rows; ++t) {
    const Row<T> row(call[0].row(t), p.cols, call.sums, call.form);
    const T sum = with_named_error(row.sum);
    for (std::size_t j = 0; j < p.cols; ++j) p(t, j) = row.exponentials[j] / sum;
  }
  call.roundings.round(p, call.how.output);
  return as_outputs(std::move(p));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  const Matrix<T>& p = call[0];
  Matrix<T> dx = call[1];
  for (std::size_t t = 0; t < dx.rows; ++t) {
    Sum<T> products(call.sums);
    for (std::size_t j = 0; j < dx.cols; ++j) products.add_product(p(t, j), dx(t, j));
    const T along = with_named_error(products.total());
    for (std::size_t j = 0; j < dx.cols; ++j) dx(t, j) = p(t, j) * (dx(t, j) - along);
  }
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

template <class T>
std::vector<Matrix<T>> merge(const Call<T>& call) {
  using std::log;
  const std::size_t ranks = call.inputs.size() / 2;
  Matrix<T> o(call[0].rows, call[0].cols);
  Matrix<T> l(o.rows, 1);
  for (std::size_t t = 0; t < o.rows; ++t) {
    T largest = call[1].values[t];
    for (std::size_t r = 1; r < ranks; ++r) largest = std::max(largest, call[2 * r + 1].values[t]);
    Sum<T> sum(call.sums);
    for (std::size_t r = 0; r < ranks; ++r) sum.add(exp(call[2 * r + 1].values[t] - largest));
    l.values[t] = largest + log(sum.total());
    const T whole = with_named_error(l.values[t]);
    SumTable<T> row(1, o.cols, call.sums);
    for (std::size_t r = 0; r < ranks; ++r) {
      const T weight = with_named_error(exp(call[2 * r + 1].values[t] - whole));
      for (std::size_t d = 0; d < o.cols; ++d) row.add_product(0, d, weight, call[2 * r](t, d));
    }
    const Matrix<T> all = std::move(row).totals();
    std::copy_n(all.row(0), o.cols, o.row(t));
  }
  call.roundings.round(o, call.how.output);
  return as_outputs(std::move(o), std::move(l));
}

std::size_t terms(const ToleranceCall& call) { return call[0].cols; }

void random_logits(RandomCall& c) {
  c.logits(c.cols);
  c.one_part();
}

void random_grad(RandomCall& c) {
  c.add(value_of_softmax(c.draw.moderate(c.rows, c.cols, 3)));
  c.table();
}

void random_merge(RandomCall& c) {
  for (std::size_t r = c.draw.between(1, 5); r > 0; --r) {
    c.table();
    c.moderate(c.rows, 1, 3);
  }
}

void shaped_grad(Maker& m) {
  m.table();
  m.e.inputs[0] = value_of_softmax(m.e.inputs[0]);
  m.table();
}

void shaped_merge(Maker& m) {
  for (int rank = 0; rank < 2; ++rank) {
    m.table();
    m.drawn(m.rows, 1);
  }
}

}  // namespace

extern const Operation softmax{
    .id = "softmax",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance_by<forward<RunningError>, forward<ErrorMoments>, 0>,
    .sums = SumOrder::tree,
    .schema = {.inputs = {{"x", "T", "N"}}, .outputs = {{"p", "T", "N"}}},
    .examples = {.random = random_logits, .shaped = one_table},
    .sums_as_asked = true,
    .terms = terms,
    .forms = softmax_forms,
};
extern const Operation softmax_grad{
    .id = "softmax_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_by<grad<RunningError>, grad<ErrorMoments>, 0, 1>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"p", "T", "N"}, {"dp", "T", "N"}}, .outputs = {{"dx", "T", "N"}}},
    .examples = {.random = random_grad, .shaped = shaped_grad},
    .sums_as_asked = true,
};
extern const Operation softmax_merge{
    .id = "softmax_merge",
    .evaluate = merge<float>,
    .value = merge<double>,
    .truth = merge<BigFloat>,
    .tolerance = tolerance_by<merge<RunningError>, merge<ErrorMoments>>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {repeated({"o", "T", "D"}), repeated({"l", "T", "1"})},
               .outputs = {{"o", "T", "D"}, {"l", "T", "1"}}},
    .examples = {.random = random_merge, .shaped = shaped_merge},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds

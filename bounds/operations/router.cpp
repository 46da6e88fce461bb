// router: probabilities of experts, and by how much the choice of the first k was decided
//
//   inputs       x (T, E): logits, [b (E, 1): their bias for the choice alone]
//   outputs      p (T, E), m (T, 1), l (T, 1)
//   attributes   k: so many experts a token, 1 <= k < E
//   p_tj = exp(x_tj - max_t) / z_t,  z_t = sum_i exp(x_ti - max_t)
//   l_t  = max_t + ln z_t
//   m_t  = r_t(k) - r_t(k+1), in falling order, r = x + b
//
//   evaluate     the sum of exponentials from expert to expert, each step rounded to FP32; p once
//                to the output format; m and l stay FP32
// The choice itself is top_k's; which rows could have gone otherwise: bounds/operations/router.hpp.
#include "bounds/operations/router.hpp"

#include <cmath>
#include <functional>
#include <stdexcept>

#include "bounds/examples/routed.hpp"
#include "bounds/sum.hpp"
#include "bounds/tolerance.hpp"
#include "number/rows.hpp"

namespace plumb::bounds {
namespace {

template <class T>
T margin_of(std::vector<T> falling, std::size_t k) {
  std::ranges::sort(falling, [](const T& a, const T& b) { return b < a; });
  return falling[k - 1] - falling[k];
}

template <class T>
T sum_of_row(const std::vector<T>& e, const SumsIn& in) {
  if (in.way == SumsIn::Way::promised) return sum_of(e.data(), e.size());
  Sum<T> sum(in);
  for (const T& x : e) sum.add(x);
  return sum.total();
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  using std::log;
  const Matrix<T>& x = call[0];
  const std::size_t k = call.count("k");
  if (k < 1 || k >= x.cols) {
    throw std::invalid_argument("router: " + std::to_string(k) + " of " + std::to_string(x.cols) +
                                " experts; k is at least 1, and one expert is not chosen");
  }
  Matrix<T> p(x.rows, x.cols), margins(x.rows, 1), lse(x.rows, 1);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T largest = largest_of(x.row(t), x.cols);
    const std::vector<T> e = exponentials(x.row(t), x.cols, largest);
    const T sum = with_named_error(sum_of_row(e, call.sums));
    for (std::size_t j = 0; j < x.cols; ++j) p(t, j) = e[j] / sum;
    std::vector<T> ratings(x.row(t), x.row(t) + x.cols);
    for (std::size_t j = 0; call.inputs.size() > 1 && j < x.cols; ++j) {
      ratings[j] = ratings[j] + call[1].values[j];
    }
    margins.values[t] = margin_of(std::move(ratings), k);
    lse.values[t] = largest + log(sum);
  }
  call.roundings.round(p, call.how.output);
  std::vector<Matrix<T>> outputs = as_outputs(std::move(p));
  outputs.push_back(std::move(margins));
  outputs.push_back(std::move(lse));
  return outputs;
}

}  // namespace

std::vector<std::size_t> undecided(const Matrix<double>& margins, const Matrix<double>& logit_error,
                                   const Matrix<double>& margin_error) {
  if (margins.size() != logit_error.size() || margins.size() != margin_error.size()) {
    throw std::invalid_argument("undecided: one error of the logits and one of the margin a row");
  }
  std::vector<std::size_t> rows;
  for (std::size_t t = 0; t < margins.size(); ++t) {
    const double needed = term<"router.logits">(2 * logit_error.values[t]) +
                          term<"router.margin">(margin_error.values[t]);
    if (!(margins.values[t] > needed * (1 + 0x1p-50))) rows.push_back(t);
  }
  return rows;
}

extern const Operation router{
    .id = "router",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "E"}, optional({"b", "E", "1"})},
               .outputs = {{"p", "T", "E"}, {"m", "T", "1"}, {"l", "T", "1"}},
               .attributes = {count("k")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "lv", .as_many = true}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "lv", .as_many = true}); },
                 .usual = "256x64"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds

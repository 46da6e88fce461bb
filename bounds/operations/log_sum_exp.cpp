// log_sum_exp: l_t = m_t + ln sum_j exp(x_tj - m_t),  m_t = max_j x_tj
//
//   inputs     x (T, N)                              outputs   l (T, 1)
//   evaluate   the sum pairwise, halves of the row added; each step rounded to FP32, which l stays
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/softmax_row.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> log_sum(const Call<T>& call) {
  using std::log;
  const Matrix<T>& x = call[0];
  Matrix<T> l(x.rows, 1);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const Row<T> row(x.row(t), x.cols, call.sums, call.form);
    l.values[t] = row.largest + log(row.sum);
  }
  return as_outputs(std::move(l));
}

void random_logits(RandomCall& c) {
  c.logits(c.cols);
  c.one_part();
}

}  // namespace

extern const Operation log_sum_exp{
    .id = "log_sum_exp",
    .evaluate = log_sum<float>,
    .value = log_sum<double>,
    .truth = log_sum<BigFloat>,
    .tolerance = tolerance_by<log_sum<RunningError>, log_sum<ErrorMoments>, 0>,
    .sums = SumOrder::tree,
    .schema = {.inputs = {{"x", "T", "N"}}, .outputs = {{"l", "T", "1"}}},
    .examples = {.random = random_logits, .shaped = one_table},
    .sums_as_asked = true,
    .forms = softmax_forms,
};

}  // namespace plumb::bounds

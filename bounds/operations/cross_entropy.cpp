// cross_entropy: lse_t = m_t + ln sum_v exp(x_tv - m_t)
//                loss = sum_t mask_t (lse_t - x_t,label_t) / n
//
//   inputs       logits (T, V), labels (T, 1), mask (T, 1), count (1, 1): n, the counted tokens of
//                the whole step                               outputs   lse (T, 1), loss (1, 1)
//   attributes   smoothing (default 0): (1 - smoothing) of the loss above and smoothing of
//                lse - mean_v x_tv, the loss of a uniform target; weight (default 1): times the
//                loss
//   evaluate     sums over v in `parts` slices combined on an FP32 wire; loss: a chain over t
//   forms        two_pass; online: the largest logit of those so far (softmax_row.hpp), and perhaps
//                ln sum - (x_label - m) for the loss
// cross_entropy_grad: dx_tv = (exp(x_tv - lse_t) - (1 - smoothing) [v = label_t] - smoothing / V)
//                             mask_t / n (times weight) (times s)
//   inputs       logits, labels, mask, count, lse, [s (1, 1)]       output   dx (T, V)
//                s: what the loss is scaled with, so that small gradients survive a narrow range
#include <algorithm>
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/index.hpp"
#include "bounds/operations/softmax_row.hpp"
#include "bounds/sum.hpp"
#include "bounds/tolerance.hpp"
#include "number/exponential.hpp"

namespace plumb::bounds {
namespace {

// Sums of each row of logits, over the slices of the vocabulary that ranks have.        // (T, 1)
template <class T, class Of>
Matrix<T> sums(const Call<T>& call, const Of& of) {
  const Matrix<T>& x = call[0];
  const std::vector<std::size_t> begins = parting(x.cols, call.how).begins;
  std::vector<Matrix<T>> parts;
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    Matrix<T> part(x.rows, 1);
    for (std::size_t t = 0; t < x.rows; ++t) {
      Sum<T> sum(call.sums);
      for (std::size_t v = begins[p]; v < begins[p + 1]; ++v) sum.add(of(t, x(t, v)));
      part.values[t] = sum.total();
    }
    parts.push_back(std::move(part));
  }
  return sum_in_rank_order(std::move(parts), call.how, call.roundings);
}

// Sums of exponentials about each row's largest logit.                               // (T, 1)
template <class T>
Matrix<T> sums_of_exponentials(const Call<T>& call, const Matrix<T>& largest) {
  const auto of = [&](std::size_t t, const T& logit) { return exp(logit - largest.values[t]); };
  if constexpr (std::is_same_v<T, RunningError>) {
    if (call.form == online) {
      const Matrix<T>& x = call[0];
      Matrix<T> all(x.rows, 1);
      for (std::size_t t = 0; t < x.rows; ++t) {
        const Row<T> row(x.row(t), x.cols, call.sums, call.form);
        all.values[t] = row.sum;
      }
      return all;
    }
  }
  return sums(call, of);
}

// Of a token that does not count any label will do: PyTorch's is -100.
template <class T>
std::size_t label_of(const Call<T>& call, std::size_t t, std::string_view what) {
  const T &label = call[1].values[t], &counts = call[2].values[t], none = T(0);
  const bool is_label = !(label < none) && label < static_cast<T>(call[0].cols);
  if (!is_label && !(counts < none) && !(none < counts)) return 0;
  return index_of(label, call[0].cols, what);
}

// lse - target; online perhaps ln sum - (target - m), whose difference is rounded, too.
template <class T>
T loss_of(const T& lse, const T& target, const T& largest, std::size_t form) {
  T loss = lse - target;
  if constexpr (std::is_same_v<T, RunningError>) {
    const double off = (target - largest).most();
    if (form == online && off > 0) {
      loss.err(term<"cross_entropy.off">(RunningError::half_spacing_fp32(off)), Share::steps);
    }
  }
  return loss;
}

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  using std::log;
  const Matrix<T>& x = call[0];
  const double smoothing = call.attribute("smoothing", 0);
  Matrix<T> largest(x.rows, 1);
  for (std::size_t t = 0; t < x.rows; ++t) {
    largest.values[t] = *std::max_element(x.row(t), x.row(t) + x.cols);
  }
  Matrix<T> lse = sums_of_exponentials(call, largest);
  Matrix<T> all;
  if (smoothing != 0) all = sums(call, [](std::size_t, const T& logit) { return logit; });
  Matrix<T> loss(1, 1);
  Sum<T> of_tokens(call.sums);
  for (std::size_t t = 0; t < x.rows; ++t) {
    lse.values[t] = largest.values[t] + log(lse.values[t]);
    T target = x(t, label_of(call, t, "cross_entropy: a label"));
    if (smoothing != 0) {
      target = static_cast<T>(1 - smoothing) * target +
               static_cast<T>(smoothing / static_cast<double>(x.cols)) * all.values[t];
    }
    of_tokens.add(loss_of(lse.values[t], target, largest.values[t], call.form) * call[2].values[t]);
  }
  loss.values[0] = of_tokens.total() / call[3].values[0];
  if (const double w = call.attribute("weight", 1); w != 1) loss.values[0] *= static_cast<T>(w);
  call.roundings.round(lse, call.how.output);
  call.roundings.round(loss, call.how.output);
  return as_outputs(std::move(lse), std::move(loss));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  const double smoothing = call.attribute("smoothing", 0);
  const double of_loss = call.attribute("weight", 1);
  const T here = static_cast<T>(1 - smoothing);
  const T anywhere = static_cast<T>(smoothing / static_cast<double>(x.cols));
  Matrix<T> dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const std::size_t label = label_of(call, t, "cross_entropy_grad: a label");
    T weight = call[2].values[t] / call[3].values[0];
    if (of_loss != 1) weight *= static_cast<T>(of_loss);
    if (call.inputs.size() > 5) weight *= call[5].values[0];
    for (std::size_t v = 0; v < x.cols; ++v) {
      const T p = exp(x(t, v) - call[4].values[t]);
      T off = v == label ? p - here : p;
      if (smoothing != 0) off -= anywhere;
      dx(t, v) = off * weight;
    }
  }
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

void random_forward(RandomCall& c) {
  const std::size_t vocabulary = c.draw.between(4, 80);
  c.logits(vocabulary);
  c.add(c.draw.whole(c.rows, vocabulary));
  c.add(c.draw.whole(c.rows, 2));
  c.add(Matrix<double>(1, 1, static_cast<double>(c.rows)));
  c.e.how.wire = fp32;
}
void choose(RandomCall& c) {
  if (c.draw.between(0, 2) == 0) c.e.attributes["smoothing"] = 0.1;
  if (c.draw.between(0, 2) == 0) c.e.attributes["weight"] = 0.3;
}
// The sums of exponentials are taken to be a little above each row's largest logit.
void random_backward(RandomCall& c) {
  random_forward(c);
  const Matrix<double>& x = c.e.inputs[0];
  Matrix<double> lse(x.rows, 1);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const double largest = *std::max_element(x.row(t), x.row(t) + x.cols);
    lse.values[t] = static_cast<double>(static_cast<float>(largest + 0.5));
  }
  c.add(std::move(lse));
  if (c.draw.coin()) c.add(Matrix<double>(1, 1, 1024));
  choose(c);
}

void shaped_forward(Maker& m) {
  m.table();
  m.filled(m.rows, 1, 0);
  for (std::size_t t = 0; t < m.rows; ++t) {
    m.e.inputs.back().values[t] = static_cast<double>(t % m.cols);
  }
  m.filled(m.rows, 1, 1);
  m.filled(1, 1, static_cast<double>(m.rows));
}
void shaped_backward(Maker& m) {
  shaped_forward(m);
  m.filled(m.rows, 1, 0);
  const Matrix<double>& x = m.e.inputs[0];
  for (std::size_t t = 0; t < m.rows; ++t) {
    double sum = 0;
    for (std::size_t v = 0; v < m.cols; ++v) sum += std::exp(x(t, v));
    m.e.inputs.back().values[t] = static_cast<double>(static_cast<float>(std::log(sum)));
  }
}

}  // namespace

extern const Operation cross_entropy{
    .id = "cross_entropy",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance_by<forward<RunningError>, forward<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"logits", "T", "V"},
                          {"labels", "T", "1"},
                          {"mask", "T", "1"},
                          {"count", "1", "1"}},
               .outputs = {{"lse", "T", "1"}, {"loss", "1", "1"}},
               .attributes = {or_else(real("smoothing", 0, 1)), or_else(real("weight"), 1)}},
    .examples = {.random = [](RandomCall& c) { random_forward(c), choose(c); },
                 .shaped = shaped_forward},
    .sums_as_asked = true,
    .forms = softmax_forms,
};
extern const Operation cross_entropy_grad{
    .id = "cross_entropy_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_by<grad<RunningError>, grad<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"logits", "T", "V"},
                          {"labels", "T", "1"},
                          {"mask", "T", "1"},
                          {"count", "1", "1"},
                          {"lse", "T", "1"},
                          optional({"s", "1", "1"})},
               .outputs = {{"dx", "T", "V"}},
               .attributes = {or_else(real("smoothing", 0, 1)), or_else(real("weight"), 1)}},
    .examples = {.random = random_backward, .shaped = shaped_backward},
};

}  // namespace plumb::bounds

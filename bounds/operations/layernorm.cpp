// layernorm: y = (x - mu) r w + b,  mu = sum x / D,  r = 1 / sqrt(sum (x - mu)^2 / D + eps)
//
//   inputs       x (T, D), w (D, 1), b (D, 1)        y (T, D)
//   attributes   eps; one_pass (default 0): the variance as mean of squares less square of mean, as
//                some kernels take it; its bound grows with (mu / sigma)^2, and so do its errors;
//                welford (default 0): mean and sum of squares brought up to date element by
//                element, m_k = m_{k-1} + (x_k - m_{k-1}) / k, s_k = s_{k-1} + (x_k - m_{k-1})
//                (x_k - m_k); its bound grows with mu / sigma (theory.md N3)
//   forms        the three above, which a call without these attributes may be asked for, each plain
//                or folded: y = x a + c, a = r w, c = b - mu a, or y = (x r - mu r) w + b; what is
//                folded loses in proportion to |mu| / sigma, too
//   evaluate     two passes: a chain of additions for mu, a chain of fused multiply-adds for the
//                squares; then each step rounded to FP32; one rounding to the output format
// Also here: layernorm_grad (dx) and layernorm_wgrad (dw, db).
//   dx = r (g - mean(g) - xhat mean(g xhat)),  g = dy w,  xhat = (x - mu) r      inputs x, w, dy
//   dw_j = sum_t dy_tj xhat_tj,  db_j = sum_t dy_tj, tokens in `parts` slices    inputs x, w, dy
//
// SOURCES  theory.md N3; bounds/SOURCES.md [CGL83]
#include <bit>
#include <cmath>
#include <stdexcept>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/tolerance.hpp"
#include "number/rows.hpp"

namespace plumb::bounds {
namespace {

template <class T>
struct Moments {
  T mean, inverse_deviation;
};

template <class T>
T sum_as_asked(const T* x, std::size_t n, const SumsIn& in) {
  Sum<T> sum(in);
  for (std::size_t j = 0; j < n; ++j) sum.add(x[j]);
  return sum.total();
}
template <class T>
T squares_as_asked(const T* x, std::size_t n, const T& mean, const SumsIn& in) {
  Sum<T> squares(in);
  for (std::size_t j = 0; j < n; ++j) squares.add_square(x[j] - mean);
  return squares.total();
}

// The variance from sums of x and x^2.
template <class T>
Moments<T> one_pass(const T* x, std::size_t n, double eps, const SumsIn& in) {
  using std::sqrt;
  Sum<T> sum(in), squares(in);
  for (std::size_t j = 0; j < n; ++j) {
    sum.add(x[j]);
    squares.add_square(x[j]);
  }
  const T mean = with_named_error(sum.total() / static_cast<T>(n));
  const T variance = squares.total() / static_cast<T>(n) - mean * mean;
  return {mean, with_named_error(T(1) / sqrt(variance + static_cast<T>(eps)))};
}

template <class T>
Moments<T> moments(const T* x, std::size_t n, double eps, const SumsIn& in) {
  using std::sqrt;
  const bool promised = in.way == SumsIn::Way::promised;
  const T sum = promised ? sum_of(x, n) : sum_as_asked(x, n, in);
  const T mean = with_named_error(sum / static_cast<T>(n));
  const T squares = promised ? squares_of(x, n, mean) : squares_as_asked(x, n, mean, in);
  return {mean, with_named_error(T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps)))};
}

// m + (x - m) / k, given off = x - m. Written out for RunningError, whose steps cannot know that m
// comes twice and its error counts (1 - 1/k) times only: with 1 + 1/k it would grow n-fold along a
// row.
template <class T>
T brought_up_to_date(const T& m, const T&, const T& off, std::size_t k) {
  return m + off / static_cast<T>(k);
}
RunningError brought_up_to_date(const RunningError& m, const RunningError& x,
                                const RunningError& off, std::size_t k) {
  if (k == 1) return x;  // m is 0
  const double weight = 1 / static_cast<double>(k);
  RunningError mean = RunningError::of(m.value + off.value * weight);
  mean.carry(term<"welford.mean">((1 - weight) * (1 + 0x1p-40)), m);
  mean.carry(term<"welford.element">(weight * (1 + 0x1p-40)), x);
  // Rounding x - m, then the quotient, then the sum; FP64's own steps are far below 2^-24 of these.
  const double size = off.most() * (1 + 0x1p-22);
  const double minus = RunningError::half_spacing_fp32(size);
  // A quotient by a power of two is exact above the spacing at zero, where quotients are rounded.
  const double ulps = arithmetic_in_force.divide_ulp;
  const bool exact = std::has_single_bit(k) && ulps <= 0.5;
  const double flush = arithmetic_in_force.flushes ? 2 * smallest_normal_fp32 : 0;
  const double quotient =
      2 * ulps * RunningError::half_spacing_fp32(exact ? 0x1p-149 : (size + minus) * weight) +
      flush;
  if (off.most() == 0) return mean;
  mean.err(term<"welford.minus">(minus * weight), Share::sums);
  mean.err(term<"welford.quotient">(quotient), Share::sums);
  return mean.rounded(Share::sums, (size + minus) * weight + quotient);
}

// Updating, or joining such moments of parts of the row, in any order (theory.md N4).
//
//   mean       |m^ - m| <= max E_x + (n + 1) / 2 u (3 + q) (X + R),  X = max |x|,
//              R = max x - min x,  q = 2 c for quotients of c ulp
//   squares    |S^ - S| <= (1 + g) (2 d sqrt(S W) + W d^2) + g S,  g = gamma_(n + 7 + 2 q),
//              d = 2 |m^ - m|,  W = n log2 n
struct InAnyOrder {
  RunningError mean, squares;
};
InAnyOrder welford_in_any_order(const RunningError* x, std::size_t n) {
  double sum = 0, most = 0, error = 0, low = x[0].value, high = x[0].value;
  for (std::size_t j = 0; j < n; ++j) {
    sum += x[j].value;
    most = std::max(most, x[j].most());
    error = std::max(error, x[j].worst());
    low = std::min(low, x[j].value);
    high = std::max(high, x[j].value);
  }
  const auto count = static_cast<double>(n);
  constexpr double u = 0x1p-24 * (1 + 0x1p-10);  // enlarged: squares of u
  const double flush = arithmetic_in_force.flushes ? 4 * smallest_normal_fp32 : 0x1p-147;
  InAnyOrder all{RunningError::of(sum / count), RunningError::of(0)};
  for (std::size_t j = 0; j < n; ++j) {
    const double off = x[j].value - all.mean.value;
    all.squares.value += off * off;
  }
  if (n == 1) {
    all.mean = x[0];
    return all;
  }
  const double range = high - low + 2 * error, q = 2 * arithmetic_in_force.divide_ulp;
  const double mean_error =
      error + term<"welford.mean_any">((count + 1) / 2 * u * (3 + q) * (most + range)) +
      count * flush;
  const double d = 2 * mean_error, w = count * std::log2(count), s = all.squares.value;
  const double passes = count + 7 + 2 * q, g = passes * u / (1 - passes * u);
  const double of_means = term<"welford.means">(2 * d * std::sqrt(s * w) + w * d * d);
  all.mean.err_surely(mean_error, Share::sums);
  all.squares.err_surely((1 + g) * of_means + term<"welford.sum_any">(g * s) + count * flush,
                         Share::sums);
  return all;
}

// Is it asked of a kernel whose updates may come in another order than 0, 1, 2 ...?
bool in_another_order(const SumsIn& in) {
  return in.way == SumsIn::Way::any ||
         (in.way == SumsIn::Way::ordered && in.order.kind != Order::Kind::sequential);
}

template <class T>
Moments<T> welford(const T* x, std::size_t n, double eps, const SumsIn& in) {
  using std::fma;
  using std::sqrt;
  if constexpr (std::is_same_v<T, RunningError>) {
    if (in_another_order(in)) {
      const auto [mean, squares] = welford_in_any_order(x, n);
      return {mean, T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps))};
    }
  }
  T mean = 0;
  T squares = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const T off = x[j] - mean;
    mean = with_named_error(brought_up_to_date(mean, x[j], off, j + 1));
    squares = fma(off, x[j] - mean, squares);
  }
  return {mean, with_named_error(T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps)))};
}

template <class T>
auto moments_by(const Call<T>& call) {
  bool once = call.attribute("one_pass", 0) != 0, updating = call.attribute("welford", 0) != 0;
  if (!once && !updating) {  // the form counts where the call says nothing itself
    once = call.form / 2 == 1;
    updating = call.form / 2 == 2;
  }
  if (once && updating) throw std::invalid_argument("layernorm: one_pass or welford, not both");
  return once ? one_pass<T> : updating ? welford<T> : moments<T>;
}

constexpr List<Form> forms{{"two_pass"},        {"two_pass_folded"}, {"one_pass"},
                           {"one_pass_folded"}, {"welford"},         {"welford_folded"}};

// x a + c with all that does not depend on x in a and c; or (x r - mu r) w + b. The bound is the
// larger of both.
template <class T>
T folded(const T& x, const Moments<T>& m, const T& w, const T& b) {
  const T a = m.inverse_deviation * w;
  const T y = x * a + (b - m.mean * a);
  if constexpr (std::is_same_v<T, RunningError>) {
    const T& r = m.inverse_deviation;
    const T other = (x * r - m.mean * r) * w + b;
    return other.worst() > y.worst() ? other : y;
  }
  return y;
}

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  const auto& w = call[1].values;
  const auto& b = call[2].values;
  const auto moments_of = moments_by(call);
  const bool folds = call.form % 2 == 1;
  Matrix<T> y(x.rows, x.cols, to_be_written);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const Moments<T> m = moments_of(x.row(t), x.cols, call.attribute("eps"), call.sums);
    if (folds) {
      for (std::size_t j = 0; j < x.cols; ++j) y(t, j) = folded(x(t, j), m, w[j], b[j]);
      continue;
    }
    const auto& [mean, r] = m;
    for (std::size_t j = 0; j < x.cols; ++j) y(t, j) = (x(t, j) - mean) * r * w[j] + b[j];
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  const auto& w = call[1].values;
  const Matrix<T>& dy = call[2];
  const auto n = static_cast<T>(x.cols);
  Matrix<T> dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto [mean, r] = moments(x.row(t), x.cols, call.attribute("eps"), call.sums);
    Sum<T> all(call.sums), products(call.sums);
    for (std::size_t j = 0; j < x.cols; ++j) {
      const T g = dy(t, j) * w[j];
      all.add(g);
      products.add_product(g, (x(t, j) - mean) * r);
    }
    const T sum = with_named_error(all.total() / n);
    const T along = with_named_error(products.total() / n);
    for (std::size_t j = 0; j < x.cols; ++j) {
      dx(t, j) = r * (dy(t, j) * w[j] - sum - (x(t, j) - mean) * r * along);
    }
  }
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

template <class T>
std::vector<Matrix<T>> wgrad(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  Matrix<T> products = call[2];
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto [mean, r] = moments(x.row(t), x.cols, call.attribute("eps"), call.sums);
    for (std::size_t j = 0; j < x.cols; ++j) products(t, j) *= (x(t, j) - mean) * r;
  }
  Matrix<T> dw = column_sums(products, call.how, call.roundings, call.sums);
  return as_outputs(std::move(dw), column_sums(call[2], call.how, call.roundings, call.sums));
}

void random_forward(RandomCall& c) {
  c.e.attributes = {{"eps", 1e-5}};
  const std::size_t way = c.draw.between(0, 2);
  if (way < 2) c.e.attributes[way == 0 ? "one_pass" : "welford"] = 1;
  c.table();
  c.moderate(c.cols, 1, 0.3, 1);
  c.give(c.cols, 1);
  c.one_part();
}
void random_wgrad(RandomCall& c) {
  c.e.attributes = {{"eps", 1e-5}};
  c.table();
  c.moderate(c.cols, 1, 0.3, 1);
  c.table();
}
void random_grad(RandomCall& c) {
  random_wgrad(c);
  c.one_part();
}

void shaped_forward(Maker& m) {
  m.e.attributes = {{"eps", 1e-5}};
  m.table();
  m.weights(m.cols);
  m.weights(m.cols);
}
void shaped_grad(Maker& m) {
  m.e.attributes = {{"eps", 1e-5}};
  m.table();
  m.weights(m.cols);
  m.table();
}

}  // namespace

extern const Operation layernorm{
    .id = "layernorm",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance_by<forward<RunningError>, forward<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}, {"b", "D", "1"}},
               .outputs = {{"y", "T", "D"}},
               .attributes = {real("eps"), or_else(flag("one_pass")), or_else(flag("welford"))}},
    .examples = {.random = random_forward, .shaped = shaped_forward},
    .sums_as_asked = true,
    .forms = forms,
};
extern const Operation layernorm_grad{
    .id = "layernorm_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_by<grad<RunningError>, grad<ErrorMoments>, 0, 2>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}, {"dy", "T", "D"}},
               .outputs = {{"dx", "T", "D"}},
               .attributes = {real("eps")}},
    .examples = {.random = random_grad, .shaped = shaped_grad},
    .sums_as_asked = true,
};
extern const Operation layernorm_wgrad{
    .id = "layernorm_wgrad",
    .evaluate = wgrad<float>,
    .value = wgrad<double>,
    .truth = wgrad<BigFloat>,
    .tolerance = tolerance_by<wgrad<RunningError>, wgrad<ErrorMoments>, 0, 2>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}, {"dy", "T", "D"}},
               .outputs = {{"dw", "D", "1"}, {"db", "D", "1"}},
               .attributes = {real("eps")},
               .dealt = "T"},
    .examples = {.random = [](RandomCall& c) { random_wgrad(c), c.shard_tokens(c.rows); },
                 .shaped = shaped_grad,
                 .usual = "4096x16"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds

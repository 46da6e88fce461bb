// balance_loss: l = balance sum_e n_e sum_t p_te, small where experts take equal shares
//
//   inputs       p (T, E): probabilities, n (E, 1): copies that each expert takes  outputs  l (1,
//                1)
//   attributes   balance: coefficient E / (k T^2), over the micro-batches of a step
//   evaluate     tokens in `parts` slices, each a chain of FP32 additions; parts combined on the
//                wire; then a chain of fused multiply-adds over the experts, and one product, in
//                FP32
// z_loss: l = z sum_t lse_t^2, so that logits stay small
//   inputs       lse (T, 1)                            outputs   l (1, 1)
//   attributes   z: coefficient / T, over the micro-batches of a step
//   evaluate     tokens in `parts` slices, each a chain of FP32 fused multiply-adds; parts combined
//                on the wire; one product, in FP32
// router_grad: dx_te = p_te (g_te - sum_i p_ti g_ti + 2 z lse_t),  g_te = dp_te + balance n_e
//   inputs       p, dp (T, E), n (E, 1), lse (T, 1), [s (1, 1)]        outputs   dx (T, E)
//                s: what the loss is scaled with; balance and z above are times s here
//   attributes   balance, z: as above; the counts are constants to the gradient
//   evaluate     the sum along e a chain of FP32 fused multiply-adds; each step rounded to FP32;
//                one rounding to the output format
//
// SOURCES  bounds/SOURCES.md [Switch] [ST-MoE]
#include <cmath>

#include "bounds/examples/routed.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> balanced(const Call<T>& call) {
  using std::fma;
  const Evaluation in_fp32{call.how.parts, call.how.wire, fp32, call.how.deal};
  const Matrix<T> sums = column_sums(call[0], in_fp32, call.roundings);
  T loss = 0;
  for (std::size_t e = 0; e < sums.rows; ++e) {
    loss = fma(call[1].values[e], sums.values[e], loss);
  }
  return alone(Matrix<T>(1, 1, static_cast<T>(call.attribute("balance")) * loss));
}

template <class T>
std::vector<Matrix<T>> squared(const Call<T>& call) {
  using std::fma;
  const auto [order, begins] = parting(call[0].rows, call.how);
  std::vector<Matrix<T>> parts;
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    T sum = 0;
    for (std::size_t i = begins[p]; i < begins[p + 1]; ++i) {
      const T lse = call[0].values[order[i]];  // one number, used twice: Moment takes note
      sum = fma(lse, lse, sum);
    }
    parts.emplace_back(1, 1, sum);
  }
  Matrix<T> loss = combined(std::move(parts), call.how, call.roundings);
  loss.values[0] = static_cast<T>(call.attribute("z")) * loss.values[0];
  return alone(std::move(loss));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  using std::fma;
  const Matrix<T>& p = call[0];
  T balance = static_cast<T>(call.attribute("balance"));
  T twice_z = static_cast<T>(2 * call.attribute("z"));
  if (call.inputs.size() == 5) {
    balance *= call[4].values[0];
    twice_z *= call[4].values[0];
  }
  Matrix<T> counts = call[2];
  if constexpr (std::is_same_v<T, Moment>) {
    // The same for every token: what is lost of them is no chance.
    for (Moment& count : counts.values) count.constant = true;
  }
  Matrix<T> dx = call[1];
  for (std::size_t t = 0; t < p.rows; ++t) {
    T along = 0;
    for (std::size_t e = 0; e < p.cols; ++e) {
      dx(t, e) = shared(fma(balance, counts.values[e], dx(t, e)));
      along = fma(p(t, e), dx(t, e), along);
    }
    const T off = shared(twice_z * call[3].values[t] - along);
    for (std::size_t e = 0; e < p.cols; ++e) dx(t, e) = p(t, e) * (dx(t, e) + off);
  }
  call.roundings.round(dx, call.how.output);
  return alone(std::move(dx));
}

}  // namespace

extern const Operation balance_loss{
    .id = "balance_loss",
    .evaluate = balanced<float>,
    .value = balanced<double>,
    .truth = balanced<Truth>,
    .tolerance = tolerance_by<balanced<Near>, balanced<Moment>, 0>,
    .schema = {.inputs = {{"p", "T", "E"}, {"n", "E", "1"}},
               .outputs = {{"l", "1", "1"}},
               .attributes = {real("balance"), or_else(real("z"))},
               .dealt = "T"},
    .examples = {
        .random =
            [](RandomCall& c) {
              routed(c, {.inputs = "pn", .parted = true, .as_many = true});
              c.deal(c.e.inputs[0].rows);
            },
        .shaped = [](Maker& m) { routed(m, {.inputs = "pn", .parted = true, .as_many = true}); },
        .usual = "4096x8"},
};
extern const Operation z_loss{
    .id = "z_loss",
    .evaluate = squared<float>,
    .value = squared<double>,
    .truth = squared<Truth>,
    .tolerance = tolerance_of_squares_by<squared<Near>, squared<Moment>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"lse", "T", "1"}},
               .outputs = {{"l", "1", "1"}},
               .attributes = {real("z"), or_else(real("balance"))},
               .dealt = "T"},
    .examples = {.random =
                     [](RandomCall& c) {
                       routed(c, {.inputs = "s", .parted = true});
                       c.deal(c.e.inputs[0].rows);
                     },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "s", .parted = true}); },
                 .usual = "4096x1"},
};
extern const Operation router_grad{
    .id = "router_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<Truth>,
    .tolerance = tolerance_by<grad<Near>, grad<Moment>, 0, 1>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"p", "T", "E"},
                          {"dp", "T", "E"},
                          {"n", "E", "1"},
                          {"lse", "T", "1"},
                          optional({"s", "1", "1"})},
               .outputs = {{"dx", "T", "E"}},
               .attributes = {real("balance"), real("z")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "pgnsf", .as_many = true}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "pgnsf", .as_many = true}); },
                 .usual = "256x64"},
};

}  // namespace plumb::bounds

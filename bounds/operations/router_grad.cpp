// router_grad: dx_te = p_te (g_te - sum_i p_ti g_ti + 2 z lse_t),  g_te = dp_te + balance n_e
//
//   inputs       p, dp (T, E), n (E, 1), lse (T, 1), [s (1, 1)]        outputs   dx (T, E)
//                s: what the loss is scaled with; balance and z are times s here
//   attributes   balance, z: as balance_loss and z_loss have them; the counts are constants to the
//                gradient
//   evaluate     the sum along e a chain of FP32 fused multiply-adds; each step rounded to FP32;
//                one rounding to the output format
//
// SOURCES  bounds/SOURCES.md [Switch] [ST-MoE]
#include <cmath>
#include <type_traits>

#include "bounds/examples/routed.hpp"
#include "bounds/sum.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

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
  if constexpr (std::is_same_v<T, ErrorMoments>) {
    // The same for every token: what is lost of them is no chance.
    for (ErrorMoments& count : counts.values) count.constant = true;
  }
  Matrix<T> dx = call[1];
  for (std::size_t t = 0; t < p.rows; ++t) {
    Sum<T> products(call.sums);
    for (std::size_t e = 0; e < p.cols; ++e) {
      dx(t, e) = with_named_error(fma(balance, counts.values[e], dx(t, e)));
      products.add_product(p(t, e), dx(t, e));
    }
    const T along = products.total();
    const T off = with_named_error(twice_z * call[3].values[t] - along);
    for (std::size_t e = 0; e < p.cols; ++e) dx(t, e) = p(t, e) * (dx(t, e) + off);
  }
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

}  // namespace

extern const Operation router_grad{
    .id = "router_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_by<grad<RunningError>, grad<ErrorMoments>, 0, 1>,
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
    .sums_as_asked = true,
};

}  // namespace plumb::bounds

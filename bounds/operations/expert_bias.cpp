// expert_bias: b_e, up by `rate` if expert e took fewer copies than the mean, down if it took more
//
//   inputs       b (E, 1), n (E, 1): copies that each expert took in a step     outputs   b' (E, 1)
//   attributes   rate
//   evaluate     whole numbers are compared, exactly; one addition of the FP32 number next to
//                +-rate
//
// SOURCES  bounds/SOURCES.md [DeepSeek-V3] 2.1.2
#include "bounds/examples/routed.hpp"
#include "bounds/operations/index.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const double rate = call.attribute("rate");
  const std::size_t experts = call[0].rows;
  constexpr std::size_t whole = std::size_t(1) << 53;  // FP64 knows all whole numbers below
  const auto copies = [&](const T& n) { return index_of(n, whole, "expert_bias: a count"); };
  std::size_t all = 0;
  for (const T& n : call[1].values) all += copies(n);
  Matrix<T> b = call[0];
  for (std::size_t e = 0; e < experts; ++e) {
    const std::size_t n = copies(call[1].values[e]) * experts;
    if (n != all) b.values[e] += static_cast<T>(n < all ? rate : -rate);
  }
  call.roundings.round(b, call.how.output);
  return as_outputs(std::move(b));
}

}  // namespace

extern const Operation expert_bias{
    .id = "expert_bias",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"b", "E", "1"}, {"n", "E", "1"}},
               .outputs = {{"b", "E", "1"}},
               .attributes = {real("rate")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "oc"}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "oc"}); },
                 .usual = "256x64"},
};

}  // namespace plumb::bounds

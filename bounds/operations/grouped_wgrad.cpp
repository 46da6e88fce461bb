// grouped_wgrad: dB_e = A_e' dC_e, zero for an expert without rows
//
//   inputs       A (N, K), dC (N, F), ids (T, k): N = T k
//   outputs      dB_0 ... dB_{E-1}, each (K, F)
//   attributes   experts: E; [chain]
//   evaluate     each product as gemm promises it; the parts of all experts travel together. Of
//                dealt tokens a rank has the copies of its own.
//   tolerance    gemm's of each, a probability shared equally among them
#include "bounds/examples/routed.hpp"
#include "bounds/operations/gemm.hpp"
#include "bounds/operations/grouped.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

Attributes of_products(Attributes all) {
  all.insert({{"transpose_a", 1}, {"transpose_b", 0}});
  return all;
}

template <class T>
std::vector<Matrix<T>> products(const Call<T>& call) {
  const Routing routing = routing_of(call[2], call.count("experts"));
  const Attributes attributes = of_products(call.attributes);
  std::vector<Matrix<T>> gradients;
  for (std::size_t e = 0; e + 1 < routing.first.size(); ++e) {
    const Matrix<T> a = rows_of(call[0], routing, e), dc = rows_of(call[1], routing, e);
    gradients.push_back(std::move(partitioned_gemm<T>(
        {{&a, &dc}, attributes, call.how, call.roundings}, of_expert(routing, e, call.how))[0]));
  }
  return gradients;
}

Outcome<Tolerance> products_tolerance(const ToleranceCall& call) {
  const Routing routing = routing_of(call[2], call.count("experts"));
  const Attributes attributes = of_products(call.attributes);
  return of_each(call, [&](std::size_t e, const auto& value, double delta, const auto& explained) {
    const Matrix<double> a = rows_of(call[0], routing, e), dc = rows_of(call[1], routing, e);
    return tolerance_of_partitioned_gemm(
        {{&a, &dc}, attributes, call.how, call.mode, delta, value, explained, call.sums},
        of_expert(routing, e, call.how));
  });
}

}  // namespace

extern const Operation grouped_wgrad{
    .id = "grouped_wgrad",
    .evaluate = products<float>,
    .value = products<double>,
    .truth = products<BigFloat>,
    .tolerance = products_tolerance,
    .sums = SumOrder::any,
    .traits = {.kind = Kind::product},
    .schema = {.inputs = {{"A", "T k", "K"}, {"dC", "T k", "F"}, {"ids", "T", "k"}},
               .outputs = {counted({"dB", "K", "F"}, "experts")},
               .attributes = {count("experts"), or_else(count("chain"))},
               .dealt = "T"},
    .examples = {
        .random =
            [](RandomCall& c) {
              routed(c, {.inputs = "rhi", .parted = true, .chained = true});
              c.shard_tokens(c.e.inputs.back().rows);
            },
        .shaped = [](Maker& m) { routed(m, {.inputs = "rhi", .parted = true, .chained = true}); },
        .usual = "1024x16"},
};

}  // namespace plumb::bounds

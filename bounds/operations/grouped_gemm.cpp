// grouped_gemm: the rows of each expert e times its own matrix: C_e = A_e op(B_e) + bias_e
//
//   inputs       A (N, K): rows by expert, ids (T, k): N = T k, B_0 ... B_{E-1}, op(B_e) (K, F),
//                [bias_0 ... (F, 1)]                                                   C (N, F)
//   attributes   experts: E; transpose_b, [chain], as gemm has them
//   evaluate     each product as gemm promises it; the parts of all experts travel together
//   tolerance    gemm's of each, a probability shared equally among them
#include "bounds/examples/routed.hpp"
#include "bounds/operations/grouped.hpp"
#include "bounds/operations/product_of_part.hpp"
#include "bounds/operations/stacked.hpp"
#include "bounds/tolerance.hpp"
#include "number/product.hpp"

namespace plumb::bounds {
namespace {

template <class T>
Matrix<T> part_of(const Call<T>& call, const Routing& routing, std::size_t p) {
  const std::vector<std::size_t> begins = parting(call[0].cols, call.how).begins;
  Matrix<T> part;
  for (std::size_t e = 0; e + 1 < routing.first.size(); ++e) {
    const Matrix<T> own = rows_of(call[0], routing, e);
    const View<T> a = view(own), b = view(call[2 + e], call.attribute("transpose_b") != 0);
    const std::size_t first = begins[p], last = begins[p + 1];
    put_below(part, product_of_part(columns(a, first, last), rows(b, first, last), call, p));
  }
  put_below(part, Matrix<T>(call[0].rows - part.rows, part.cols));  // of copies that were dropped
  return part;
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const std::size_t experts = call.count("experts");
  const Routing routing = routing_of(call[1], experts);
  std::vector<Matrix<T>> parts;
  for (std::size_t p = 0; p < static_cast<std::size_t>(call.how.parts); ++p) {
    parts.push_back(part_of(call, routing, p));
  }
  Matrix<T> c = sum_in_rank_order(std::move(parts), call.how, call.roundings);
  for (std::size_t e = 0; call.inputs.size() > 2 + experts && e < experts; ++e) {
    const Matrix<T>& bias = call[2 + experts + e];
    for (std::size_t i = routing.first[e]; i < routing.first[e + 1]; ++i) {
      for (std::size_t j = 0; j < c.cols; ++j) c(i, j) += bias.values[j];
    }
  }
  call.roundings.round(c, call.how.output);
  return as_outputs(std::move(c));
}

Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  const std::size_t experts = call.count("experts");
  const Routing routing = routing_of(call[1], experts);
  Attributes attributes = call.attributes;
  attributes["transpose_a"] = 0;
  const ToleranceCall each{{},         attributes, call.how,       call.mode,
                           call.delta, {},         call.explained, call.sums};
  StackedTolerance all(each);
  for (std::size_t e = 0; e < experts; ++e) {
    const Matrix<double> own = rows_of(call[0], routing, e);
    if (own.rows == 0) continue;
    std::vector<const Matrix<double>*> inputs{&own, call.inputs[2 + e]};
    if (call.inputs.size() > 2 + experts) inputs.push_back(call.inputs[2 + experts + e]);
    const std::vector<Matrix<double>> values{rows_of(call.values[0], routing, e)};
    if (const auto refused = all.add(std::move(inputs), values, experts)) return *refused;
  }
  all.add_exact(call[0].rows - routing.first.back(), call.values[0].cols);
  return all.whole();
}

}  // namespace

extern const Operation grouped_gemm{
    .id = "grouped_gemm",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance,
    .sums = SumOrder::any,
    .traits = {.kind = Kind::product},
    .schema = {.inputs = {{"A", "T k", "K"},
                          {"ids", "T", "k"},
                          counted(where({"B", "K", "F"}, "transpose_b", "F", "K"), "experts"),
                          counted({"bias", "F", "1"}, "experts", true)},
               .outputs = {{"C", "T k", "F"}},
               .attributes = {count("experts"), flag("transpose_b"), or_else(count("chain"))}},
    .examples = {
        .random =
            [](RandomCall& c) { routed(c, {.inputs = "riwb", .parted = true, .chained = true}); },
        .shaped = [](Maker& m) { routed(m, {.inputs = "riwb", .parted = true, .chained = true}); },
        .usual = "64x1024"},
};

}  // namespace plumb::bounds

// grouped_gemm: the rows of each expert e times its own matrix: C_e = A_e op(B_e) + bias_e
//
//   inputs       A (N, K): rows by expert, ids (T, k): N = T k, B_0 ... B_{E-1}, op(B_e) (K, F),
//                [bias_0 ... (F, 1)]                                                   C (N, F)
//   attributes   experts: E; transpose_b, [chain], as gemm has them
// grouped_wgrad: dB_e = A_e' dC_e, zero for an expert without rows
//   inputs       A (N, K), dC (N, F), ids              outputs   dB_0 ... dB_{E-1}, each (K, F)
//   attributes   experts: E; [chain]
// grouped_column_sum: dbias_e = the sum of the rows of dC_e
//   inputs       dC (N, F), ids                      outputs   dbias_0 ... dbias_{E-1}, each (F, 1)
//
//   evaluate     each product and each sum as gemm and column_sum promise it; the parts of all
//                experts travel together. Of dealt tokens a rank has the copies of its own.
//   tolerance    gemm's of each, a probability shared equally among them; of sums column_sum's
#include "bounds/examples/routed.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/operations/gemm.hpp"
#include "bounds/operations/routing.hpp"
#include "bounds/operations/stacked.hpp"
#include "bounds/tolerance.hpp"
#include "number/product.hpp"

namespace plumb::bounds {
namespace {

template <class T>
Matrix<T> rows_of(const Matrix<T>& stacked, const Routing& routing, std::size_t expert) {
  const std::size_t first = routing.first[expert], last = routing.first[expert + 1];
  Matrix<T> own(last - first, stacked.cols);
  std::copy(stacked.row(first), stacked.row(last), own.values.begin());
  return own;
}

// --- grouped_gemm ---

template <class T>
Matrix<T> part_of(const Call<T>& call, const Routing& routing, std::size_t p) {
  const std::vector<std::size_t> begins = parting(call[0].cols, call.how).begins;
  const std::size_t chain = chain_of(call.attributes);
  Matrix<T> part;
  for (std::size_t e = 0; e + 1 < routing.first.size(); ++e) {
    const Matrix<T> own = rows_of(call[0], routing, e);
    const View<T> a = view(own), b = view(call[2 + e], call.attribute("transpose_b") != 0);
    const std::size_t first = begins[p], last = begins[p + 1];
    put_below(part, product(columns(a, first, last), rows(b, first, last), chain));
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
  Matrix<T> c = combined(std::move(parts), call.how, call.roundings);
  for (std::size_t e = 0; call.inputs.size() > 2 + experts && e < experts; ++e) {
    const Matrix<T>& bias = call[2 + experts + e];
    for (std::size_t i = routing.first[e]; i < routing.first[e + 1]; ++i) {
      for (std::size_t j = 0; j < c.cols; ++j) c(i, j) += bias.values[j];
    }
  }
  call.roundings.round(c, call.how.output);
  return alone(std::move(c));
}

Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  const std::size_t experts = call.count("experts");
  const Routing routing = routing_of(call[1], experts);
  Attributes attributes = call.attributes;
  attributes["transpose_a"] = 0;
  const ToleranceCall each{{}, attributes, call.how, call.mode, call.delta, {}};
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

// --- grouped_wgrad, grouped_column_sum: one output an expert ---

// Asks for each output's tolerance with the expert's own rows, and returns them as one tolerance.
template <class Ask>
Outcome<Tolerance> of_each(const ToleranceCall& call, const Ask& ask) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  const std::size_t experts = call.count("experts");
  const double delta = call.mode == Mode::probabilistic ? call.delta : 0;
  Tolerance all{call.mode, delta, {}, {}, {}};
  for (std::size_t e = 0; e < experts; ++e) {
    const Outcome<Tolerance> one =
        ask(e, std::vector{call.values[e]}, delta / static_cast<double>(experts));
    if (!one) {
      return Refusal{one.error().why, "expert " + std::to_string(e) + ": " + one.error().detail};
    }
    all.bound.push_back(one->bound[0]);
    all.terms.push_back(one->terms[0]);
    if (call.mode == Mode::moments) all.bias.push_back(one->bias[0]);
  }
  return all;
}

// The rows of an expert that each part of a sum over them has.
Parting of_expert(const Routing& routing, std::size_t expert, const Evaluation& how) {
  const Slice rows{routing.first[expert], routing.first[expert + 1]};
  if (how.deal.ranks == 1) return parting(rows.last - rows.first, how);
  return parted_rows(routing, rows, parting(routing.rows.size() / routing.slots, how));
}

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
    gradients.push_back(std::move(parted_gemm<T>({{&a, &dc}, attributes, call.how, call.roundings},
                                                 of_expert(routing, e, call.how))[0]));
  }
  return gradients;
}

Outcome<Tolerance> products_tolerance(const ToleranceCall& call) {
  const Routing routing = routing_of(call[2], call.count("experts"));
  const Attributes attributes = of_products(call.attributes);
  return of_each(call, [&](std::size_t e, const auto& value, double delta) {
    const Matrix<double> a = rows_of(call[0], routing, e), dc = rows_of(call[1], routing, e);
    return tolerance_of_parted_gemm({{&a, &dc}, attributes, call.how, call.mode, delta, value},
                                    of_expert(routing, e, call.how));
  });
}

template <class T>
std::vector<Matrix<T>> sums(const Call<T>& call) {
  const Routing routing = routing_of(call[1], call.count("experts"));
  std::vector<Matrix<T>> gradients;
  for (std::size_t e = 0; e + 1 < routing.first.size(); ++e) {
    gradients.push_back(column_sums(rows_of(call[0], routing, e), of_expert(routing, e, call.how),
                                    call.how, call.roundings));
  }
  return gradients;
}

// By chance only where no expert's rows repeat: a few that do would not be seen among all rows.
Outcome<Tolerance> sums_tolerance(const ToleranceCall& call) {
  const Routing routing = routing_of(call[1], call.count("experts"));
  bool repeated = false;
  for (std::size_t e = 0; e + 1 < routing.first.size(); ++e) {
    repeated = repeated || repeats(rows_of(call[0], routing, e));
  }
  const auto tolerance = tolerance_by<sums<Near>, sums<Moment>>;
  if (!repeated || call.mode == Mode::deterministic) return tolerance(call);
  if (call.mode == Mode::moments) return Refusal{Why::conflict, std::string(data_repeat)};
  ToleranceCall worst = call;
  worst.mode = Mode::deterministic;
  const Outcome<Tolerance> bound = tolerance(worst);
  if (!bound) return bound;
  return Tolerance{call.mode, call.delta, bound->bound, {}, bound->terms};
}

}  // namespace

extern const Operation grouped_gemm{
    .id = "grouped_gemm",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<Truth>,
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
extern const Operation grouped_wgrad{
    .id = "grouped_wgrad",
    .evaluate = products<float>,
    .value = products<double>,
    .truth = products<Truth>,
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
              c.deal(c.e.inputs.back().rows);
            },
        .shaped = [](Maker& m) { routed(m, {.inputs = "rhi", .parted = true, .chained = true}); },
        .usual = "1024x16"},
};
extern const Operation grouped_column_sum{
    .id = "grouped_column_sum",
    .evaluate = sums<float>,
    .value = sums<double>,
    .truth = sums<Truth>,
    .tolerance = sums_tolerance,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"dC", "T k", "F"}, {"ids", "T", "k"}},
               .outputs = {counted({"dbias", "F", "1"}, "experts")},
               .attributes = {count("experts")},
               .dealt = "T"},
    .examples = {.random =
                     [](RandomCall& c) {
                       routed(c, {.inputs = "ri", .parted = true});
                       c.deal(c.e.inputs.back().rows);
                     },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "ri", .parted = true}); },
                 .usual = "4096x16"},
};

}  // namespace plumb::bounds

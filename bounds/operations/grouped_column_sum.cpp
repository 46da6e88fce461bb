// grouped_column_sum: dbias_e = the sum of the rows of dC_e
//
//   inputs       dC (N, F), ids (T, k): N = T k
//   outputs      dbias_0 ... dbias_{E-1}, each (F, 1)
//   attributes   experts: E
//   evaluate     each sum as column_sum promises it; the parts of all experts travel together. Of
//                dealt tokens a rank has the copies of its own.
//   tolerance    column_sum's
#include "bounds/examples/routed.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/operations/grouped.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> sums(const Call<T>& call) {
  const Routing routing = routing_of(call[1], call.count("experts"));
  std::vector<Matrix<T>> gradients;
  for (std::size_t e = 0; e + 1 < routing.first.size(); ++e) {
    gradients.push_back(column_sums(rows_of(call[0], routing, e), of_expert(routing, e, call.how),
                                    call.how, call.roundings, call.sums));
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
  const auto tolerance = tolerance_by<sums<RunningError>, sums<ErrorMoments>>;
  if (!repeated || call.mode == Mode::deterministic) return tolerance(call);
  if (call.mode == Mode::moments) return Refusal{Why::conflict, std::string(data_repeat)};
  ToleranceCall worst = call;
  worst.mode = Mode::deterministic;
  const Outcome<Tolerance> bound = tolerance(worst);
  if (!bound) return bound;
  return Tolerance{call.mode, call.delta, bound->bound, {}, bound->terms};
}

}  // namespace

extern const Operation grouped_column_sum{
    .id = "grouped_column_sum",
    .evaluate = sums<float>,
    .value = sums<double>,
    .truth = sums<BigFloat>,
    .tolerance = sums_tolerance,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"dC", "T k", "F"}, {"ids", "T", "k"}},
               .outputs = {counted({"dbias", "F", "1"}, "experts")},
               .attributes = {count("experts")},
               .dealt = "T"},
    .examples = {.random =
                     [](RandomCall& c) {
                       routed(c, {.inputs = "ri", .parted = true});
                       c.shard_tokens(c.e.inputs.back().rows);
                     },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "ri", .parted = true}); },
                 .usual = "4096x16"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds

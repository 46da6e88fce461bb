// expert_count: how many copies each expert takes
//
//   inputs       ids (T, k)                         outputs   n (E, 1)
//   attributes   experts: E
//   evaluate     whole numbers below 2^24: exact
#include "bounds/examples/routed.hpp"
#include "bounds/operations/routing.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> counted(const Call<T>& call) {
  const Routing routing = routing_of(call[0], call.count("experts"));
  Matrix<T> n(call.count("experts"), 1);
  for (std::size_t e = 0; e < n.rows; ++e) {
    n.values[e] = static_cast<T>(static_cast<double>(routing.first[e + 1] - routing.first[e]));
  }
  return as_outputs(std::move(n));
}

}  // namespace

extern const Operation expert_count{
    .id = "expert_count",
    .evaluate = counted<float>,
    .value = counted<double>,
    .truth = counted<BigFloat>,
    .tolerance = tolerance_by<counted<RunningError>, counted<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"ids", "T", "k"}},
               .outputs = {{"n", "experts", "1"}},
               .attributes = {count("experts")}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "i"}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "i"}); },
                 .usual = "256x64"},
};

}  // namespace plumb::bounds

// within_capacity: an expert takes its first copies by the order of the tokens, others are dropped
//
//   inputs       ids (T, k)                         outputs   ids (T, k), E where a copy is dropped
//   attributes   experts: E; most: copies that an expert takes at most
//   evaluate     comparisons of whole numbers below 2^24: exact
//
// SOURCES  bounds/SOURCES.md [Switch]: capacity
#include "bounds/examples/routed.hpp"
#include "bounds/operations/routing.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> within(const Call<T>& call) {
  const std::size_t experts = call.count("experts"), most = call.count("most");
  const Routing routing = routing_of(call[0], experts);
  Matrix<T> ids = call[0];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t e = expert_of(ids.values[i], experts + 1);
    const bool fits = e == experts || routing.rows[i] < routing.first[e] + most;
    if (!fits) ids.values[i] = static_cast<T>(static_cast<double>(experts));
  }
  return as_outputs(std::move(ids));
}

}  // namespace

extern const Operation within_capacity{
    .id = "within_capacity",
    .evaluate = within<float>,
    .value = within<double>,
    .truth = within<BigFloat>,
    .tolerance = tolerance_by<within<RunningError>, within<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.exact = true},
    .schema = {.inputs = {{"ids", "T", "k"}},
               .outputs = {{"ids", "T", "k"}},
               .attributes = {count("experts"), count("most", 0)}},
    .examples = {.random = [](RandomCall& c) { routed(c, {.inputs = "i", .drops = false}); },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "i", .drops = false}); },
                 .usual = "256x64"},
};

}  // namespace plumb::bounds

// z_loss: l = z sum_t lse_t^2, so that logits stay small
//
//   inputs       lse (T, 1)                        outputs   l (1, 1)
//   attributes   z: coefficient / T, over the micro-batches of a step; [balance]: of the loss beside
//                it, not read
//   evaluate     tokens in `parts` slices, each a chain of FP32 fused multiply-adds; parts combined
//                on the wire; one product, in FP32
//
// SOURCES  bounds/SOURCES.md [ST-MoE]
#include <cmath>

#include "bounds/examples/routed.hpp"
#include "bounds/sum.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> squared(const Call<T>& call) {
  const auto [order, begins] = parting(call[0].rows, call.how);
  std::vector<Matrix<T>> parts;
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    Sum<T> squares(call.sums);
    for (std::size_t i = begins[p]; i < begins[p + 1]; ++i) {
      squares.add_square(call[0].values[order[i]]);
    }
    parts.emplace_back(1, 1, squares.total());
  }
  Matrix<T> loss = sum_in_rank_order(std::move(parts), call.how, call.roundings);
  loss.values[0] = static_cast<T>(call.attribute("z")) * loss.values[0];
  return as_outputs(std::move(loss));
}

}  // namespace

extern const Operation z_loss{
    .id = "z_loss",
    .evaluate = squared<float>,
    .value = squared<double>,
    .truth = squared<BigFloat>,
    .tolerance = tolerance_of_squares_by<squared<RunningError>, squared<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"lse", "T", "1"}},
               .outputs = {{"l", "1", "1"}},
               .attributes = {real("z"), or_else(real("balance"))},
               .dealt = "T"},
    .examples = {.random =
                     [](RandomCall& c) {
                       routed(c, {.inputs = "s", .parted = true});
                       c.shard_tokens(c.e.inputs[0].rows);
                     },
                 .shaped = [](Maker& m) { routed(m, {.inputs = "s", .parted = true}); },
                 .usual = "4096x1"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds

#include "model/layers/operand.hpp"

namespace plumb {
namespace {

struct Quantized {
  Tensor values;
  Tensor scale;  // (1, 1)
};

Quantized quantized(Rank& rank, Tensor x, Held held, const Format& to) {
  Tensor amax(1, 1, largest_magnitude(x.values));
  if (held != Held::whole) rank.mesh.tp.max(amax.values);
  const float scale = scale_to_fit(amax.values[0], to);
  quantize(x.values, scale, to);
  return {std::move(x), Tensor(1, 1, scale)};
}

}  // namespace

Tensor operand(Rank& rank, const std::string& name, Tensor x, Held held,
               const std::optional<Format>& to) {
  if (!to) return x;
  Quantized q = quantized(rank, std::move(x), held, *to);
  rank.tap(name + "_scale", q.scale, Held::whole, fp32, rank.in_fp32());
  rank.tap(name, q.values, held, fp32, {1, fp32, *to});
  return std::move(q.values);
}

void weight_operands(Rank& rank) {
  if (!rank.r.operands) return;
  for (const Parameter& p : multiplied(rank.c)) {
    if (!rank.holds(p)) continue;
    const std::string name = p.name + "/operand";
    Quantized q = quantized(rank, rank.param(p.name), held(p), *rank.r.operands);
    rank.tap_step(name + "_scale", q.scale, Held::whole, fp32, rank.in_fp32());
    rank.tap_step(name, q.values, held(p), fp32, {1, fp32, *rank.r.operands});
    rank.state[name] = std::move(q.values);
    rank.release();
  }
}

}  // namespace plumb

#include "model/layers/operand.hpp"

namespace plumb {
namespace {

// Records a tensor of a micro-batch or of the step.
using Tap = void (Rank::*)(const std::string&, const Tensor&, Held, const Format&,
                           const Evaluation&);

Tensor operand(Rank& rank, Tap tap, const std::string& name, Tensor x, Held held,
               const OperandCast& how) {
  if (how.scaling == Scaling::none) {
    round_to_format(x.values, how.format);
    (rank.*tap)(name, x, held, how.format, {1, fp32, how.format});
    return x;
  }
  Tensor amax(1, 1, largest_magnitude(x.values));
  if (held != Held::whole) rank.mesh.tp.max(amax.values);
  const float scale = scale_to_fit(amax.values[0], how.format);
  quantize(x.values, scale, how.format);
  (rank.*tap)(name + "_scale", Tensor(1, 1, scale), Held::whole, fp32, rank.in_fp32());
  (rank.*tap)(name, x, held, fp32, {1, fp32, how.format});
  return x;
}

}  // namespace

Tensor input_operand(Rank& rank, const std::string& name, Tensor x, Held held) {
  if (!rank.r.operands) return x;
  return operand(rank, &Rank::tap, name + "/operand", std::move(x), held,
                 rank.r.operands->activations);
}

Tensor gradient_operand(Rank& rank, const std::string& name, Tensor dy, Held held) {
  if (!rank.r.operands) return dy;
  return operand(rank, &Rank::tap, name + "/grad_operand", std::move(dy), held,
                 rank.r.operands->gradients);
}

void weight_operands(Rank& rank) {
  if (!rank.r.operands) return;
  for (const Parameter& p : multiplied(rank.c)) {
    const std::string name = p.name + "/operand";
    const Held held = p.sharding == Sharding::rows ? Held::rows : Held::columns;
    rank.state[name] =
        operand(rank, &Rank::tap_step, name, rank.param(p.name), held, rank.r.operands->weights);
  }
}

}  // namespace plumb

#include "model/plan/parts.hpp"

namespace plumb {
namespace {

// Returns `as`: what the cast keeps of x.
std::string cast(Promise& p, const std::string& x, const std::string& as, const OperandCast& how) {
  if (how.scaling == Scaling::none) {
    p.node("cast", {x}, {as}, {1, fp32, how.format});
    return as;
  }
  p.node("amax_scale", {x}, {as + "_scale"}, Promise::in_fp32(),
         {{"largest", how.format.largest()}});
  p.node("quantize", {x, as + "_scale"}, {as}, {1, fp32, how.format});
  return as;
}

}  // namespace

std::string input_operand(Promise& p, const std::string& name, const std::string& x) {
  return p.r.operands ? cast(p, x, p.at(name, "operand"), p.r.operands->activations) : x;
}

std::string gradient_operand(Promise& p, const std::string& name, const std::string& dy) {
  return p.r.operands ? cast(p, dy, p.at(name, "grad_operand"), p.r.operands->gradients) : dy;
}

void weight_operands(Promise& p) {
  if (!p.r.operands) return;
  for (const Parameter& each : multiplied(p.c)) {
    cast(p, each.name + "/param@previous", each.name + "/operand", p.r.operands->weights);
  }
}

}  // namespace plumb

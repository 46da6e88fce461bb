#include "model/plan/parts.hpp"
#include "model/spec/ownership.hpp"
#include "model/state/rounding_key.hpp"

namespace plumb::model {
namespace {

// The number of slices in which blocks begin anew: one a rank, unless each rank's slice is whole
// blocks.
int slices(const Promise& p, const SlicedAxis& x, int rows, int cols) {
  if (x.axis == Sharding::whole) return 1;
  return x.length / p.l.tp % (x.axis == Sharding::rows ? rows : cols) == 0 ? 1 : p.l.tp;
}

std::string id_of_all_batches(const Promise& p, const std::string& id) {
  const std::string prefix = "m" + std::to_string(p.micro_batch) + "/";
  return id.starts_with(prefix) ? id.substr(prefix.size()) : id;
}

void cast_blocks(Promise& p, const std::string& x, const SlicedAxis& sliced, const std::string& as,
                 const OperandCast& how, Contracted axis) {
  const bool along = axis == Contracted::columns;
  const int rows = along ? how.across : how.along, cols = along ? how.along : how.across;
  Evaluation evaluation{slices(p, sliced, rows, cols), fp32, how.format};
  const bool of_experts = !sliced.copies.empty() && rows > 1;
  if ((sliced.tokens || of_experts) && rows > 1) evaluation.tokens = p.over_contexts().tokens;
  Attributes blocks{{"rows", rows},
                    {"cols", cols},
                    {"rule", static_cast<double>(how.rule)},
                    {"sliced_rows", sliced.axis == Sharding::rows}};
  if (of_experts) {
    blocks["experts"] = p.c.experts;
    evaluation.tokens.groups = p.l.ep;
  }
  Ids scales{as + "_scale"};
  if (is_nested(how.rule)) scales.push_back(as + "_tensor_scale");
  Ids scaled{x};
  if (of_experts) scaled.push_back(sliced.copies);
  p.node("block_scales", scaled, scales, evaluation, blocks);
  blocks.erase("rule");
  if (how.rule == ScaleRule::nested_reciprocal) blocks["by_reciprocal"] = 1;
  if (how.stochastic) blocks["key"] = static_cast<double>(rounding_key(p.c, p.step, as));
  scaled.insert(scaled.begin() + 1, scales[0]);
  p.node("quantize_blocks", scaled, {as}, evaluation, blocks);
}

// Promises `as`, the cast copy of x, and under blocks a second copy for products that sum over the
// rows; each only where products take it.
void cast(Promise& p, const std::string& x, const SlicedAxis& sliced, const std::string& as,
          const OperandCast& how, const Taken& taken) {
  if (!taken.any()) return;
  switch (how.scaling) {
    case Scaling::none:
      return p.node("cast", {x}, {as}, {1, fp32, how.format});
    case Scaling::tensor:
      p.node("amax_scale", {x}, {as + "_scale"}, Promise::in_fp32(),
             {{"largest", how.format.largest()}});
      return p.node("quantize", {x, as + "_scale"}, {as}, {1, fp32, how.format});
    case Scaling::delayed: {
      const std::string id = id_of_all_batches(p, as);
      p.delayed[id].push_back(x);
      return p.node("quantize", {x, id + "_scale"}, {as}, {1, fp32, how.format}, {{"saturate", 1}});
    }
    case Scaling::block:
      if (taken.by_columns || !how.two_copies()) {
        cast_blocks(p, x, sliced, as, how, Contracted::columns);
      }
      if (taken.by_rows && how.two_copies()) {
        cast_blocks(p, x, sliced, how.copy_of(as, Contracted::rows), how, Contracted::rows);
      }
  }
}

// Returns x itself for products that do not take its copy `id`.
SeenAs seen(const OperandCast& how, const Taken& taken, const std::string& x,
            const std::string& id) {
  return {taken.by_columns ? how.copy_of(id, Contracted::columns) : x,
          taken.by_rows ? how.copy_of(id, Contracted::rows) : x};
}

}  // namespace

SeenAs input_operand(Promise& p, const std::string& name, const std::string& x,
                     const SlicedAxis& sliced) {
  const OperandCasts* casts = p.r.casts_of(p.c, name);
  if (casts == nullptr) return {x, x};
  cast(p, x, sliced, p.at(name, "operand"), casts->activations, casts->of_activations());
  return seen_input(p, name, x);
}

SeenAs seen_input(const Promise& p, const std::string& name, const std::string& x) {
  const OperandCasts* casts = p.r.casts_of(p.c, name);
  if (casts == nullptr) return {x, x};
  return seen(casts->activations, casts->of_activations(), x, p.at(name, "operand"));
}

SeenAs gradient_operand(Promise& p, const std::string& name, const std::string& dy,
                        const SlicedAxis& sliced) {
  const OperandCasts* casts = p.r.casts_of(p.c, name);
  if (casts == nullptr) return {dy, dy};
  const std::string id = p.at(name, "grad_operand");
  cast(p, dy, sliced, id, casts->gradients, casts->of_gradients());
  return seen(casts->gradients, casts->of_gradients(), dy, id);
}

std::string seen_weight(const Promise& p, const std::string& module, Product product) {
  const OperandCasts* casts = p.r.casts_of(p.c, module, product);
  if (casts == nullptr) return Promise::weight(module);
  return casts->weights.copy_of(module + ".weight/operand", axis_of_weight(module, product));
}

Attributes summed(const Promise& p, const std::string& name, Product product,
                  Attributes attributes) {
  const int chain = p.r.chain_of(p.c, name, product);
  if (chain > 0) attributes["chain"] = chain;
  return attributes;
}

void weight_operands(Promise& p) {
  for (const auto& [id, how, weight] : delayed_operands(p.c, p.r)) {
    p.node("amax_scale", {id + "_history@previous"}, {id + "_scale"}, Promise::in_fp32(),
           {{"largest", how->format.largest()}});
  }
  for (const Parameter& each : multiplied_as_casts(p.c, p.r)) {
    cast(p, each.name + "/param@previous",
         {held_as(p.l, each), each.sharding == Sharding::rows ? each.rows : each.cols, false},
         each.name + "/operand", p.r.operands->weights, p.r.operands->of_weight(each.name));
  }
}

}  // namespace plumb::model

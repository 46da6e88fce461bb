#include "model/rank/context.hpp"

#include "model/joints/layers.hpp"
#include "model/joints/layout.hpp"

namespace plumb::model {
namespace {

Where place_in(const Mesh& mesh) {
  Where where;
  where.dp = mesh.dp.rank();
  where.dp_size = mesh.dp.size();
  where.ep = mesh.ep.rank();
  where.ep_size = mesh.ep.size();
  where.tp = mesh.tp.rank();
  where.tp_size = mesh.tp.size();
  where.cp = mesh.cp.rank();
  where.cp_size = mesh.cp.size();
  where.pp = mesh.pp.rank();
  where.pp_size = mesh.pp.size();
  return where;
}

}  // namespace

RankContext::RankContext(const Training& run, const Joints& decisions, Mesh groups,
                         Streams& under_way, StaleGradients* of_step_before)
    : c(run.config),
      r(run.recipe),
      l(run.layout),
      joints(decisions),
      mesh(groups),
      streams(under_way),
      stale(of_step_before),
      step(run.step),
      where(place_in(mesh)),
      stages(stages_of(l, c)) {
  where.after_a_step = stale != nullptr && !stale->main_grad.empty();
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s] = joints.pipeline.layers(where, static_cast<int>(s), l.stages(), stages[s]);
  }
}

bool RankContext::holds(const Parameter& p) const {
  return model::holds(c, l, {where.pp, where.dp, where.cp, where.tp}, stages, p);
}

Where RankContext::at(const std::string& module) const {
  Where w = where;
  w.module = module;
  return w;
}

void RankContext::wait(const Event& event, Wait what, const std::string& of) {
  if (joints.overlap.waits(at(of), what, streams.done(event))) streams.wait(event);
}

const OperandCasts* RankContext::casts_of(const std::string& name) const {
  const int layer = layer_of(name);
  if (layer < 0 || !r.operands || !r.operands->by_layer() || r.operands->keeps_histories()) {
    return r.casts_of_layer(c, layer);
  }
  const auto stage = std::ranges::find_if(
      stages, [layer](const Stage& s) { return layer >= s.first && layer < s.last; });
  const int in_stage = stage == stages.end() ? layer : layer - stage->first;
  return r.casts_of_layer(c, joints.linear.layer(at(name), in_stage, layer));
}

const OperandCasts* RankContext::casts_of(const std::string& name, Product product) const {
  const OperandCasts* casts = casts_of(name);
  return casts != nullptr && casts->take(product) ? casts : nullptr;
}

}  // namespace plumb::model

#include "model/layers/attention.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "model/joints/attention.hpp"
#include "model/joints/layout.hpp"
#include "model/layers/context.hpp"
#include "model/layers/copied_keys.hpp"
#include "model/layers/dropout.hpp"
#include "model/layers/gradients.hpp"
#include "model/layers/ring.hpp"

namespace plumb::model {
namespace {

bool trades_heads(const Rank& rank) {
  return rank.where.cp_size > 1 && rank.l.context == Context::ulysses;
}

// Returns the positions within documents of these rows of the micro-batch.
std::vector<std::size_t> within(const Rank& rank, const std::vector<std::size_t>& rows) {
  std::vector<std::size_t> positions;
  if (rank.c.documents == 0) return positions;
  const Tensor& all = rank.within.at(rank.where.micro_batch);
  for (const std::size_t t : rows) positions.push_back(static_cast<std::size_t>(all.values[t]));
  return positions;
}

std::string sinks_of(const std::string& name) { return name + ".sinks"; }

// Trades all heads of some tokens for some heads of all tokens.
void trade(const Rank& rank, HeadShape& shape) {
  shape.heads /= static_cast<std::size_t>(rank.where.cp_size);
  shape.kv_heads /= static_cast<std::size_t>(rank.where.cp_size);
  if (rank.c.sinks > 0) {
    const float* first = shape.sinks.data() + shape.heads * rank.where.cp;
    shape.sinks = {first, first + shape.heads};
  }
  shape.positions.resize(shape.sequence);
  std::iota(shape.positions.begin(), shape.positions.end(), std::size_t(0));
  std::vector<std::size_t> rows(static_cast<std::size_t>(rank.c.tokens(rank.where.micro_batch)));
  std::iota(rows.begin(), rows.end(), std::size_t(0));
  shape.within = within(rank, rows);
}

// Returns the shape that attention sees.
HeadShape core_shape(Rank& rank, const std::string& name) {
  HeadShape shape = local_shape(rank);
  if (rank.c.sinks > 0) {
    const auto& sinks = rank.param(sinks_of(name)).values;
    shape.sinks = {sinks.begin(), sinks.end()};
  }
  if (trades_heads(rank)) trade(rank, shape);
  const Where where = rank.at(name + ".core");
  for (std::size_t t = 0; t < shape.within.size(); ++t) {
    const std::size_t position = shape.positions[t % shape.queries()];
    shape.first_keys.push_back(
        rank.joints.packing.first_key(where, position, position - shape.within[t]));
  }
  return shape;
}

// Calls work(sequence, head) for all sequences and heads of this rank.
template <class Work>
void each_head(const HeadShape& shape, const Tensor& q, const Work& work) {
  for (std::size_t s = 0; s < q.rows / shape.queries(); ++s) {
    for (std::size_t h = 0; h < shape.heads; ++h) work(s, h);
  }
}

Positions all_positions(const HeadShape& shape) {
  Positions all(shape.sequence);
  std::iota(all.begin(), all.end(), std::size_t(0));
  return all;
}

Evaluation over_keys(const Rank& rank) {
  Evaluation ran = rank.plain();
  if (goes_round(rank)) {
    ran.parts = rank.where.cp_size;
    ran.tokens = {rank.where.cp_size, rank.c.sequence, 0, true};
  }
  return ran;
}

// Runs every head of every sequence here; `saved` gets the probabilities.
Tensor whole_rows(Rank& rank, const std::string& name, const HeadShape& shape, Attention& saved) {
  Tensor o(saved.qkv.rows, shape.heads * shape.dim, to_be_written);
  const Where where = rank.at(name + ".core");
  const ProbabilityDropout drops(rank, name + ".core", shape);
  Tensor thin;
  const Positions keys = all_positions(shape);
  each_head(shape, saved.qkv, [&](std::size_t s, std::size_t h) {
    Tensor p = attention_scores(rank.backend, saved.qkv, saved.keys(), shape, s, h);
    rank.joints.attention.after_scores(where, static_cast<int>(h), static_cast<int>(s), p);
    saved.taken.push_back(causal_softmax(p, shape, s, h));
    rank.round(p);
    const Tensor& weighs = drops.weighing(rank, p, s, h, keys, thin);
    attend(rank.backend, weighs, saved.keys(), shape, s, h, o);
    saved.p.push_back(std::move(p));
  });
  return o;
}

// Softmax(q k') v.
Tensor core(Rank& rank, const std::string& name, Attention& saved) {
  const HeadShape shape = core_shape(rank, name);
  Tensor o = (goes_round(rank) ? ring_forward : whole_rows)(rank, name, shape, saved);
  rank.round(o);
  if (goes_round(rank)) saved.o = o;
  if (trades_heads(rank)) o = tokens_for_heads(rank, o);
  rank.tap(name + ".core/out", o, Sharding::token_columns, rank.r.compute, over_keys(rank));
  return o;
}

// Sums, over the ranks, the gradients that each rank's queries give to all keys and values.
CoreGradient whole_rows_backward(Rank& rank, const std::string& name, const HeadShape& shape,
                                 const Attention& saved, const Tensor& d_o, Evaluation& ran) {
  CoreGradient d{Tensor(saved.qkv.rows, saved.qkv.cols), {}};
  if (!shape.sinks.empty()) d.sinks = Tensor(d_o.rows, shape.heads);
  Tensor of_all(saved.kv.rows, saved.kv.cols);
  Tensor& d_kv = of_all.size() > 0 ? of_all : d.qkv;  // queries lie in other columns
  const ProbabilityDropout drops(rank, name + ".core", shape);
  Tensor thin;
  const Positions keys = all_positions(shape);
  each_head(shape, saved.qkv, [&](std::size_t s, std::size_t h) {
    const Tensor& p = saved.p[s * shape.heads + h];
    Tensor dp = probability_gradient(rank.backend, saved.keys(), d_o, shape, s, h);
    drops.thin(dp, s, h, keys);
    auto [ds, along] = score_gradient(p, std::move(dp), shape, s);
    rank.round(ds);
    sink_gradient(saved.taken[s * shape.heads + h], along, shape, s, h, d.sinks);
    query_gradient(rank.backend, ds, saved.keys(), shape, s, h, d.qkv);
    const Tensor& weighs = drops.weighing(rank, p, s, h, keys, thin);
    key_value_gradient(rank.backend, weighs, ds, saved.qkv, d_o, shape, s, h, d_kv);
  });
  if (of_all.size() > 0) {
    if (rank.joints.context.sums_gathered_gradient(rank.at(name))) {
      rank.mesh.cp.sum(of_all.values, fp32);
    }
    ran.parts = rank.where.cp_size;
    add_to(d.qkv, own_context(rank, of_all));
  }
  return d;
}

CoreGradient core_gradient(Rank& rank, const std::string& name, const Attention& saved, Tensor d_o,
                           Evaluation& ran) {
  const HeadShape shape = core_shape(rank, name);
  CoreGradient d = goes_round(rank) ? ring_backward(rank, name, shape, saved, std::move(d_o))
                                    : whole_rows_backward(rank, name, shape, saved, d_o, ran);
  sum_over_copies(rank, name, d.qkv, ran);
  scale_queries_and_keys(d.qkv, shape);
  rank.round(d.qkv);
  rank.round(d.sinks);
  return d;
}

struct HeadNorm {
  bool keys;
  std::string name;
};
std::vector<HeadNorm> head_norms(const std::string& name) {
  return {{false, name + ".q_norm"}, {true, name + ".k_norm"}};
}

void norm_heads(Rank& rank, const std::string& name, Tensor& qkv) {
  const HeadShape shape = local_shape(rank);
  for (const auto& [keys, module] : head_norms(name)) {
    const Tensor rows = stacked_heads(qkv, shape, keys);
    put_heads(norm_forward(rows, rank.weight(module).values, {}, static_cast<float>(rank.c.eps)),
              shape, keys, qkv);
  }
  rank.round(qkv);
  rank.tap(name + ".qk_norm/out", qkv, Sharding::token_columns, rank.r.compute, rank.plain());
}

Tensor norm_heads_backward(Rank& rank, const std::string& name, const Tensor& qkv, Tensor d) {
  const HeadShape shape = local_shape(rank);
  std::vector<Tensor> weights;
  for (const auto& [keys, module] : head_norms(name)) {
    NormGradients g =
        norm_backward(stacked_heads(qkv, shape, keys), rank.weight(module).values,
                      stacked_heads(d, shape, keys), false, static_cast<float>(rank.c.eps));
    put_heads(g.dx, shape, keys, d);
    weights.push_back(std::move(g.weight));
  }
  rank.round(d);
  rank.tap(name + ".qk_norm/grad_in", d, Sharding::token_columns, rank.r.compute, rank.plain());
  for (const auto& [keys, module] : head_norms(name)) {
    collect_shared_by_heads(rank, module + ".weight", std::move(weights[keys ? 1 : 0]));
  }
  return d;
}

// A frequency where sequences are `stretch` times as long as the `length` that weights were made for:
// YaRN (bounds/operations/rope.cpp), written a second time.
double stretched(double frequency, double length, int stretch) {
  const double turns = length * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp((turns - 1) / 31, 0.0, 1.0);
  return frequency * (kept + (1 - kept) / stretch);
}

// Rotates queries and keys by their positions, or back.
void rotate(Rank& rank, const std::string& name, Tensor& qkv, int direction) {
  const Where where = rank.at(name + ".rope");
  const int columns = rank.c.shared_key > 0 ? rank.c.shared_key : rank.c.head_dim();
  int stretch = rank.c.rope_stretch;
  const double length = stretch > 0 ? static_cast<double>(rank.c.sequence) / stretch : 0;
  if (stretch > 0) stretch = rank.joints.rotation.stretch(where, stretch);
  std::vector<double> frequencies(static_cast<std::size_t>(columns / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(frequencies.size());
    double promised = std::pow(rank.c.rope_base, -part);
    if (stretch > 0) promised = stretched(promised, length, stretch);
    frequencies[i] = rank.joints.rotation.frequency(where, promised);
  }
  HeadShape shape = local_shape(rank);
  auto& positions = shape.within.empty() ? shape.positions : shape.within;
  positions = rank.joints.rotation.positions(where, std::move(positions));
  rotate_heads(qkv, shape, frequencies, direction, stretch > 0 ? 0.1 * std::log(stretch) + 1 : 1);
  rank.round(qkv);
}

}  // namespace

HeadShape local_shape(const Rank& rank) {
  const auto of = [&](int n) {
    return static_cast<std::size_t>(std::max(1, n / rank.where.tp_size));
  };
  HeadShape shape{of(rank.c.heads), of(rank.c.kv_heads),
                  static_cast<std::size_t>(rank.c.head_dim()),
                  static_cast<std::size_t>(rank.c.sequence), rank.positions_of(rank.where.cp)};
  shape.within = within(rank, rank.rows_of(rank.where.cp));
  return shape;
}

Tensor attention_layer(Rank& rank, const std::string& name, Tensor qkv, Attention& saved) {
  if (rank.c.qk_norm > 0) {
    saved.unnormed = qkv;
    norm_heads(rank, name, qkv);
  }
  if (!rank.gpt()) {
    rotate(rank, name, qkv, 1);
    rank.tap(name + ".rope/out", qkv, Sharding::token_heads, rank.r.compute, rank.plain());
  }
  if (trades_heads(rank)) {
    qkv = heads_for_tokens(rank, qkv);
  } else if (rank.where.cp_size > 1 && !goes_round(rank)) {
    saved.kv = whole_context(rank, qkv);
  }
  saved.qkv = std::move(qkv);
  Tensor o = core(rank, name, saved);
  if (rank.l.selective) saved.forget_probabilities();
  return o;
}

Tensor attention_layer_backward(Rank& rank, const std::string& name, Attention& saved, Tensor d_o) {
  if (saved.lacks_probabilities()) {
    rank.where.recomputing = true;
    core(rank, name, saved);
    rank.where.recomputing = false;
  }
  Evaluation ran = over_keys(rank);
  const bool trade = trades_heads(rank);
  if (trade) d_o = heads_for_tokens(rank, d_o);
  CoreGradient g = core_gradient(rank, name, saved, std::move(d_o), ran);
  Tensor d = trade ? tokens_for_heads(rank, g.qkv) : std::move(g.qkv);
  rank.tap(name + ".core/grad_in", d, Sharding::token_heads, rank.r.compute, ran);
  if (rank.c.sinks > 0) {
    const Tensor s = trade ? tokens_for_heads(rank, g.sinks) : std::move(g.sinks);
    rank.tap(sinks_of(name) + "/grad_out", s, Sharding::token_columns, rank.r.compute, ran);
    collect_slice(rank, sinks_of(name), sum_of_rows(s), Sharding::rows);
  }
  if (!rank.gpt()) {
    rotate(rank, name, d, -1);
    rank.tap(name + ".rope/grad_in", d, Sharding::token_heads, rank.r.compute, rank.plain());
  }
  if (rank.c.qk_norm > 0) d = norm_heads_backward(rank, name, saved.unnormed, std::move(d));
  return d;
}

}  // namespace plumb::model

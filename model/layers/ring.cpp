#include "model/layers/ring.hpp"

#include "kernels/ring.hpp"
#include "model/joints/attention.hpp"
#include "model/joints/layout.hpp"
#include "model/layers/dropout.hpp"

namespace plumb::model {
namespace {

// The rank that comes `steps` after this one in the ring.
int after(const Rank& rank, int steps) {
  return (rank.where.cp + steps + rank.where.cp_size) % rank.where.cp_size;
}

// Sends a block of this rank to the next one, and receives that of the one before.
void pass_on(Rank& rank, const Tensor& block, bool gradients) {
  const int tag = gradients ? 1 : 0;
  rank.ring.send(after(rank, 1), tag, block, gradients);
  rank.ring.expect(after(rank, -1), tag, gradients, block.rows, block.cols);
}

// Calls work(turn, keys and values here, their positions).
template <class Work>
void each_turn(Rank& rank, const std::string& name, const HeadShape& shape, const Tensor& qkv,
               const Work& work) {
  Tensor kv = keys_and_values(qkv, shape);
  const Where where = rank.at(name + ".core");
  for (int turn = 0; turn < rank.where.cp_size; ++turn) {
    const bool more = turn + 1 < rank.where.cp_size;
    if (more) pass_on(rank, kv, false);
    const int owner = rank.joints.context.owner(where, turn, after(rank, -turn));
    work(turn, unpacked(kv, shape), rank.positions_of(owner));
    if (more) kv = rank.ring.take(false);
  }
}

// The shape of one turn: as many keys as queries.
HeadShape of_turn(HeadShape shape) {
  shape.sequence = shape.queries();
  return shape;
}

}  // namespace

Tensor ring_forward(Rank& rank, const std::string& name, const HeadShape& shape, Attention& saved) {
  const HeadShape block = of_turn(shape);
  const std::size_t sequences = saved.qkv.rows / shape.queries();
  std::vector<SoFar> all(sequences * shape.heads, SoFar(shape.queries(), shape.dim));
  const Where where = rank.at(name + ".core");
  const ProbabilityDropout drops(rank, name + ".core", shape);
  Tensor thin;
  each_turn(rank, name, shape, saved.qkv, [&](int turn, const Tensor& kv, const Positions& keys) {
    for (std::size_t e = 0; e < all.size(); ++e) {
      rank.joints.context.sums_so_far(where, turn, all[e].sum);
      const std::size_t s = e / shape.heads, h = e % shape.heads;
      Tensor p = attention_scores(rank.backend, saved.qkv, kv, block, s, h);
      rank.joints.attention.after_scores(where, static_cast<int>(h), static_cast<int>(s), p);
      take_in(p, {shape, s, keys}, all[e]);
      rank.round(p);
      add_values(rank.backend, drops.weighing(rank, p, s, h, keys, thin), kv, block, s, h,
                 all[e].o);
    }
  });
  Tensor o(saved.qkv.rows, shape.heads * shape.dim);
  for (std::size_t e = 0; e < all.size(); ++e) {
    const std::size_t s = e / shape.heads, h = e % shape.heads;
    if (!shape.sinks.empty()) take_in_sink(shape.sinks[h], all[e]);
    saved.lse.push_back(divided(all[e], shape, s, h, o));
  }
  return o;
}

CoreGradient ring_backward(Rank& rank, const std::string& name, const HeadShape& shape,
                           const Attention& saved, Tensor d_o) {
  const HeadShape block = of_turn(shape);
  CoreGradient d{Tensor(saved.qkv.rows, saved.qkv.cols), {}};
  if (!shape.sinks.empty()) d.sinks = Tensor(d_o.rows, shape.heads);
  const std::size_t sequences = d_o.rows / shape.queries();
  d_o = rank.joints.context.output_gradient(rank.at(name + ".core"), sequences, std::move(d_o));
  std::vector<Tensor> along;
  for (std::size_t e = 0; e < saved.lse.size(); ++e) {
    const std::size_t s = e / shape.heads, h = e % shape.heads;
    along.push_back(row_products(saved.o, d_o, shape, s, h));
    if (shape.sinks.empty()) continue;
    sink_gradient(taken_by_sink(shape.sinks[h], saved.lse[e]), along[e], shape, s, h, d.sinks);
  }
  const ProbabilityDropout drops(rank, name + ".core", shape);
  Tensor thin;
  each_turn(rank, name, shape, saved.qkv, [&](int turn, const Tensor& kv, const Positions& keys) {
    Tensor gives(kv.rows, kv.cols);
    for (std::size_t e = 0; e < saved.lse.size(); ++e) {
      const std::size_t s = e / shape.heads, h = e % shape.heads;
      Tensor p = attention_scores(rank.backend, saved.qkv, kv, block, s, h);
      probabilities(p, {shape, s, keys}, saved.lse[e]);
      rank.round(p);
      Tensor dp = probability_gradient(rank.backend, kv, d_o, block, s, h);
      drops.thin(dp, s, h, keys);
      Tensor ds = block_gradient(p, std::move(dp), along[e]);
      rank.round(ds);
      query_gradient(rank.backend, ds, kv, block, s, h, d.qkv, turn > 0);
      key_value_gradient(rank.backend, drops.weighing(rank, p, s, h, keys, thin), ds, saved.qkv,
                         d_o, block, s, h, gives);
    }
    Tensor sum = keys_and_values(gives, shape);
    if (turn > 0) {
      Tensor came = rank.ring.take(true);
      add_to(came, sum);
      sum = std::move(came);
    }
    pass_on(rank, sum, true);
  });
  add_to(d.qkv, unpacked(rank.ring.take(true), shape));  // in different columns
  return d;
}

}  // namespace plumb::model

#include "model/step/train_step.hpp"

#include <cmath>

#include "model/joints/gradients.hpp"
#include "model/joints/memory.hpp"
#include "model/layers/context.hpp"
#include "model/layers/head.hpp"
#include "model/layers/operand.hpp"
#include "model/plan/plan.hpp"
#include "model/rank/shares.hpp"
#include "model/spec/manifest.hpp"
#include "model/spec/ownership.hpp"
#include "model/state/state.hpp"
#include "model/step/apart.hpp"
#include "model/step/optimizer.hpp"
#include "model/step/pipeline.hpp"
#include "number/outcome.hpp"
#include "trace/store/store.hpp"

namespace plumb::model {
namespace {

using Shared = std::shared_ptr<const Tensor>;

const Shared& shared(const Values& leaves, const std::string& id) {
  const auto found = leaves.find(id);
  if (found == leaves.end()) throw Failure("the state lacks '" + id + "'; trace again");
  return found->second;
}
const Tensor& leaf(const Values& leaves, const std::string& id) { return *shared(leaves, id); }

// Returns a slice; the whole is shared, not copied.
Shared sliced(const Shared& whole, Sharding how, const Rank& rank) {
  if (how == Sharding::whole || rank.where.tp_size == 1) return whole;
  const Tensor& x = *whole;
  const bool by_rows = how == Sharding::rows;
  const std::size_t n = by_rows ? x.rows : x.cols;
  const std::size_t first = rank.first(n);
  const std::size_t size = rank.last(n) - first;
  Tensor mine(by_rows ? size : x.rows, by_rows ? x.cols : size);
  for (std::size_t i = 0; i < mine.rows; ++i) {
    const float* from = by_rows ? x.row(first + i) : x.row(i) + first;
    std::copy_n(from, mine.cols, mine.row(i));
  }
  return std::make_shared<const Tensor>(std::move(mine));
}

// What the step before has left, as this rank takes it up.
Shared taken_up(Rank& rank, const Values& leaves, const std::string& id) {
  return rank.joints.state.loads(rank.where, id, shared(leaves, id));
}

// The parameter itself is in shares under ZeRO-3 only, Adam's state under any.
void load_like(Rank& rank, const StateEntry& k, const Parameter& p, const Shared& whole) {
  Shared mine = sliced(whole, held_as(rank.l, p), rank);
  if (rank.l.zero >= (k.id.ends_with("/param") ? 3 : 1)) {
    mine = std::make_shared<const Tensor>(own_share(rank, *mine, p));
    rank.tap_share(k.id + "@previous", *mine, p, k.format);
  } else {
    rank.tap_leaf(k.id + "@previous", *mine, held_as(rank.l, p), k.format);
  }
  rank.state[k.id] = std::move(mine);
}

// `own`: what this rank left of the step before, in the place of the leaves'; null: none.
void load_state(Rank& rank, const Values& leaves, const Values* own) {
  std::map<std::string, Parameter> of_name;
  for (const Parameter& p : parameters(rank.c)) of_name[p.name] = p;
  for (const StateEntry& k : state_entries(rank.c, rank.r)) {
    if (!k.parameter.empty() && !rank.holds(of_name.at(k.parameter))) continue;
    if (own != nullptr) {
      rank.state[k.id] = shared(*own, k.id);
      const Sharding how = k.like_it ? held_as(rank.l, of_name.at(k.parameter)) : Sharding::whole;
      rank.tap_leaf(k.id + "@previous", *rank.state[k.id], how, k.format);
      continue;
    }
    const Shared whole = taken_up(rank, leaves, k.id + "@previous");
    if (k.like_it) {
      load_like(rank, k, of_name.at(k.parameter), whole);
    } else {
      rank.tap_leaf(k.id + "@previous", *whole, Sharding::whole, k.format);
      rank.state[k.id] = whole;
    }
  }
}

// The targets of a head, and the weight of its loss.
struct Predicted {
  std::string labels, mask, count;
};
const Predicted next{"labels", "mask", "data/count"};
const Predicted after_next{"mtp_labels", "mtp_mask", "data/mtp_count"};

Batch load_batch(Rank& rank, const Values& leaves, int m) {
  rank.where.micro_batch = m;
  const std::string prefix = "m" + std::to_string(m) + "/data/";
  const int sample = rank.joints.data.sample(rank.at("data"), m);
  if (rank.c.tokens(sample) != rank.c.tokens(m)) {
    throw Failure("a micro-batch of another length stands in for one; leave --last-fewer out");
  }
  const std::string source = "m" + std::to_string(sample) + "/data/";
  const auto own = [&](const std::string& what) {
    Tensor x = own_context(rank, leaf(leaves, source + what));
    rank.tap_leaf(prefix + what, x, Sharding::tokens, fp32);
    return x;
  };
  const auto targets = [&](const Predicted& of) {
    return Targets{own(of.labels), own(of.mask), rank.state.at(of.count)->values[0]};
  };
  Batch batch{m, own("ids"), targets(next), {}, {}};
  if (rank.c.mtp > 0) batch.after_next = targets(after_next);
  if (rank.c.documents > 0) {
    rank.within[m] = leaf(leaves, prefix + "positions");
    batch.positions = own("positions");
  }
  rank.where.micro_batch = -1;
  return batch;
}

// Counts the tokens of all micro-batches: whole numbers below 2^24, so the sum is exact in any
// order.
void count(Rank& rank, const Values& leaves, const Predicted& of) {
  Tensor count(1, 1);
  for (int& m = rank.where.micro_batch = rank.where.dp; m < rank.c.micro_batches;
       m += rank.where.dp_size) {
    const Tensor& mask = leaf(leaves, "m" + std::to_string(m) + "/data/" + of.mask);
    for (const float x : own_context(rank, mask).values) count.values[0] += x;
  }
  rank.where.micro_batch = -1;
  const Where where = rank.at(of.count);
  if (rank.joints.loss.counts_over(where, "cp")) rank.mesh.cp.sum(count.values, fp32);
  if (rank.joints.loss.counts_over(where, "dp")) rank.mesh.dp.sum(count.values, fp32);
  rank.tap_leaf(of.count, count, Sharding::whole, fp32);
  rank.state[of.count] = std::make_shared<const Tensor>(std::move(count));
}

void one_rank(Rank& rank, const Values& leaves, const Values* own) {
  load_state(rank, leaves, own);
  weight_operands(rank);
  count(rank, leaves, next);
  if (rank.c.mtp > 0) count(rank, leaves, after_next);
  std::vector<Batch> batches;
  for (int m = rank.where.dp; m < rank.c.micro_batches; m += rank.where.dp_size) {
    batches.push_back(load_batch(rank, leaves, m));
  }
  finish_step(rank, forward_and_backward(rank, batches));
  rank.streams.finish();
  if (rank.stale != nullptr) rank.stale->main_grad = std::move(rank.main_grad);
}

// `apart`: of each rank, what it left of the step before; empty: all start from the leaves.
Trace step_over_ranks(const Training& run, const Values& leaves, const std::vector<Values>& apart,
                      const Joints& joints, const Backend& backend, World& world,
                      std::vector<StaleGradients>* stale, std::vector<Waits>* waits) {
  Trace trace{manifest_of(run), {}, {}};
  if (run.traced) trace.graph = plan(run);
  if (run.traced && !world.adds_in_rank_order()) trace.graph = in_any_rank_order(*trace.graph);
  // Its products may differ from the promised chain in their last bits, whole or sliced.
  if (!backend.slice_invariant) trace.manifest.settings["any_order"] = backend.name;
  trace.ranks.resize(static_cast<std::size_t>(run.layout.world_size()));
  const auto divisions = divisions_of(run.layout);
  if (stale != nullptr) stale->resize(trace.ranks.size());
  if (waits != nullptr) waits->resize(trace.ranks.size());
  world.run(run.layout.world_size(), divisions, [&](int number, Groups& groups) {
    Streams streams(run.layout.overlap, number);
    const Where* where = nullptr;
    Groups own = flushing_before_waits(groups, streams, [&](const Arrival& what, auto values) {
      joints.arrivals.came(*where, what, values);
    });
    const auto n = static_cast<std::size_t>(number);
    Rank rank(run, joints, backend, mesh_of(own), streams,
              stale == nullptr ? nullptr : &stale->at(n));
    where = &rank.where;
    if (waits != nullptr) rank.waits = &waits->at(n);
    if (run.rewriting != Rewriting::none) rank.rewritten = &leaves;
    one_rank(rank, leaves, apart.empty() ? nullptr : &apart.at(n));
    trace.ranks[n] = std::move(rank.record);
  });
  if (world.has_all()) return trace;
  const RankRecord& mine = trace.ranks[static_cast<std::size_t>(world.rank())];
  const std::vector<std::string> records = world.gather(bytes_of(mine));
  for (std::size_t r = 0; r < records.size(); ++r) trace.ranks[r] = record_from(records[r]);
  return trace;
}

}  // namespace

Trace train_step(const Training& run, const Values& leaves, const Joints& joints,
                 const Backend& backend, World& world, std::vector<StaleGradients>* stale,
                 std::vector<Waits>* waits) {
  return step_over_ranks(run, leaves, {}, joints, backend, world, stale, waits);
}

std::vector<Values> states_apart(const Training& run, Trace step) {
  if (run.layout.zero > 0) {
    throw Failure("ranks that keep shares of the state cannot go on apart; leave zero" +
                  std::to_string(run.layout.zero) + " out of the layout");
  }
  std::vector<Values> states(step.ranks.size());
  for (const StateEntry& k : state_entries(run.config, run.recipe)) {
    for (std::size_t n = 0; n < states.size(); ++n) {
      const auto found = step.ranks[n].shards.find(k.id);
      if (found == step.ranks[n].shards.end()) continue;
      states[n][k.id] = std::make_shared<const Tensor>(std::move(found->second.values));
    }
  }
  return states;
}

Trace train_step_apart(const Training& run, const Values& data, const std::vector<Values>& states,
                       const Joints& joints, const Backend& backend) {
  return step_over_ranks(run, data, states, joints, backend, threads(), nullptr, nullptr);
}

}  // namespace plumb::model

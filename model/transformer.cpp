#include "model/transformer.hpp"

#include <cmath>

#include "model/layers/context.hpp"
#include "model/layers/operand.hpp"
#include "model/optimizer.hpp"
#include "model/pipeline.hpp"
#include "model/plan.hpp"
#include "model/state.hpp"
#include "model/zero.hpp"
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
  if (how == Sharding::none || rank.where.tp_size == 1) return whole;
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

// The parameter itself is in shares under ZeRO-3 only, Adam's state under any.
void load_like(Rank& rank, const Kept& k, const Parameter& p, const Shared& whole) {
  Shared mine = sliced(whole, p.sharding, rank);
  if (rank.l.zero >= (k.id.ends_with("/param") ? 3 : 1)) {
    mine = std::make_shared<const Tensor>(own_share(rank, *mine, p));
    rank.tap_share(k.id + "@previous", *mine, p, k.format);
  } else {
    rank.tap_leaf(k.id + "@previous", *mine, held(p), k.format);
  }
  rank.state[k.id] = std::move(mine);
}

void load_state(Rank& rank, const Values& leaves) {
  std::map<std::string, Parameter> of_name;
  for (const Parameter& p : parameters(rank.c)) of_name[p.name] = p;
  for (const Kept& k : kept(rank.c, rank.r)) {
    if (!k.parameter.empty() && !rank.holds(of_name.at(k.parameter))) continue;
    const Shared& whole = shared(leaves, k.id + "@previous");
    if (k.like_it) {
      load_like(rank, k, of_name.at(k.parameter), whole);
    } else {
      rank.tap_leaf(k.id + "@previous", *whole, Held::whole, k.format);
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
  const std::string prefix = "m" + std::to_string(m) + "/data/";
  const auto own = [&](const std::string& what) {
    Tensor x = own_context(rank, leaf(leaves, prefix + what));
    rank.tap_leaf(prefix + what, x, Held::tokens, fp32);
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
  return batch;
}

// Counts the tokens of all micro-batches: whole numbers below 2^24, so the sum is exact in any
// order.
void count(Rank& rank, const Values& leaves, const Predicted& of) {
  Tensor count(1, 1);
  for (int m = rank.where.dp; m < rank.c.micro_batches; m += rank.where.dp_size) {
    const Tensor& mask = leaf(leaves, "m" + std::to_string(m) + "/data/" + of.mask);
    for (const float x : own_context(rank, mask).values) count.values[0] += x;
  }
  const Where where = rank.at(of.count);
  if (rank.joints.loss.counts_over(where, "cp")) rank.mesh.cp.sum(count.values, fp32);
  if (rank.joints.loss.counts_over(where, "dp")) rank.mesh.dp.sum(count.values, fp32);
  rank.tap_leaf(of.count, count, Held::whole, fp32);
  rank.state[of.count] = std::make_shared<const Tensor>(std::move(count));
}

void one_rank(Rank& rank, const Values& leaves) {
  load_state(rank, leaves);
  weight_operands(rank);
  count(rank, leaves, next);
  if (rank.c.mtp > 0) count(rank, leaves, after_next);
  std::vector<Batch> batches;
  for (int m = rank.where.dp; m < rank.c.micro_batches; m += rank.where.dp_size) {
    batches.push_back(load_batch(rank, leaves, m));
  }
  finish_step(rank, forward_and_backward(rank, batches));
  rank.overlap.finish();
  if (rank.leftovers != nullptr) rank.leftovers->main_grad = std::move(rank.main_grad);
}

}  // namespace

Manifest manifest_of(const Training& run) {
  Manifest manifest;
  manifest.world_size = run.layout.world_size();
  manifest.step = run.step;
  manifest.settings = settings_of(run.config);
  manifest.settings["recipe"] = run.recipe.id;
  if (!run.recipe.card.empty()) manifest.settings["recipe_card"] = run.recipe.card;
  manifest.settings["layout"] = name_of(run.layout);
  return manifest;
}

Training run_from(const Manifest& manifest) {
  const auto setting = [&](const char* key) {
    const auto found = manifest.settings.find(key);
    if (found == manifest.settings.end()) {
      throw Failure(std::string("the manifest does not say its ") + key + "; trace again");
    }
    return found->second;
  };
  const Recipe recipe = manifest.settings.contains("recipe_card")
                            ? recipe_from_json(setting("recipe_card"), "the recipe in the manifest")
                            : find_recipe(setting("recipe"));
  return {config_from(manifest.settings), recipe, parse_layout(setting("layout")), manifest.step};
}

Trace train_step(const Training& run, const Values& leaves, const Joints& joints,
                 const Backend& backend, World& world, std::vector<Leftovers>* leftovers) {
  Trace trace{manifest_of(run), {}, {}};
  if (run.traced) trace.graph = plan(run.config, run.recipe, run.layout, run.step);
  // Its products may differ from the promised chain in their last bits, whole or sliced.
  if (!backend.slice_invariant) trace.manifest.settings["any_order"] = backend.name;
  trace.ranks.resize(static_cast<std::size_t>(run.layout.world_size()));
  const auto divisions = divisions_of(run.layout);
  if (leftovers != nullptr) leftovers->resize(trace.ranks.size());
  world.run(run.layout.world_size(), divisions, [&](int number, Groups& groups) {
    Overlap overlap(run.layout.overlap, number);
    Groups own = punctual(groups, overlap);
    const auto n = static_cast<std::size_t>(number);
    Rank rank(run, joints, backend, mesh_of(own), overlap,
              leftovers == nullptr ? nullptr : &leftovers->at(n));
    one_rank(rank, leaves);
    trace.ranks[n] = std::move(rank.record);
  });
  if (world.has_all()) return trace;
  const RankRecord& mine = trace.ranks[static_cast<std::size_t>(world.rank())];
  const std::vector<std::string> records = world.gather(bytes_of(mine));
  for (std::size_t r = 0; r < records.size(); ++r) trace.ranks[r] = record_from(records[r]);
  return trace;
}

Trace reference_trace(const Training& run, Values values) {
  Trace trace{manifest_of(run), plan(run.config, run.recipe, run.layout, run.step), {}};
  RankRecord record;
  std::map<std::string, Format> formats;
  for (const Node& node : trace.graph->nodes) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      formats[node.outputs[i]] = traits_of(node).scales_output ? fp32 : node.how.output;
      record.ran[node.outputs[i]] = node.how;
    }
  }
  for (const Kept& k : kept(run.config, run.recipe)) formats[k.id + "@previous"] = k.format;
  for (const auto& [id, tensor] : values) {
    const auto known = formats.find(id);
    const Format format = known == formats.end() ? fp32 : known->second;
    record.shards[id] = {whole(tensor->rows, tensor->cols), *tensor, format};
  }
  trace.ranks.push_back(std::move(record));
  return trace;
}

}  // namespace plumb::model

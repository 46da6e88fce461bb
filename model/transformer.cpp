#include "model/transformer.hpp"

#include <cmath>

#include "bounds/outcome.hpp"
#include "model/layers/context.hpp"
#include "model/layers/operand.hpp"
#include "model/optimizer.hpp"
#include "model/pipeline.hpp"
#include "model/plan.hpp"
#include "model/zero.hpp"

namespace plumb {
namespace {

Tensor sliced(const Tensor& x, Sharding how, const Rank& rank) {
  if (how == Sharding::none || rank.where.tp_size == 1) return x;
  const bool by_rows = how == Sharding::rows;
  const std::size_t n = by_rows ? x.rows : x.cols;
  const std::size_t first = rank.first(n);
  const std::size_t size = rank.last(n) - first;
  Tensor mine(by_rows ? size : x.rows, by_rows ? x.cols : size);
  for (std::size_t i = 0; i < mine.rows; ++i) {
    const float* from = by_rows ? x.row(first + i) : x.row(i) + first;
    std::copy_n(from, mine.cols, mine.row(i));
  }
  return mine;
}

const Tensor& leaf(const Values& leaves, const std::string& id) {
  const auto found = leaves.find(id);
  if (found == leaves.end()) throw Failure("the state lacks '" + id + "'; trace again");
  return *found->second;
}

// The parameter itself is shared under ZeRO-3 only, Adam's state under any.
void load_state(Rank& rank, const Values& leaves) {
  for (const Parameter& p : parameters(rank.c)) {
    if (!rank.holds(p)) continue;
    for (const char* kind : {"/param", "/master", "/exp_avg", "/exp_avg_sq"}) {
      const std::string id = p.name + kind;
      const bool compute = std::string_view(kind) == "/param";
      const Format& format = compute ? rank.r.compute : fp32;
      Tensor mine = sliced(leaf(leaves, id + "@previous"), p.sharding, rank);
      if (rank.l.zero >= (compute ? 3 : 1)) {
        mine = own_share(rank, mine, p);
        rank.tap_share(id + "@previous", mine, p, format);
      } else {
        rank.tap_leaf(id + "@previous", mine, held(p), format);
      }
      rank.state[id] = std::move(mine);
    }
  }
}

Batch load_batch(Rank& rank, const Values& leaves, int m, float count) {
  const std::string prefix = "m" + std::to_string(m) + "/data/";
  const auto own = [&](const char* what) { return own_context(rank, leaf(leaves, prefix + what)); };
  Batch batch{m, own("ids"), own("labels"), own("mask"), count};
  rank.tap_leaf(prefix + "ids", batch.ids, Held::tokens, fp32);
  rank.tap_leaf(prefix + "labels", batch.labels, Held::tokens, fp32);
  rank.tap_leaf(prefix + "mask", batch.mask, Held::tokens, fp32);
  return batch;
}

// Counted tokens of all micro-batches: whole numbers below 2^24, so the sum is exact in any order.
float counted(Rank& rank, const Values& leaves) {
  Tensor count(1, 1);
  for (int m = rank.where.dp; m < rank.c.micro_batches; m += rank.where.dp_size) {
    const Tensor& mask = leaf(leaves, "m" + std::to_string(m) + "/data/mask");
    for (const float x : own_context(rank, mask).values) count.values[0] += x;
  }
  rank.mesh.cp.sum(count.values, fp32);
  rank.mesh.dp.sum(count.values, fp32);
  rank.tap_leaf("data/count", count, Held::whole, fp32);
  return count.values[0];
}

void one_rank(Rank& rank, const Values& leaves) {
  load_state(rank, leaves);
  weight_operands(rank);
  const float count = counted(rank, leaves);
  std::vector<Batch> batches;
  for (int m = rank.where.dp; m < rank.c.micro_batches; m += rank.where.dp_size) {
    batches.push_back(load_batch(rank, leaves, m, count));
  }
  finish_step(rank, forward_and_backward(rank, batches));
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
                 const Backend& backend) {
  Trace trace{manifest_of(run), plan(run.config, run.recipe, run.layout, run.step), {}};
  // Its products may differ from the promised chain in their last bits, whole or sliced.
  if (!backend.slice_invariant) trace.manifest.settings["any_order"] = backend.name;
  trace.ranks.resize(static_cast<std::size_t>(run.layout.world_size()));
  const auto divisions = divisions_of(run.layout);
  on_threads(run.layout.world_size(), divisions, [&](int number, Groups& groups) {
    Rank rank(run.config, run.recipe, run.layout, joints, backend, mesh_of(groups), run.step);
    one_rank(rank, leaves);
    trace.ranks[static_cast<std::size_t>(number)] = std::move(rank.record);
  });
  return trace;
}

Trace reference_trace(const Training& run, Values values) {
  Trace trace{manifest_of(run), plan(run.config, run.recipe, run.layout, run.step), {}};
  RankRecord record;
  std::map<std::string, Format> formats;
  for (const Node& node : trace.graph->nodes) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      // Adam's state stays in FP32; only the parameter, its last output, is cast.
      const bool state = node.op == "adam" && i + 1 < node.outputs.size();
      // Scales and what is scaled back from a short format are held in FP32.
      const bool scaled = node.op.starts_with("quantize") || node.op == "block_scales";
      formats[node.outputs[i]] = state || scaled ? fp32 : node.how.output;
      record.ran[node.outputs[i]] = node.how;
    }
  }
  for (const auto& [id, tensor] : values) {
    const auto known = formats.find(id);
    Format format = known == formats.end() ? fp32 : known->second;
    if (id.ends_with("/param@previous")) format = run.recipe.compute;
    record.shards[id] = {whole(tensor->rows, tensor->cols), *tensor, format};
  }
  trace.ranks.push_back(std::move(record));
  return trace;
}

}  // namespace plumb

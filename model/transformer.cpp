#include "model/transformer.hpp"

#include <cmath>

#include "bounds/outcome.hpp"
#include "model/layers/attention.hpp"
#include "model/layers/ends.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"
#include "model/layers/operand.hpp"
#include "model/optimizer.hpp"
#include "model/plan.hpp"

namespace plumb {
namespace {

// What backward needs of one layer.
struct Saved {
  Tensor x, middle, fc1;
  Operand norm1, o, norm2, act;
  Attention attention;
};

Tensor layer_forward(Rank& rank, const std::string& name, Tensor x, Saved& s) {
  const auto product_sees = [&](const char* module, Tensor y, Held held) {
    return input_operand(rank, name + module, std::move(y), held);
  };
  s.norm1 = product_sees(".attn.qkv", all_tokens(rank, norm_layer(rank, name + ".norm1", x)),
                         Held::whole);
  s.o =
      product_sees(".attn.proj",
                   attention_layer(rank, name + ".attn",
                                   column_forward(rank, name + ".attn.qkv", s.norm1), s.attention),
                   Held::columns);
  s.middle = residual(rank, name + ".attn.add/out", x, row_forward(rank, name + ".attn.proj", s.o));
  s.norm2 = product_sees(".mlp.fc1", all_tokens(rank, norm_layer(rank, name + ".norm2", s.middle)),
                         Held::whole);
  s.fc1 = column_forward(rank, name + ".mlp.fc1", s.norm2);
  Tensor act = rank.gpt() ? gelu_forward(s.fc1) : swiglu_forward(s.fc1);
  rank.round(act);
  rank.tap(name + ".mlp.act/out", act, Held::columns, rank.r.compute, rank.plain());
  s.act = product_sees(".mlp.fc2", std::move(act), Held::columns);
  s.x = std::move(x);
  return residual(rank, name + ".mlp.add/out", s.middle,
                  row_forward(rank, name + ".mlp.fc2", s.act));
}

Tensor layer_backward(Rank& rank, const std::string& name, const Saved& s, const Tensor& dy) {
  const Tensor d_act = row_backward(rank, name + ".mlp.fc2", s.act, dy);
  Tensor d_fc1 = rank.gpt() ? gelu_backward(s.fc1, d_act) : swiglu_backward(s.fc1, d_act);
  rank.round(d_fc1);
  rank.tap(name + ".mlp.act/grad_in", d_fc1, Held::columns, rank.r.compute, rank.plain());
  const Tensor d_norm2 = column_backward(rank, name + ".mlp.fc1", s.norm2, d_fc1);
  const Tensor d_middle = residual(rank, name + ".attn.add/grad_out", dy,
                                   norm_layer_backward(rank, name + ".norm2", s.middle, d_norm2));
  const Tensor d_o = row_backward(rank, name + ".attn.proj", s.o, d_middle);
  const Tensor d_qkv = attention_layer_backward(rank, name + ".attn", s.attention, d_o);
  const Tensor d_norm1 = column_backward(rank, name + ".attn.qkv", s.norm1, d_qkv);
  return residual(rank, name + ".add/grad_out", d_middle,
                  norm_layer_backward(rank, name + ".norm1", s.x, d_norm1));
}

// Forward and backward of one micro-batch; returns its share of the loss.
Tensor micro_batch(Rank& rank, const Batch& batch) {
  std::vector<Saved> saved(static_cast<std::size_t>(rank.c.layers));
  const auto name = [](std::size_t l) { return "layers." + std::to_string(l); };
  Tensor x = embed(rank, batch);
  for (std::size_t l = 0; l < saved.size(); ++l) {
    rank.where.layer = static_cast<int>(l);
    x = layer_forward(rank, name(l), std::move(x), saved[l]);
  }
  rank.where.layer = -1;
  Tensor loss;
  const Operand h =
      input_operand(rank, "head", all_tokens(rank, norm_layer(rank, "final_norm", x)), Held::whole);
  Tensor dx = norm_layer_backward(rank, "final_norm", x, head_and_loss(rank, batch, h, loss));
  for (std::size_t l = saved.size(); l-- > 0;) {
    rank.where.layer = static_cast<int>(l);
    dx = layer_backward(rank, name(l), saved[l], dx);
  }
  rank.where.layer = -1;
  embed_backward(rank, batch, dx);
  return loss;
}

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

Held held(Sharding how) {
  return how == Sharding::none ? Held::whole : how == Sharding::rows ? Held::rows : Held::columns;
}

const Tensor& leaf(const Values& leaves, const std::string& id) {
  const auto found = leaves.find(id);
  if (found == leaves.end()) throw Failure("the state lacks '" + id + "'; trace again");
  return *found->second;
}

void load_state(Rank& rank, const Values& leaves) {
  for (const Parameter& p : parameters(rank.c)) {
    for (const char* kind : {"/param", "/master", "/exp_avg", "/exp_avg_sq"}) {
      const std::string id = p.name + kind;
      Tensor mine = sliced(leaf(leaves, id + "@previous"), p.sharding, rank);
      const bool compute = std::string_view(kind) == "/param";
      rank.tap_leaf(id + "@previous", mine, held(p.sharding), compute ? rank.r.compute : fp32);
      rank.state[id] = std::move(mine);
    }
  }
}

Batch load_batch(Rank& rank, const Values& leaves, int m, float count) {
  const std::string prefix = "m" + std::to_string(m) + "/data/";
  Batch batch{leaf(leaves, prefix + "ids"), leaf(leaves, prefix + "labels"),
              leaf(leaves, prefix + "mask"), count};
  rank.tap_leaf(prefix + "ids", batch.ids, Held::whole, fp32);
  rank.tap_leaf(prefix + "labels", batch.labels, Held::whole, fp32);
  rank.tap_leaf(prefix + "mask", batch.mask, Held::whole, fp32);
  return batch;
}

// Counted tokens of all micro-batches: whole numbers below 2^24, so the sum is exact in any order.
float counted(Rank& rank, const Values& leaves) {
  Tensor count(1, 1);
  for (int m = rank.where.dp; m < rank.c.micro_batches; m += rank.where.dp_size) {
    for (const float x : leaf(leaves, "m" + std::to_string(m) + "/data/mask").values) {
      count.values[0] += x;
    }
  }
  rank.mesh.dp.sum(count.values, fp32);
  rank.tap_leaf("data/count", count, Held::whole, fp32);
  return count.values[0];
}

void one_rank(Rank& rank, const Values& leaves) {
  load_state(rank, leaves);
  weight_operands(rank);
  const float count = counted(rank, leaves);
  Tensor loss(1, 1);
  for (int m = rank.where.dp; m < rank.c.micro_batches; m += rank.where.dp_size) {
    rank.where.micro_batch = m;
    add_to(loss, micro_batch(rank, load_batch(rank, leaves, m, count)));
  }
  rank.where.micro_batch = -1;
  finish_step(rank, std::move(loss));
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
  on_threads(run.layout.dp, run.layout.tp, [&](int number, Mesh mesh) {
    Rank rank(run.config, run.recipe, run.layout, joints, backend, mesh, run.step);
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

// The three bugs that TTrace's authors found, in the form of the tables that they posted: how far is
// each gradient of a run with the bug, and of the same layout without it, from the reference?
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "experiments/experiment.hpp"
#include "experiments/said.hpp"
#include "model/data/text.hpp"
#include "trace/difference.hpp"

namespace plumb::experiments {
namespace {

constexpr int seeds = 3;
constexpr double unit = 0x1p-7;  // in which the authors count: epsilon of BF16

struct Case {
  const char *name, *bug, *family, *layout, *recipe;
  void (*set)(Config&);
};

// Theirs: 24 layers, hidden 1024, 16 heads, sequences of 1024, 4 micro-batches of 4. An eighth as
// wide, a sixteenth as long.
void attention_gradient(Config& c) {
  c.layers = 24;
  c.heads = 16;
  c.kv_heads = 16;
  c.micro_batches = 4;
}

// Theirs: sizes not told, four tensor-parallel ranks. The default model.
void final_norm(Config&) {}

// Theirs, but for the factor of rotary frequencies and the vocabulary.
void norm_gradient(Config& c) {
  c.hidden = 128;
  c.heads = 4;
  c.kv_heads = 4;
  c.sequence = 16;
  c.sequences = 2;
  c.rope_base = 500000;
}

constexpr Case cases[] = {
    {"bug-14", "norm-grad-tp-times-too-large", "llama", "tp2,cp2", "fp8-delayed", norm_gradient},
    {"bug-12", "sp-norm-grad-not-reduced", "gpt", "tp4,sp", "bf16", final_norm},
    {"bug-13", "cp-attention-dqkv-wrong", "gpt", "cp2:ring", "bf16", attention_gradient},
};

bool of_first_batch(const std::string& id) {
  return id.starts_with("m0/") && id.ends_with("/wgrad");
}
bool is_gradient(const std::string& id) { return of_first_batch(id) || id.ends_with("/main_grad"); }

// Gradients alone: activations of 24 layers are large.
Values gradients_in(const Trace& trace) {
  Values all = merge(trace).values;
  std::erase_if(all, [](const auto& each) { return !is_gradient(each.first); });
  return all;
}

// Runs of a case. `made` has the gradients in the order of dataflow, `downstream` those that are
// made from the tensor where the bug bites.
struct Runs {
  Config config;
  Values reference, healthy, broken;
  std::vector<Tensor> replicas;  // of the final norm's gradient in the broken run, by rank
  std::vector<std::string> made;
  std::set<std::string> downstream;
};

void follow(const Graph& graph, const std::string& from, Runs& runs) {
  runs.downstream.insert(from);
  for (const Node& node : graph.nodes) {
    const bool follows = std::ranges::any_of(
        node.inputs, [&](const auto& id) { return runs.downstream.contains(id); });
    for (const std::string& id : node.outputs) {
      if (follows) runs.downstream.insert(id);
      if (is_gradient(id)) runs.made.push_back(id);
    }
  }
}

Runs runs_of(const Case& of, int seed) {
  Config config = config_of(of.family);
  of.set(config);
  config.seed = static_cast<std::uint64_t>(seed);
  const Bug& bug = find_bug(of.bug);
  const Start start =
      start_of(config, find_recipe(of.recipe), parse_layout(of.layout), default_text());
  refuse_unmet(bug, start.run, 0);
  Runs runs{config, gradients_in(run_reference(start)), {}, {}, {}, {}, {}};
  const Candidate healthy = run_candidate(start);
  follow(*healthy.trace.graph, bug.bites_at(config), runs);
  runs.healthy = gradients_in(healthy.trace);
  const Candidate broken = run_candidate(start, &bug);
  runs.broken = gradients_in(broken.trace);
  for (const RankRecord& rank : broken.trace.ranks) {
    const auto found = rank.shards.find("final_norm.weight/main_grad");
    if (found != rank.shards.end()) runs.replicas.push_back(found->second.tensor());
  }
  return runs;
}

double error_of(const Tensor& of, const Tensor& to) {
  return difference(of.values, to.values).relative();
}

// One table of a case: places count from 1.
class Lines {
 public:
  Lines(std::vector<Table::Row>& rows, std::vector<std::string> key)
      : rows_(rows), key_(std::move(key)) {}

  // `apart`: of the broken run from the healthy one.
  void add(const std::string& name, bool downstream, double healthy, double broken, double apart) {
    Table::Row row = key_;
    row.insert(row.end(), {std::to_string(++place_), name, yes(downstream)});
    for (const double error : {healthy, broken}) {
      row.insert(row.end(), {fmt::format("{:.2e}", error), fmt::format("{:.1f}", error / unit)});
    }
    row.push_back(fmt::format("{:.6g}", apart));
    rows_.push_back(row);
  }

 private:
  std::vector<Table::Row>& rows_;
  std::vector<std::string> key_;
  int place_ = 0;
};

void add_gradient(Lines& lines, const Runs& runs, const std::string& id) {
  const Tensor& truth = *runs.reference.at(id);
  lines.add(id, runs.downstream.contains(id), error_of(*runs.healthy.at(id), truth),
            error_of(*runs.broken.at(id), truth),
            error_of(*runs.broken.at(id), *runs.healthy.at(id)));
}

// Each rank's gradient of the final norm against the sum of all ranks', and that sum against the
// reference. Of the healthy run: against the reference.
void add_replicas(Lines& lines, const Runs& runs) {
  const std::string id = "final_norm.weight/main_grad";
  const Tensor& truth = *runs.reference.at(id);
  const Tensor& whole = *runs.healthy.at(id);
  const double healthy = error_of(whole, truth);
  Tensor sum(truth.rows, truth.cols);
  for (const Tensor& each : runs.replicas) {
    for (std::size_t e = 0; e < sum.size(); ++e) sum.values[e] += each.values[e];
  }
  for (std::size_t r = 0; r < runs.replicas.size(); ++r) {
    lines.add("rank " + std::to_string(r) + " against the sum of ranks", true, healthy,
              error_of(runs.replicas[r], sum), error_of(runs.replicas[r], whole));
  }
  lines.add("sum of ranks against the reference", true, healthy, error_of(sum, truth),
            error_of(sum, whole));
}

std::vector<std::string> key_of(const Case& of, int seed, const std::string& table) {
  return {of.name, std::to_string(seed), table};
}

std::vector<Table::Row> rows_of(const Case& of, int seed) {
  const Runs runs = runs_of(of, seed);
  std::vector<Table::Row> rows;
  Lines backward(rows, key_of(of, seed, "gradients"));
  for (const std::string& id : runs.made) {
    if (of_first_batch(id)) add_gradient(backward, runs, id);
  }
  if (of.name == std::string("bug-12")) {
    Lines replicas(rows, key_of(of, seed, "replicas"));
    add_replicas(replicas, runs);
  }
  Lines forward(rows, key_of(of, seed, "main_grads"));
  for (const Parameter& p : parameters(runs.config)) {
    add_gradient(forward, runs, p.name + "/main_grad");
  }
  return rows;
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= seeds * effort.scale; ++seed) {
    for (const Case& of : cases) {
      if (effort.out_of_time()) return;
      Config config = config_of(of.family);
      of.set(config);
      std::vector<std::string> last = key_of(of, seed, "main_grads");
      last.push_back(std::to_string(parameters(config).size()));
      if (rows.settled(last)) continue;
      rows.add_group(rows_of(of, seed));
      effort.progress(last[0] + " seed " + last[1]);
    }
  }
}

}  // namespace

extern const Experiment case_studies{
    .name = "case-studies",
    .question =
        "How far are the gradients of the three bugs that TTrace's authors found from the "
        "reference, and those of healthy runs?",
    .columns = {"case", "seed", "table", "place", "name", "downstream", "healthy_error",
                "healthy_eps", "broken_error", "broken_eps", "broken_from_healthy"},
    .keys = 4,
    .run = run,
    .trained_states = "none",
};

}  // namespace plumb::experiments

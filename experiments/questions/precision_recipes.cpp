// Where does a recipe lose precision, how does the loss grow, and how small a fault is visible
// then?
//
//   injected   the roundings of one kind alone, of all others none (FP64 around them, each recorded
//              error with a random sign): relative Frobenius error of the logits and of all reduced
//              gradients together. Squares of the kinds add up to about that of `all`.
//   growth     of the recipe as a whole, layer by layer: the residual stream, and its gradient
//   visible    the smallest scale error (median over tensors) that four twins would have noticed in
//              a healthy run over dp2,tp2,sp
#include <cmath>

#include "experiments/experiment.hpp"
#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "trace/execute.hpp"
#include "trace/statistics.hpp"

namespace plumb::experiments {
namespace {

constexpr int draws = 3;

// A kind of rounding: the tensor that is cast, and its format.
std::string kind_of_node(const Node& node) {
  const std::string& id = node.outputs.front();
  const std::string to = " to " + std::string(node.how.output.name);
  if (id.find("/grad_operand") != id.npos) return "gradients for products" + to;
  if (id.find(".weight/operand") != id.npos) return "weights for products" + to;
  if (id.find("/operand") != id.npos) return "activations for products" + to;
  const std::string phase = node.phase == Phase::forward ? "forward " : "backward ";
  switch (traits_of(node).kind) {
    case Kind::product:
      return phase + "products" + to;
    case Kind::attention:
      return phase + "attention" + to;
    case Kind::residual:
      return phase + "residual stream" + to;
    case Kind::other:
      break;
  }
  return phase + "norms and activations" + to;
}

using Relative = std::map<std::string, double>;  // by what is looked at

// Squared distances from the exact run, and its squared size, added up over tensors.
class Distances {
 public:
  explicit Distances(const Config& config) : layers_(config.layers) {}

  Relative of(const ValuesOf<double>& run, const ValuesOf<double>& exact) const {
    Relative relative{{"logits", ratio(run, exact, "m0/head/out", true)},
                      {"gradients", ratio(run, exact, "/main_grad", false)}};
    for (int l = 0; l < layers_; ++l) {
      const std::string name = "m0/layers." + std::to_string(l);
      relative["forward " + std::to_string(l)] = ratio(run, exact, name + ".mlp.add/out", true);
      relative["backward " + std::to_string(l)] = ratio(run, exact, name + ".add/grad_out", true);
    }
    return relative;
  }

 private:
  static double ratio(const ValuesOf<double>& run, const ValuesOf<double>& exact,
                      const std::string& what, bool whole_id) {
    double off = 0, size = 0;
    for (const auto& [id, x] : exact) {
      if (whole_id ? id != what : !id.ends_with(what)) continue;
      const Matrix<double>& y = *run.at(id);
      for (std::size_t e = 0; e < x->size(); ++e) {
        off += std::pow(y.values[e] - x->values[e], 2);
        size += std::pow(x->values[e], 2);
      }
    }
    return std::sqrt(off / size);
  }

  int layers_;
};

class Study {
 public:
  Study(Table& rows, const Effort& effort, std::vector<std::string> key, const Start& start)
      : rows_(rows),
        effort_(effort),
        key_(std::move(key)),
        start_(start),
        graph_(plan(start.run.config, start.run.recipe, {}, start.run.step)),
        exact_(exact(graph_, start.leaves, extent)),
        errors_(rounding_errors(graph_, start.leaves, extent)) {}

  void run() {
    std::set<std::string> kinds{"all"};
    for (const Node& node : graph_.nodes) {
      if (node.phase <= extent.last && errs(node)) kinds.insert(kind_of_node(node));
    }
    for (const std::string& kind : kinds) {
      effort_.progress(key_[0] + " " + key_[2] + ": " + kind);
      injected(kind);
    }
    const ExecutedReference reference(start_);
    const Candidate candidate = run_candidate(start_);
    add("visible", "scale", "median",
        check(reference.to_judge(), candidate.trace, merge(candidate.trace), CheckOptions())
            .smallest_scale);
    rows_.add_group(group_);
  }

 private:
  static constexpr Extent extent{Phase::reduce};

  bool errs(const Node& node) const {
    for (const Tensor& error : errors_.at(node.outputs.front())) {
      for (const float x : error.values) {
        if (x != 0) return true;
      }
    }
    return false;
  }

  void injected(const std::string& kind) {
    Errors chosen = errors_;
    for (const Node& node : graph_.nodes) {
      if (node.phase > extent.last || kind == "all" || kind_of_node(node) == kind) continue;
      for (Tensor& error : chosen.at(node.outputs.front())) {
        std::fill(error.values.begin(), error.values.end(), 0.0F);
      }
    }
    Relative squares;
    for (int k = 1; k <= draws; ++k) {
      const ValuesOf<double> draw = noise_draw(graph_, start_.leaves, chosen, 1, k, extent);
      for (const auto& [what, x] : Distances(start_.run.config).of(draw, exact_)) {
        squares[what] += x * x / draws;
      }
    }
    for (const auto& [what, square] : squares) {
      const bool layer = what.find(' ') != what.npos;
      if (!layer || kind == "all")
        add(layer ? "growth" : "injected", kind, what, std::sqrt(square));
    }
  }

  void add(const std::string& what, const std::string& kind, const std::string& where, double x) {
    std::vector<std::string> row = key_;
    row.insert(row.end(), {what, kind, where, cell(x)});
    group_.push_back(std::move(row));
  }

  Table& rows_;
  std::vector<Table::Row> group_;
  const Effort& effort_;
  std::vector<std::string> key_;
  const Start& start_;
  Graph graph_;
  ValuesOf<double> exact_;
  Errors errors_;
};

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= effort.scale; ++seed) {
    for (const Family family : {Family::gpt, Family::llama}) {
      for (const char* weights : {"random", "trained"}) {
        for (const Recipe& recipe : all_recipes()) {
          if (effort.out_of_time()) return;
          if (recipe.stochastic_results) continue;  // one device rounds as bf16-stochastic does
          std::vector<std::string> key{name_of(family), weights, recipe.id, std::to_string(seed)};
          std::vector<std::string> last = key;
          last.insert(last.end(), {"visible", "scale", "median"});
          if (rows.settled(last)) continue;
          Config config = config_of(name_of(family));
          config.seed = static_cast<std::uint64_t>(seed);
          const Layout layout = parse_layout("dp2,tp2,sp");
          const Start start = weights == std::string("random")
                                  ? start_of(config, recipe, layout, default_text())
                                  : effort.trained(recipe, layout, config);
          Study(rows, effort, std::move(key), start).run();
        }
      }
    }
  }
}

}  // namespace

extern const Experiment precision_recipes{
    .name = "precision-recipes",
    .question = "Where does each recipe lose precision, how does it grow, what is visible then?",
    .columns = {"family", "weights", "recipe", "seed", "what", "kind", "where", "value"},
    .keys = 7,
    .run = run,
};

}  // namespace plumb::experiments

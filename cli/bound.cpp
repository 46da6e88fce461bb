#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bounds/examples/shaped.hpp"
#include "bounds/on_machine.hpp"
#include "bounds/outcome.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"

namespace plumb {
namespace {

struct BoundCommand {
  std::string op, shape, recipe = "bf16", machine = "ieee", mode = "deterministic";
  double delta = 1e-9;
  int parts = 1;
  bool all = false, explain = false, as_json = false;
};

Mode mode_from(const std::string& name) {
  for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
    if (name == name_of(mode)) return mode;
  }
  throw Failure("unknown mode '" + name + "'; known: deterministic, probabilistic, moments");
}

const Machine& machine_from(const std::string& id) {
  if (const Machine* card = find_machine(id)) return *card;
  std::string known;
  for (const Machine& m : all_machines()) known.append(known.empty() ? "" : ", ").append(m.id);
  throw Failure("unknown machine '" + id + "'; known: " + known);
}

struct Answer {
  std::string op, shape;
  Mode mode;
  double delta = 0, largest_value = 0, largest_bound = 0, largest_bias = 0;
  std::vector<Term> terms;
  std::string refused;
};

double largest_of(const Matrix<double>& m) {
  double largest = 0;
  for (const double x : m.values) largest = std::max(largest, std::fabs(x));
  return largest;
}

Answer answer_to(const BoundCommand& asked, const std::string& op, const std::string& shape,
                 Mode mode) {
  const Recipe recipe = recipe_from(asked.recipe);
  Example e = shaped_example(op, shape, recipe.compute);
  const bool to_short =
      op.find("quantize") == 0 || op == "block_scales";  // has a result format of its own
  e.how = {asked.parts, recipe.wire, to_short ? e.how.output : recipe.compute};
  const std::vector<Matrix<double>> values = value_of(e);
  std::vector<const Matrix<double>*> inputs;
  for (const Matrix<double>& input : e.inputs) inputs.push_back(&input);
  const auto tolerance =
      tolerance_on(machine_from(asked.machine), *find_operation(op),
                   {inputs, e.attributes, e.how, mode, asked.delta, values}, recipe.compute);
  Answer answer{op, shape, mode, 0, largest_of(values[0]), 0, 0, {}, {}};
  if (!tolerance) {
    answer.refused = tolerance.error().detail;
    return answer;
  }
  answer.delta = tolerance->delta;
  answer.largest_bound = largest_of(tolerance->bound[0]);
  if (mode == Mode::moments) answer.largest_bias = largest_of(tolerance->bias[0]);
  if (!tolerance->terms.empty()) answer.terms = tolerance->terms[0];
  return answer;
}

// The JSON that bounds/bound-table.schema.json describes.
nlohmann::json json_of(const BoundCommand& asked, const Answer& answer) {
  nlohmann::json terms = nlohmann::json::array();
  for (const Term& t : answer.terms) {
    terms.push_back({{"name", t.name}, {"formula", t.formula}, {"largest", t.largest}});
  }
  nlohmann::json row{{"operation", answer.op},       {"shape", answer.shape},
                     {"recipe", asked.recipe},       {"machine", asked.machine},
                     {"mode", name_of(answer.mode)}, {"largest_value", answer.largest_value}};
  if (!answer.refused.empty()) {
    row["refused"] = answer.refused;
    return row;
  }
  row["delta"] = answer.delta;
  row["largest_bound"] = answer.largest_bound;
  if (answer.mode == Mode::moments) row["largest_bias"] = answer.largest_bias;
  row["terms"] = terms;
  return row;
}

void tell(const BoundCommand& asked, const Answer& answer) {
  const std::string where = fmt::format("{} {} {} on {}, {}", answer.op, answer.shape, asked.recipe,
                                        asked.machine, name_of(answer.mode));
  if (!answer.refused.empty()) {
    fmt::print("{}: refused, {}\n", where, answer.refused);
    return;
  }
  const bool moments = answer.mode == Mode::moments;
  fmt::print("{}: {} {:.4g} where the result is up to {:.4g}\n", where,
             moments ? "standard deviation up to" : "off by at most", answer.largest_bound,
             answer.largest_value);
  if (answer.largest_bias > 0) fmt::print("  bias up to {:.4g}\n", answer.largest_bias);
  if (answer.delta > 0) {
    fmt::print("  exceeded with probability at most {:.1e}\n", answer.delta);
  }
  if (!asked.explain) return;
  for (const Term& t : answer.terms) {
    fmt::print("  {:<14} {:<60} {:.4g}\n", t.name, t.formula, t.largest);
  }
}

int one(const BoundCommand& asked) {
  const Answer answer = answer_to(asked, asked.op, asked.shape, mode_from(asked.mode));
  if (!answer.refused.empty()) {
    throw Failure(asked.op + " refuses this tolerance: " + answer.refused);
  }
  if (asked.as_json) {
    fmt::print("{}\n", json_of(asked, answer).dump(1));
  } else {
    tell(asked, answer);
  }
  return 0;
}

// Every operation in a usual shape, in every mode.
int table(const BoundCommand& asked) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& op : shaped_operations()) {
    for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
      const Answer answer = answer_to(asked, op, usual_shape(op), mode);
      if (asked.as_json) {
        rows.push_back(json_of(asked, answer));
      } else {
        tell(asked, answer);
      }
    }
  }
  if (asked.as_json) {
    const nlohmann::json whole{{"schema", "plumb-bounds/1"}, {"bounds", rows}};
    fmt::print("{}\n", whole.dump(1));
  }
  return 0;
}

void refuse_contradictions(const BoundCommand& asked, const CLI::App& verb) {
  const bool named = verb.count("OP") > 0;
  if (asked.all && (named || verb.count("--rule") > 0)) {
    throw Failure("--all is every operation and rule; leave OP, SHAPE and --rule out");
  }
  if (!asked.all && verb.count("SHAPE") == 0) {
    throw Failure("bound needs an operation and its shape, e.g. bound gemm 64x4096x64, or --all");
  }
  if (!asked.all && asked.mode != "probabilistic" && verb.count("--delta") > 0) {
    throw Failure("--delta is of --rule probabilistic, this is " + asked.mode +
                  "; change the rule or leave --delta out");
  }
}

}  // namespace

void add_bound(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("bound", "the tolerance of one operation, with its derivation");
  static BoundCommand asked;
  verb->add_option("OP", asked.op, "e.g. gemm, attention, rmsnorm, cast; all of them below");
  verb->add_option("SHAPE", asked.shape, "gemm: MxKxN; others: ROWSxCOLUMNS");
  verb->add_flag("--all", asked.all, "every operation in a usual shape, in every mode");
  verb->add_option("--recipe", asked.recipe, "formats of inputs, wire and result")
      ->capture_default_str();
  verb->add_option("--machine", asked.machine, "machine card")->capture_default_str();
  verb->add_option("--rule", asked.mode, "deterministic, probabilistic or moments")
      ->capture_default_str();
  verb->add_option("--delta", asked.delta, "failure probability of probabilistic")
      ->capture_default_str()
      ->check(numbers(1e-300, 1));
  verb->add_option("--parts", asked.parts, "ranks that share the sum")
      ->capture_default_str()
      ->check(whole_numbers(1, 64));
  verb->add_flag("--explain", asked.explain, "the terms that add up to the bound");
  verb->add_flag("--json", asked.as_json, "as JSON (bounds/bound-table.schema.json)");
  verb->footer(
      fmt::format("Operations: {}.\nattention and rope take SEQUENCExF with F = 3 head_dim: "
                  "query, key and value of one head, head_dim even.\nThe inputs are standard "
                  "normal numbers of the recipe's format.",
                  fmt::join(shaped_operations(), ", ")));
  verb->callback([&chosen, verb] {
    chosen = [verb] {
      refuse_contradictions(asked, *verb);
      return asked.all ? table(asked) : one(asked);
    };
  });
}

}  // namespace plumb

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "bounds/examples/shaped.hpp"
#include "bounds/on_machine.hpp"
#include "cli/colour.hpp"
#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/machine_options.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::cli {
namespace {

struct BoundCommand {
  MachineOptions on;
  std::string op, shape, recipe = "bf16";
  double delta = 1e-9;
  int parts = 1;
  bool all = false, explain = false, as_json = false;
};

struct Answer {
  std::string op, shape;
  Mode mode;
  double delta = 0, largest_value = 0, largest_bound = 0, largest_bias = 0;
  std::vector<Term> terms;
  std::string refused;
  std::string sums = "";  // in which order they are assumed
};

double largest_of(const Matrix<double>& m) {
  double largest = 0;
  for (const double x : m.values) largest = std::max(largest, std::fabs(x));
  return largest;
}

// Why the numbers of an operation would be those of another recipe; empty: they are not.
std::string why_not(const Recipe& recipe, const std::string& op) {
  if (!recipe.operands || find_operation(op)->traits.kind != Kind::product) return "";
  return fmt::format(
      "recipe '{}' multiplies short copies of its operands, which bound does not know yet; ask "
      "with --recipe {} for a product of {} numbers, and for the copies with bound quantize",
      recipe.id, recipe.compute == bf16 ? "bf16" : "fp32", recipe.compute.name);
}

Outcome<Tolerance> tolerance_of(const BoundCommand& asked, const Recipe& recipe, const Example& e,
                                Mode mode, const std::vector<Matrix<double>>& values) {
  std::vector<const Matrix<double>*> inputs;
  for (const Matrix<double>& input : e.inputs) inputs.push_back(&input);
  return tolerance_on(machine_from(asked.on.machine), *find_operation(e.id),
                      {inputs, e.attributes, e.how, mode, asked.delta, values}, recipe.compute);
}

// --parts is of sums that ranks share. Where there is none it would change nothing.
void refuse_idle_parts(const BoundCommand& asked, const Recipe& recipe, Example e, Mode mode,
                       const std::vector<Matrix<double>>& values, const Tolerance& parted) {
  if (asked.parts == 1) return;
  e.how.parts = 1;
  const auto whole = tolerance_of(asked, recipe, e, mode, values);
  if (!whole || whole->bound != parted.bound) return;
  throw Failure(
      fmt::format("{} has no sum that --parts would share among ranks{}; leave it out", e.id,
                  find_operation(e.id)->traits.of_ranks ? " (its inputs are the ranks')" : ""));
}

Answer answer_to(const BoundCommand& asked, const std::string& op, const std::string& shape,
                 Mode mode) {
  const Recipe recipe = recipe_from(asked.recipe);
  Example e = shaped_example(op, shape, recipe.compute);
  const bool own_format = find_operation(op)->traits.scales_output;
  e.how = {asked.parts, recipe.wire, own_format ? e.how.output : recipe.compute};
  const std::vector<Matrix<double>> values = value_of(e);
  Answer answer{op, shape, mode, 0, largest_of(values[0]), 0, 0, {}, {}};
  answer.refused = why_not(recipe, op);
  if (!answer.refused.empty()) return answer;
  const auto tolerance = tolerance_of(asked, recipe, e, mode, values);
  if (!tolerance) {
    answer.refused = tolerance.error().detail;
    return answer;
  }
  refuse_idle_parts(asked, recipe, std::move(e), mode, values, *tolerance);
  answer.delta = tolerance->delta;
  answer.largest_bound = largest_of(tolerance->bound[0]);
  if (mode == Mode::moments) answer.largest_bias = largest_of(tolerance->bias[0]);
  if (!tolerance->terms.empty()) answer.terms = tolerance->terms[0];
  answer.sums = assumed_sums(machine_from(asked.on.machine), *find_operation(op), mode);
  return answer;
}

// The JSON that bounds/bound-table.schema.json describes.
nlohmann::json json_of(const BoundCommand& asked, const Answer& answer) {
  nlohmann::json terms = nlohmann::json::array();
  for (const Term& t : answer.terms) {
    terms.push_back({{"name", t.name}, {"formula", t.formula}, {"largest", t.largest}});
  }
  nlohmann::json row{{"operation", answer.op},       {"shape", answer.shape},
                     {"recipe", asked.recipe},       {"machine", asked.on.machine},
                     {"mode", name_of(answer.mode)}, {"largest_value", answer.largest_value}};
  if (!answer.refused.empty()) {
    row["refused"] = answer.refused;
    return row;
  }
  row["delta"] = answer.delta;
  row["largest_bound"] = answer.largest_bound;
  if (answer.mode == Mode::moments) row["largest_bias"] = answer.largest_bias;
  row["terms"] = terms;
  row["assumes"] = answer.sums;
  return row;
}

void tell(const BoundCommand& asked, const Answer& answer) {
  const bool moments = answer.mode == Mode::moments;
  fmt::print("{} {} {} on {}, {}: {} {:.4g} where the result is up to {:.4g}\n", answer.op,
             answer.shape, asked.recipe, asked.on.machine, name_of(answer.mode),
             moments ? "standard deviation up to" : "off by at most", answer.largest_bound,
             answer.largest_value);
  if (answer.largest_bias > 0) fmt::print("  bias up to {:.4g}\n", answer.largest_bias);
  if (answer.delta > 0) {
    fmt::print("  exceeded with probability at most {:.1e}\n", answer.delta);
  }
  if (answer.sums != name_of(SumOrder::none)) fmt::print("  assumes {}\n", answer.sums);
  if (!asked.explain) return;
  std::vector<std::vector<std::string>> rows;
  for (const Term& t : answer.terms) {
    rows.push_back({t.name, t.formula, fmt::format("{:.4g}", t.largest)});
  }
  fmt::print("{}", in_columns({{}, {}, {}}, rows, 2));
}

void print_json(const nlohmann::json& rows) {
  print_document("plumb-bounds/1", {{"bounds", rows}});
}

int one(const BoundCommand& asked) {
  const Answer answer = answer_to(asked, asked.op, asked.shape, mode_from(asked.on.mode));
  if (!answer.refused.empty()) {
    throw Failure(asked.op + " refuses this tolerance: " + answer.refused);
  }
  if (asked.as_json) {
    print_json(nlohmann::json::array({json_of(asked, answer)}));
  } else {
    tell(asked, answer);
  }
  return 0;
}

// The reason of a refusal without the operation that it names, so that alike ones are told once.
std::string reason_of(const Answer& answer) {
  return std::regex_replace(answer.refused, std::regex("\\b" + answer.op + "\\b"), "each of these");
}

// Operations that are refused for one reason, each with the modes in which it is.
using Modes = std::map<std::string, std::vector<std::string_view>>;

void tell_refused(const std::string& reason, const Modes& ops) {
  std::vector<std::string> names;
  for (const auto& [op, modes] : ops) {
    const bool all = modes.size() == 3;
    names.push_back(all ? op : fmt::format("{} ({})", op, fmt::join(modes, ", ")));
  }
  say("left out, {}:\n{}", reason,
      in_columns({{}}, {{fmt::format("{}", fmt::join(names, ", "))}}, 2));
}

// Every operation in a usual shape, in every mode; then which have no bound, and why.
int table(const BoundCommand& asked) {
  nlohmann::json rows = nlohmann::json::array();
  std::map<std::string, Modes> refused;  // by reason
  for (const std::string& op : shaped_operations()) {
    for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
      const Answer answer = answer_to(asked, op, usual_shape(op), mode);
      if (asked.as_json) {
        rows.push_back(json_of(asked, answer));
      } else if (answer.refused.empty()) {
        tell(asked, answer);
      } else {
        refused[reason_of(answer)][op].push_back(name_of(mode));
      }
    }
  }
  if (asked.as_json) print_json(rows);
  for (const auto& [reason, ops] : refused) tell_refused(reason, ops);
  return 0;
}

void refuse_contradictions(const BoundCommand& asked, const CLI::App& verb) {
  const bool named = verb.count("OP") > 0;
  if (asked.all && (named || verb.count("--mode") > 0)) {
    throw Failure("--all is every operation and mode; leave OP, SHAPE and --mode out");
  }
  if (asked.all && verb.count("--parts") > 0) {
    throw Failure("--parts is of one operation whose sum ranks share; leave it out of --all");
  }
  if (!asked.all && verb.count("SHAPE") == 0) {
    throw Failure("bound needs an operation and its shape, e.g. bound gemm 64x4096x64, or --all");
  }
  if (!asked.all && asked.on.mode != "probabilistic" && verb.count("--delta") > 0) {
    throw Failure("--delta is of --mode probabilistic, this is " + asked.on.mode +
                  "; change the mode or leave --delta out");
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
  asked.on.add_to(*verb, "deterministic, probabilistic or moments");
  verb->add_option("--delta", asked.delta, "failure probability of probabilistic")
      ->capture_default_str()
      ->check(numbers(1e-300, 1));
  verb->add_option("--parts", asked.parts, "ranks that share the sum")
      ->capture_default_str()
      ->check(whole_numbers(1, 64));
  verb->add_flag("--explain", asked.explain, "the terms of the largest bound, and what they are");
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

}  // namespace plumb::cli

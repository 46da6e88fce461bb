#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "bounds/examples/shaped.hpp"
#include "cli/bound_answer.hpp"
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

bool of_two_matrices(const std::string& op) {
  const Operation* operation = find_operation(op);
  return operation == nullptr || operation->traits.one_product;
}

void refuse_contradictions(const BoundCommand& asked, const CLI::App& verb) {
  const bool named = verb.count("OP") > 0;
  if (asked.all && (named || verb.count("--mode") > 0)) {
    throw Failure("--all is every operation and mode; leave OP, SHAPE and --mode out");
  }
  if (asked.all && verb.count("--parts") > 0) {
    throw Failure("--parts is of one operation whose sum ranks share; leave it out of --all");
  }
  if (asked.any_rank_order && asked.parts < 3) {
    throw Failure("--any-rank-order is of three ranks or more (--parts); two have one order");
  }
  if (!asked.all && verb.count("SHAPE") == 0) {
    throw Failure("bound needs an operation and its shape, e.g. bound gemm 64x4096x64, or --all");
  }
  if (verb.count("--product") > 0 && !asked.all && !of_two_matrices(asked.op)) {
    throw Failure("--product is of gemm, whose operands a recipe casts; leave it out of " +
                  asked.op);
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
  verb->add_option(
          "--product", asked.product,
          "fprop, dgrad (gradients by weights) or wgrad: which operands of gemm the recipe "
          "casts")
      ->capture_default_str();
  asked.on.add_to(*verb, "deterministic, probabilistic or moments");
  verb->add_option("--delta", asked.delta, "failure probability of probabilistic")
      ->capture_default_str()
      ->check(numbers(1e-300, 1));
  verb->add_option("--parts", asked.parts, "ranks that share the sum")
      ->capture_default_str()
      ->check(whole_numbers(1, 64));
  verb->add_flag("--any-rank-order", asked.any_rank_order,
                 "these ranks add in an order that nobody knows, as rings, trees and switches do");
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

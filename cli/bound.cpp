#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bounds/machine.hpp"
#include "bounds/number/philox.hpp"
#include "bounds/on_machine.hpp"
#include "bounds/outcome.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"

namespace plumb {
namespace {

using Doubles = Matrix<double>;

// Values as a model has them: standard normal, rounded to the recipe's compute format.
Doubles normal(std::size_t rows, std::size_t cols, const Format& format, std::uint64_t key) {
  Doubles m(rows, cols);
  for (std::size_t e = 0; e < m.size(); ++e) {
    const double u = (static_cast<double>(random_block(key, e)[0]) + 1) * 0x1p-32;
    const double v = static_cast<double>(random_block(key, e)[1]) * 0x1p-32;
    m.values[e] = round_to(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v), format);
  }
  return m;
}

struct Question {
  std::vector<Doubles> inputs;
  Attributes attributes;
};

constexpr const char* operations =
    "gemm, add, sum, column_sum, cast, gelu, gelu_grad, swiglu, rmsnorm, rmsnorm_grad, "
    "rmsnorm_wgrad, layernorm, layernorm_grad, layernorm_wgrad, rope, attention, cross_entropy, "
    "grad_norm, adam";

// A bound is computed from all of its values in FP64, beside the values themselves.
constexpr std::size_t most_values = std::size_t(1) << 24;    // of a matrix
constexpr std::size_t most_products = std::size_t(1) << 28;  // of the operation

std::vector<std::size_t> sizes_of(const std::string& shape, std::size_t count,
                                  const std::string& expected) {
  std::vector<std::size_t> sizes;
  std::istringstream in(shape);
  for (std::string part; std::getline(in, part, 'x');) {
    std::size_t n = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), n);
    const bool whole = read.ec == std::errc() && read.ptr == part.data() + part.size();
    sizes.push_back(whole ? n : 0);
  }
  const bool possible = std::ranges::all_of(sizes, [](std::size_t n) { return n > 0; });
  if (sizes.size() == count && possible && !shape.ends_with('x')) return sizes;
  throw Failure("shape '" + shape + "' does not fit; write " + expected);
}

// Each bounded before it is multiplied.
void refuse_large(const std::string& shape, std::initializer_list<std::size_t> sizes,
                  std::size_t most, const std::string& what) {
  std::size_t room = most;
  for (const std::size_t n : sizes) room /= n;
  if (room > 0) return;
  throw Failure("shape '" + shape + "' makes more than " + std::to_string(most) + " " + what +
                "; choose a smaller one");
}

// Inputs of an operation of that shape. Throws Failure for operations that have no simple shape.
Question asked(const std::string& op, const std::string& shape, const Format& f) {
  if (op == "gemm") {
    const auto n = sizes_of(shape, 3, "MxKxN, e.g. 64x4096x64");
    refuse_large(shape, {n[0], n[1], n[2]}, most_products, "products");
    for (const auto& [rows, cols] : {std::pair{n[0], n[1]}, {n[1], n[2]}, {n[0], n[2]}}) {
      refuse_large(shape, {rows, cols}, most_values, "values in a matrix");
    }
    return {{normal(n[0], n[1], f, 1), normal(n[1], n[2], f, 2)},
            {{"transpose_a", 0}, {"transpose_b", 0}}};
  }
  const auto n = sizes_of(shape, 2, "ROWSxCOLUMNS, e.g. 16x4096");
  refuse_large(shape, {n[0], n[1]}, most_values, "values in a matrix");
  if (op == "attention") refuse_large(shape, {n[0], n[0]}, most_values, "scores");
  Doubles x = normal(n[0], n[1], f, 1);
  const Doubles y = normal(n[0], n[1], f, 2);
  Doubles w = normal(n[1], 1, f, 3);
  if (op == "add" || op == "sum") return {{x, y}, {{"together", 1}}};
  if (op == "cast" || op == "column_sum" || op == "gelu" || op == "grad_norm") return {{x}, {}};
  if (op == "gelu_grad") return {{x, y}, {}};
  if (op == "swiglu") {
    if (n[1] % 2 != 0) throw Failure("swiglu needs an even number of columns: gate and up");
    return {{x}, {}};
  }
  if (op == "rmsnorm") return {{x, w}, {{"eps", 1e-5}}};
  if (op == "layernorm") return {{x, w, normal(n[1], 1, f, 4)}, {{"eps", 1e-5}}};
  if (op == "rmsnorm_grad" || op == "rmsnorm_wgrad" || op == "layernorm_grad" ||
      op == "layernorm_wgrad") {
    return {{x, w, y}, {{"eps", 1e-5}}};
  }
  if (op == "cross_entropy") {
    return {{x, Doubles(n[0], 1), Doubles(n[0], 1, 1.0), Doubles(1, 1, static_cast<double>(n[0]))},
            {}};
  }
  if (op == "attention" || op == "rope") {
    if (n[1] % 6 != 0) throw Failure(op + " takes SEQUENCExF with F = 3 head_dim, head_dim even");
    return {{x},
            {{"heads", 1},
             {"kv_heads", 1},
             {"head_dim", static_cast<double>(n[1] / 3)},
             {"sequence", static_cast<double>(n[0])},
             {"base", 10000},
             {"inverse", 0}}};
  }
  if (op == "adam") {
    return {{x, Doubles(n[0], n[1]), Doubles(n[0], n[1]), y},
            {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"step", 1}}};
  }
  throw Failure("operation '" + op + "' cannot be asked for by shape; known: " + operations);
}

Mode mode_from(const std::string& name) {
  for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
    if (name == name_of(mode)) return mode;
  }
  throw Failure("unknown mode '" + name + "'; known: deterministic, probabilistic, moments");
}

struct Answer {
  double largest_value = 0, largest_bound = 0;
  std::vector<Term> terms;
};

}  // namespace

void add_bound(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("bound", "the tolerance of one operation, with its derivation");
  static std::string op, shape, recipe = "bf16", machine = "ieee", mode = "deterministic";
  static double delta = 1e-9;
  static int parts = 1;
  static bool explain = false, as_json = false;
  verb->add_option("OP", op, "e.g. gemm, attention, rmsnorm, cast; all of them below")->required();
  verb->add_option("SHAPE", shape, "gemm: MxKxN; others: ROWSxCOLUMNS")->required();
  verb->add_option("--recipe", recipe, "formats of inputs, wire and result")->capture_default_str();
  verb->add_option("--machine", machine, "machine card")->capture_default_str();
  verb->add_option("--rule", mode, "deterministic, probabilistic or moments")
      ->capture_default_str();
  verb->add_option("--delta", delta, "failure probability of probabilistic")
      ->capture_default_str()
      ->check(numbers(1e-300, 1));
  verb->add_option("--parts", parts, "ranks that share the sum")
      ->capture_default_str()
      ->check(whole_numbers(1, 64));
  verb->add_flag("--explain", explain, "the terms that add up to the bound");
  verb->add_flag("--json", as_json, "as JSON");
  verb->footer(std::string("Operations: ") + operations +
               ".\nattention and rope take SEQUENCExF with F = 3 head_dim: query, key and value of "
               "one head, head_dim even.\nThe inputs are standard normal numbers of the recipe's "
               "format.");
  verb->callback([&chosen, verb] {
    chosen = [verb] {
      const Mode how_sure = mode_from(mode);
      if (how_sure != Mode::probabilistic && verb->count("--delta") > 0) {
        throw Failure("--delta is of --rule probabilistic, this is " + mode +
                      "; change the rule or leave --delta out");
      }
      const Machine* card = find_machine(machine);
      if (card == nullptr) {
        std::string known;
        for (const Machine& m : all_machines())
          known.append(known.empty() ? "" : ", ").append(m.id);
        throw Failure("unknown machine '" + machine + "'; known: " + known);
      }
      const Recipe r = find_recipe(recipe);
      const Question q = asked(op, shape, r.compute);
      const Operation* operation = find_operation(op);
      const Evaluation how{parts, r.wire, r.compute};
      ExactRoundings none;
      Call<double> call{{}, q.attributes, how, none};
      ToleranceCall ask{{}, q.attributes, how, how_sure, delta, {}};
      for (const Doubles& input : q.inputs) {
        call.inputs.push_back(&input);
        ask.inputs.push_back(&input);
      }
      const std::vector<Doubles> values = operation->value(call);
      ask.values = values;
      const Outcome<Tolerance> tolerance = tolerance_on(*card, *operation, ask, r.compute);
      if (!tolerance) throw Failure(op + " refuses this tolerance: " + tolerance.error().detail);
      Answer answer;
      for (const double v : values[0].values) {
        answer.largest_value = std::max(answer.largest_value, std::fabs(v));
      }
      for (const double b : tolerance->bound[0].values) {
        answer.largest_bound = std::max(answer.largest_bound, b);
      }
      if (!tolerance->terms.empty()) answer.terms = tolerance->terms[0];
      if (as_json) {
        nlohmann::json terms = nlohmann::json::array();
        for (const Term& t : answer.terms) {
          terms.push_back({{"name", t.name}, {"formula", t.formula}, {"largest", t.largest}});
        }
        fmt::print("{}\n", nlohmann::json{{"operation", op},
                                          {"shape", shape},
                                          {"recipe", recipe},
                                          {"machine", machine},
                                          {"mode", mode},
                                          {"delta", tolerance->delta},
                                          {"largest_bound", answer.largest_bound},
                                          {"largest_value", answer.largest_value},
                                          {"terms", terms}}
                               .dump(1));
        return 0;
      }
      fmt::print("{} {} {} on {}, {}: off by at most {:.4g} where the result is up to {:.4g}\n", op,
                 shape, recipe, card->id, mode, answer.largest_bound, answer.largest_value);
      if (tolerance->delta > 0)
        fmt::print("exceeded with probability at most {:.1e}\n", tolerance->delta);
      if (!explain) return 0;
      for (const Term& t : answer.terms) {
        fmt::print("  {:<14} {:<60} {:.4g}\n", t.name, t.formula, t.largest);
      }
      return 0;
    };
  });
}

}  // namespace plumb

#include "cli/bound_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bounds/examples/shaped.hpp"
#include "bounds/on_machine.hpp"
#include "number/outcome.hpp"

namespace plumb::cli {
namespace {

// Why the numbers of an operation would be those of another recipe; empty: they are not.
std::string why_not(const Recipe& recipe, const std::string& op) {
  if (!recipe.operands || find_operation(op)->traits.kind != Kind::product) return "";
  return fmt::format(
      "recipe '{}' multiplies short copies of its operands, and only gemm has a bound of these; "
      "ask for bound gemm of one product, or with --recipe {} for a product of {} numbers",
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

}  // namespace

Evaluation BoundCommand::how(const Format& wire, const Format& output) const {
  Evaluation how{parts, wire, output};
  how.any_rank_order = any_rank_order;
  return how;
}

double largest_of(const Matrix<double>& m) {
  double largest = 0;
  for (const double x : m.values) largest = std::max(largest, std::fabs(x));
  return largest;
}

Answer answer_to(const BoundCommand& asked, const std::string& op, const std::string& shape,
                 Mode mode) {
  if (by_casts_or_sample(asked, op, shape)) return answer_to_product(asked, shape, mode);
  const Recipe recipe = recipe_from(asked.recipe);
  Example e = shaped_example(op, shape, recipe.compute);
  const bool own_format = find_operation(op)->traits.scales_output;
  const Format output = find_operation(op)->traits.one_product
                            ? product_of(recipe, product_named(asked.product)).output
                            : recipe.compute;
  e.how = asked.how(recipe.wire, own_format ? e.how.output : output);
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
  answer.sums = assumptions(machine_from(asked.on.machine), *find_operation(op), mode);
  if (asked.parts > 1) {
    answer.sums += answer.sums.empty() ? "" : ", ";
    answer.sums += asked.any_rank_order ? "ranks in any order" : "ranks one after the other";
  }
  return answer;
}

}  // namespace plumb::cli

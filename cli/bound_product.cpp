#include <algorithm>

#include "bounds/cast_product.hpp"
#include "bounds/examples/sampled_product.hpp"
#include "bounds/examples/shaped.hpp"
#include "bounds/on_machine.hpp"
#include "cli/bound_answer.hpp"

namespace plumb::cli {
namespace {

// Products that are bounded whole, where operands are cast and where not, and those of a sample of
// what is larger; values of a matrix that is held whole.
constexpr std::size_t most_cast = 1 << 25, most_whole = 1 << 28, most_sampled = 1 << 24;
constexpr std::size_t most_values = 1 << 24;

bool fits(const std::vector<std::size_t>& sizes, std::size_t products) {
  std::size_t room = products;
  for (const std::size_t n : sizes) room /= n;
  const auto small = [](std::size_t a, std::size_t b) { return most_values / a / b > 0; };
  return room > 0 && small(sizes[0], sizes[1]) && small(sizes[1], sizes[2]) &&
         small(sizes[0], sizes[2]);
}

std::size_t run_of(const CastRule& rule) { return rule.in_blocks() ? rule.across : 1; }

// What is judged, and how its operands are cast.
struct Asked {
  const BoundCommand& command;
  RecipeProduct product;
  ProductSample sample;
  const Machine& machine;
  Evaluation how;
  Mode mode;

  // The probability that is left for the sample, so that its elements have the share that each
  // element of the whole has.
  double delta() const { return command.delta * sample.share(); }
};

// Drawn, cast and reduced to what is judged. Only scales of tensors ask for the whole one.
CastOperand operand(const Asked& asked, std::uint64_t input, const CastRule& rule,
                    const Format& compute) {
  const ProductSample& sample = asked.sample;
  const Sampled& axis = input == 0 ? sample.rows : sample.cols;
  const bool of_tensor =
      rule.scaled == CastRule::Scaled::by_tensor || (rule.in_blocks() && is_nested(rule.scales));
  const std::size_t rows = input == 0 ? sample.of_rows : sample.of_cols;
  const double largest = of_tensor ? largest_drawn(input, rows * sample.inner, compute) : 0;
  Matrix<double> x = input == 0 ? drawn_rows(sample, compute) : drawn_columns(sample, compute);
  return rows_of(axis.judged, cast_operand(std::move(x), rule, largest, asked.how.parts));
}

std::size_t place_of_largest(const Matrix<double>& bound) {
  return static_cast<std::size_t>(std::ranges::max_element(bound.values) - bound.values.begin());
}

void of_casts(const Asked& asked, const Format& compute, Answer& answer) {
  const CastOperand a = operand(asked, 0, asked.product.a, compute);
  const CastOperand b = operand(asked, 1, asked.product.b, compute);
  CastProductCall call{a, b, asked.product.promotion, asked.how, asked.mode, asked.delta()};
  Outcome<CastProduct> bound = cast_product_on(asked.machine, call);
  if (bound && (asked.command.explain || asked.command.as_json)) {
    call.explained = place_of_largest(bound->whole.bound[0]);
    bound = cast_product_on(asked.machine, call);
  }
  if (!bound) {
    answer.refused = bound.error().detail;
    return;
  }
  answer.largest_value = largest_of(bound->value);
  answer.largest_bound = largest_of(bound->whole.bound[0]);
  answer.casts = CastAnswer{largest_of(bound->given_codes.bound[0]), 0, bound->exact};
  if (asked.mode == Mode::moments) {
    answer.largest_bias = largest_of(bound->whole.bias[0]);
    answer.casts->largest_bias = largest_of(bound->given_codes.bias[0]);
  }
  answer.terms = bound->whole.terms[0];
  answer.sums = assumed_sums_of_codes(asked.machine, call);
}

// A sample of a product whose operands are not cast: the rows and columns themselves are a product.
void of_sample(const Asked& asked, const Format& compute, Answer& answer) {
  const Matrix<double> a = drawn_rows(asked.sample, compute);
  const Matrix<double> b = drawn_columns(asked.sample, compute);
  const Operation& gemm = known_operation("gemm");
  const Attributes attributes{{"transpose_a", 0}, {"transpose_b", 1}};
  ExactRoundings exact;
  const auto values = gemm.value({{&a, &b}, attributes, asked.how, exact});
  const auto tolerance =
      tolerance_on(asked.machine, gemm,
                   {{&a, &b}, attributes, asked.how, asked.mode, asked.delta(), values}, compute);
  if (!tolerance) {
    answer.refused = tolerance.error().detail;
    return;
  }
  answer.largest_value = largest_of(values[0]);
  answer.largest_bound = largest_of(tolerance->bound[0]);
  if (asked.mode == Mode::moments) answer.largest_bias = largest_of(tolerance->bias[0]);
  if (!tolerance->terms.empty()) answer.terms = tolerance->terms[0];
  answer.sums = assumptions(asked.machine, gemm, asked.mode);
}

}  // namespace

bool by_casts_or_sample(const BoundCommand& asked, const std::string& op,
                        const std::string& shape) {
  const Operation& operation = known_operation(op);
  if (!operation.traits.one_product) return false;
  return product_of(recipe_from(asked.recipe), product_named(asked.product)).casts ||
         !fits(sizes_of_shape(op, shape), most_whole);
}

Answer answer_to_product(const BoundCommand& asked, const std::string& shape, Mode mode) {
  const Recipe recipe = recipe_from(asked.recipe);
  const RecipeProduct product = product_of(recipe, product_named(asked.product));
  const std::vector<std::size_t> sizes = sizes_of_shape("gemm", shape);
  const std::size_t products = fits(sizes, most_cast) ? most_cast : most_sampled;
  const Asked all{asked,
                  product,
                  sample_of(sizes, run_of(product.a), run_of(product.b), products),
                  machine_from(asked.on.machine),
                  asked.how(recipe.wire, product.output),
                  mode};
  Answer answer{"gemm", shape, mode, 0, 0, 0, 0, {}, {}};
  if (mode == Mode::probabilistic) answer.delta = asked.delta;
  if (!all.sample.whole()) {
    answer.sampled = all.sample.elements();
    answer.elements = sizes[0] * sizes[2];
  }
  product.casts ? of_casts(all, recipe.compute, answer) : of_sample(all, recipe.compute, answer);
  return answer;
}

}  // namespace plumb::cli

// cli/bound_answer.hpp: what `plumb bound` was asked, what it answers, and how it says so.
//
// TESTED   tests/cli/bound_test.cpp, tests/cli/bound_recipe_test.cpp
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bounds/operation.hpp"
#include "cli/machine_options.hpp"
#include "cli/sees.hpp"
#include "model/spec/recipe_product.hpp"

namespace plumb::cli {

struct BoundCommand {
  MachineOptions on;
  std::string op, shape, recipe = "bf16", product = "fprop";
  double delta = 1e-9;
  int parts = 1;
  bool any_rank_order = false;
  bool all = false, explain = false, as_json = false;

  // Of a sum that the ranks share.
  Evaluation how(const Format& wire, const Format& output) const;
};

// Of a product whose operands the recipe casts. The bound itself is of the whole, casts and product.
struct CastAnswer {
  double largest_bound = 0, largest_bias = 0;  // of the product given the codes
  bool exact = true;                           // is the casts' share that of these inputs?
};

struct Answer {
  std::string op, shape;
  Mode mode;
  double delta = 0, largest_value = 0, largest_bound = 0, largest_bias = 0;
  std::vector<Term> terms;
  std::string refused;
  std::string sums = "";  // in which order they are assumed
  std::optional<CastAnswer> casts = {};
  std::size_t sampled = 0, elements = 0;  // of a result that is too large to bound whole
};

double largest_of(const Matrix<double>& m);

Answer answer_to(const BoundCommand& asked, const std::string& op, const std::string& shape,
                 Mode mode);
// Is this a product that is bounded by its recipe's casts, or by a sample of its result?
bool by_casts_or_sample(const BoundCommand& asked, const std::string& op, const std::string& shape);
// The answer to such a product.
Answer answer_to_product(const BoundCommand& asked, const std::string& shape, Mode mode);

// The JSON that bounds/bound-table.schema.json describes.
nlohmann::json json_of(const BoundCommand& asked, const Answer& answer);
void tell(const BoundCommand& asked, const Answer& answer);

}  // namespace plumb::cli

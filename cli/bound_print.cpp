#include <fmt/format.h>

#include "cli/bound_answer.hpp"
#include "cli/columns.hpp"

namespace plumb::cli {
namespace {

// The two numbers of a product whose operands are cast.
void tell_casts(const BoundCommand& asked, const Answer& answer, const char* off) {
  const CastAnswer& casts = *answer.casts;
  const bool moments = answer.mode == Mode::moments;
  fmt::print("  of the product given the codes: {} {:.4g}{}\n", off, casts.largest_bound,
             moments ? fmt::format(", bias up to {:.4g}", casts.largest_bias) : "");
  fmt::print("  of the whole cast-and-multiply: {} {:.4g}, {} ({})\n", off, answer.largest_bound,
             moments
                 ? fmt::format("bias up to {:.4g}, casts as of these inputs", answer.largest_bias)
             : casts.exact ? "casts as of these inputs"
                           : "casts in the worst case",
             casts.exact ? "a cast to nearest has one result"
                         : "each draw of a cast by chance has another result");
  if (asked.product != "fprop") fmt::print("  product {}\n", asked.product);
}

}  // namespace

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
  if (answer.casts) {
    row["largest_bound_given_codes"] = answer.casts->largest_bound;
    if (answer.mode == Mode::moments) {
      row["largest_bias_given_codes"] = answer.casts->largest_bias;
    }
    row["casts"] = answer.casts->exact ? "exact" : "worst_case";
    row["product"] = asked.product;
  }
  if (answer.sampled > 0) {
    row["sampled"] = answer.sampled;
    row["elements"] = answer.elements;
  }
  row["terms"] = terms;
  row["assumes"] = answer.sums;
  return row;
}

void tell(const BoundCommand& asked, const Answer& answer) {
  const bool moments = answer.mode == Mode::moments;
  const char* off = moments ? "standard deviation up to" : "off by at most";
  fmt::print("{} {} {} on {}, {}: {} {:.4g} where the result is up to {:.4g}\n", answer.op,
             answer.shape, asked.recipe, asked.on.machine, name_of(answer.mode), off,
             answer.largest_bound, answer.largest_value);
  if (answer.casts) tell_casts(asked, answer, off);
  if (answer.sampled > 0) {
    fmt::print("  of a sample of {} of its {} elements, the same each time\n", answer.sampled,
               answer.elements);
  }
  if (answer.largest_bias > 0 && !answer.casts)
    fmt::print("  bias up to {:.4g}\n", answer.largest_bias);
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

}  // namespace plumb::cli

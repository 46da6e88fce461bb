#include <fmt/format.h>

#include <map>
#include <tuple>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

struct Parts {
  double activations = 0, all = 0;
};

Answer judge(const Evidence& evidence) {
  std::map<std::tuple<std::string, std::string, std::string>, Parts> cells;
  for (const Row& row : evidence.rows("precision-recipes")) {
    if (row["what"] != "injected" || row["where"] != "gradients") continue;
    Parts& parts = cells[{row["family"], row["weights"], row["recipe"]}];
    const double square = row.number("value") * row.number("value");
    if (row["kind"] == "all") continue;
    parts.all += square;
    if (row["kind"].starts_with("activations for products")) parts.activations += square;
  }
  std::vector<std::vector<std::string>> rows;
  std::size_t most = 0, of = 0;
  for (const auto& [cell, parts] : cells) {
    if (parts.activations == 0) continue;  // no casts: 16 bits and more
    const double share = parts.activations / parts.all;
    ++of;
    most += share > 0.5 ? 1 : 0;
    rows.push_back({std::get<0>(cell), std::get<1>(cell), std::get<2>(cell),
                    fmt::format("{:.0f} %", 100 * share)});
  }
  if (of == 0) throw NotMeasured{"rows of recipes that cast activations"};
  return {
      most == of ? Agreement::yes
      : most > 0 ? Agreement::partly
                 : Agreement::no,
      fmt::format("more than half of the squared error of gradients in {} of {} cells", most, of),
      {},
      table({"family", "weights", "recipe", "share of the casts of activations"}, rows)};
}

}  // namespace

extern const Claim b13_casts_of_activations_dominate{
    .id = "B13",
    .says = "In recipes of 8 and 4 bits the casts of activations make most of the gradients' error",
    .where = "goes beyond: studying precision recipes",
    .source = Source::ourselves,
    .published = "none",
    .reading = "Most is more than half of the sum of squares over kinds of rounding.",
    .rows = {{"precision-recipes", "gpt random fp8-current 1 "}},
    .picture = "precision-recipes.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro

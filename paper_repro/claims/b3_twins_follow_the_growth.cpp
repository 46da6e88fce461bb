#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

struct Ratios {
  std::vector<double> twins, estimate;
};

Share near(const std::vector<double>& ratios) {
  Share share{0, ratios.size()};
  for (const double r : ratios) share.hits += r >= 0.8 && r <= 1.25 ? 1 : 0;
  return share;
}

double middle(std::vector<double> ratios) {
  std::ranges::sort(ratios);
  return ratios[ratios.size() / 2];
}

Answer judge(const Evidence& evidence) {
  std::map<std::string, Ratios> by_recipe;
  Share all, accused;
  for (const Depth& depth : depths(evidence, "tp2")) {
    for (const Row& row : depth.rows) {
      for (const std::string quantity : {"forward", "gradient", "weights", "dq"}) {
        const double seen = row.number(quantity == "weights" ? "weights_gradient" : quantity);
        if (seen == 0) continue;
        by_recipe[depth.recipe].twins.push_back(row.number(quantity + "_twins") / seen);
        by_recipe[depth.recipe].estimate.push_back(row.number(quantity + "_estimate") / seen);
      }
      if (row["layer"] != "1") continue;
      ++accused.of;
      accused.hits += row.yes("twins_accused") ? 1 : 0;
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [recipe, ratios] : by_recipe) {
    const Share twins = near(ratios.twins), estimate = near(ratios.estimate);
    all.hits += twins.hits;
    all.of += twins.of;
    rows.push_back({recipe, fmt::format("{:.1f} %", 100 * twins.rate()),
                    fmt::format("{:.2f}", middle(ratios.twins)),
                    fmt::format("{:.1f} %", 100 * estimate.rate()),
                    fmt::format("{:.2f}", middle(ratios.estimate))});
  }
  return {all.rate() >= 0.97 ? Agreement::yes : Agreement::partly,
          fmt::format("{:.1f} % of {} layers and quantities are foretold within [0.8, 1.25]",
                      100 * all.rate(), all.of),
          accused,
          table({"recipe", "foretold by twins", "median twins / seen", "by the paper's estimate",
                 "median estimate / seen"},
                rows)};
}

}  // namespace

extern const Claim b3_twins_follow_the_growth{
    .id = "B3",
    .says =
        "Twins foretell how far a healthy run lies from its reference at every depth to 128 layers",
    .where = "goes beyond E4 to E6",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "Four twins, their root mean square over what is seen, in [0.8, 1.25] for 97 % of layers "
        "and quantities: the goal that was set before.",
    .rows = {{"error-growth", "gpt .* tp2 (4|12) 1 "}},
    .picture = "error-growth.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro

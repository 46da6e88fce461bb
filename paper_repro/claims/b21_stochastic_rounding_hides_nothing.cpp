#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

constexpr const char* rules[] = {"twins,replay", "twins", "perturbation", "flat"};
constexpr const char* drawn = "trainium";
constexpr const char* nearest = "bf16-stochastic";

struct Seen {
  Share detected, blamed, accused;
};

// Trials in which the bug changed a bit; healthy runs of all.
Seen seen_by(const Rows& rows, const std::string& rule, const std::string& recipe) {
  Seen seen;
  for (const Row& row : where(rows, {{"rule", rule}, {"recipe", recipe}})) {
    ++seen.accused.of;
    seen.accused.hits += row.yes("accused") ? 1 : 0;
    if (!row.yes("changed")) continue;
    ++seen.detected.of;
    ++seen.blamed.of;
    seen.detected.hits += row.yes("detected") ? 1 : 0;
    seen.blamed.hits += row.yes("blamed_right") ? 1 : 0;
  }
  return seen;
}

// How many times as large the largest error stands out where results are rounded to nearest: the
// median over trials, of one rule; 0 where none of it is finite in both.
double stands_out(const Rows& rows, const std::string& rule) {
  std::map<std::string, double> by_draws;
  std::vector<double> times;
  const auto key = [](const Row& row) {
    return row["bug"] + " " + row["weights"] + " " + row["seed"];
  };
  for (const Row& row : where(rows, {{"rule", rule}, {"recipe", drawn}})) {
    by_draws[key(row)] = row.number("largest_error_over_tolerance");
  }
  for (const Row& row : where(rows, {{"rule", rule}, {"recipe", nearest}})) {
    const auto other = by_draws.find(key(row));
    if (other == by_draws.end() || !(other->second > 0)) continue;
    const double ratio = row.number("largest_error_over_tolerance") / other->second;
    if (std::isfinite(ratio)) times.push_back(ratio);
  }
  if (times.empty()) return 0;
  std::ranges::sort(times);
  return times[times.size() / 2];
}

std::string of(const Share& share) { return fmt::format("{} of {}", share.hits, share.of); }

std::string table_of_rules(const Rows& rows) {
  std::vector<std::vector<std::string>> lines;
  for (const char* rule : rules) {
    for (const char* recipe : {drawn, nearest}) {
      const Seen seen = seen_by(rows, rule, recipe);
      const double times = stands_out(rows, rule);
      lines.push_back({rule, recipe, of(seen.detected), of(seen.blamed), of(seen.accused),
                       recipe == drawn && times > 0 ? fmt::format("1 / {:.2g}", times) : "1"});
    }
  }
  return table({"rule", "recipe", "detected", "blamed where it bites", "healthy runs accused",
                "how far the largest error stands out"},
               lines);
}

Answer judge(const Evidence& evidence) {
  const Rows& rows = evidence.rows("stochastic-rounding");
  const Seen ours = seen_by(rows, rules[0], drawn), twins = seen_by(rows, "twins", drawn),
             papers = seen_by(rows, "perturbation", drawn);
  if (ours.detected.of == 0) throw NotMeasured{"rows of stochastic-rounding in which a bug bites"};
  const bool all = ours.detected.hits == ours.detected.of;
  return {all ? Agreement::yes : Agreement::partly,
          fmt::format("{} trials by the default rules, {} by twins alone; the paper's rule accuses "
                      "{} healthy runs",
                      of(ours.detected), of(twins.detected), of(papers.accused)),
          ours.accused, table_of_rules(rows)};
}

}  // namespace

extern const Claim b21_stochastic_rounding_hides_nothing{
    .id = "B21",
    .says =
        "Where each rank rounds its results stochastically, no bug hides from the default rules",
    .where = "goes beyond: the precision of a recipe of AWS Trainium",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "The catalogue's bugs of BF16 runs, dense models; the same bugs and seeds in the recipe "
        "that rounds results to nearest; level 0.01.",
    .rows = {{"stochastic-rounding", "(embedding-mask|mean-of-means).* random .* 1 flat$"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"
#include "trace/levels.hpp"

namespace plumb::paper_repro {
namespace {

Share alarms_of(const Evidence& evidence, const std::string& column) {
  Share alarms;
  for (const Row& row : evidence.rows("false-alarms")) {
    alarms.hits += static_cast<std::size_t>(row.number(column));
    alarms.of += static_cast<std::size_t>(row.number("runs"));
  }
  return alarms;
}

Answer judge(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  Share accused;
  std::string held, lost;
  for (const std::string level : {"0.5", "0.1", "0.01", "0.001"}) {
    const Share first = alarms_of(evidence, "alarms_at_" + level),
                both = alarms_of(evidence, "by_both_at_" + level);
    const Interval rate = binomial_interval(both.hits, both.of, 0.95);
    std::string& where = rate.low <= std::stod(level) ? held : lost;
    where += (where.empty() ? "" : ", ") + level;
    if (level == "0.01") accused = both;
    rows.push_back({level, fmt::format("{} of {}", first.hits, first.of),
                    fmt::format("{} of {}", both.hits, both.of),
                    fmt::format("{:.2g} to {:.2g}", rate.low, rate.high)});
  }
  return {lost.empty() ? Agreement::yes : Agreement::partly,
          fmt::format("{:.2g} of healthy runs accused at a level of 0.01; levels that hold: {}; "
                      "that do not: {}",
                      accused.rate(), held.empty() ? "none" : held, lost.empty() ? "none" : lost),
          accused, table({"level", "looked at again", "accused", "rate accused, 95 %"}, rows)};
}

}  // namespace

extern const Claim b2_the_level_of_false_alarms_holds{
    .id = "B2",
    .says = "A level of false alarms can be promised for a whole run, and holds",
    .where = "goes beyond: the paper states none",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "What stands out by four twins at ten times the level twenty-four look at again, up to 0.01 at a tenth of it. The rate's interval reaches down to the level or below it, all cells together, dp2 (400 runs, "
        "hardly any difference) among them. By cell each level holds in all 78.",
    .rows = {{"false-alarms", "random small gpt bf16 tp2"}},
    .picture = "false-alarms.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro

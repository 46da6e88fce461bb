#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

// The smallest size that is seen; none: the largest that was tried, which flatters whoever missed
// it; a healthy run is accused: nothing is seen by such a rule.
double smallest(const Row& row, const std::string& rule) {
  const std::string& text = row[rule];
  return text == "-" || text == "accuses" ? 1 : row.number(rule);
}

double middle(std::vector<double> x) {
  std::ranges::sort(x);
  const std::size_t n = x.size();
  return n % 2 == 1 ? x[n / 2] : std::sqrt(x[n / 2 - 1] * x[n / 2]);
}

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("smallest-fault");
  std::vector<std::vector<std::string>> rows;
  std::size_t reached = 0, kinds = 0;
  for (const std::string& fault : values_of(all, "fault")) {
    std::vector<double> end_to_end, replayed;
    for (const Row& row : where(all, {{"fault", fault}})) {
      const double theirs = smallest(row, "perturbation-2"), twins = smallest(row, "twins-4");
      end_to_end.push_back(theirs / twins);
      replayed.push_back(theirs / std::min(twins, smallest(row, "replay")));
    }
    const double goal = fault.starts_with("scaled") ? 10 : 5;
    ++kinds;
    reached += middle(replayed) >= goal ? 1 : 0;
    rows.push_back({fault, fmt::format("{:.2g}", middle(end_to_end)),
                    fmt::format("{:.3g}", middle(replayed)), fmt::format("{:.0f}", goal)});
  }
  return {reached == kinds ? Agreement::yes : Agreement::partly,
          fmt::format("as many times smaller as was our goal in {} of {} kinds of fault", reached,
                      kinds),
          {},
          table({"fault", "times smaller than the paper's rule sees, by twins",
                 "by the default rules (twins or replay)", "goal"},
                rows)};
}

}  // namespace

extern const Claim b5_smaller_faults_are_seen{
    .id = "B5",
    .says =
        "Faults of single rows and scales are seen at a fifth and a tenth of the paper's rule's size",
    .where = "goes beyond: a norm over a whole tensor dilutes what is local",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "Median over families, recipes and batches. A fault that a rule never sees counts as seen "
        "at size 1, the largest tried.",
    .rows = {{"smallest-fault", too_long}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

constexpr const char* ours = "twins,replay";
constexpr const char* others[] = {"perturbation", "depth-law", "flat", "assert-close"};

// The smallest size that is seen. None: the largest that was tried, which flatters whoever missed it.
double smallest(const Row& row) { return row.is("smallest", "-") ? 1 : row.number("smallest"); }

double middle(std::vector<double> x) {
  std::ranges::sort(x);
  const std::size_t n = x.size();
  return n % 2 == 1 ? x[n / 2] : std::sqrt(x[n / 2 - 1] * x[n / 2]);
}

// How many times larger than the default rules' the smallest fault is that another rule sees, in the
// middle of all such faults, families and recipes.
double times_larger(const Rows& faults, const char* rule, const char* at) {
  std::vector<double> times;
  for (const Row& row : where(faults, {{"rule", rule}, {"at", at}})) {
    const Rows same = where(faults, {{"rule", ours},
                                     {"fault", row["fault"]},
                                     {"family", row["family"]},
                                     {"recipe", row["recipe"]}});
    times.push_back(smallest(row) / smallest(same.front()));
  }
  return middle(times);
}

Answer judge(const Evidence& evidence) {
  const Rows all = evidence.rates("smallest-fault");
  std::vector<std::vector<std::string>> rows;
  std::size_t reached = 0, asked = 0;
  for (const std::string& tensor : values_of(all, "tensor")) {
    for (const std::string& kind : values_of(all, "kind")) {
      const Rows faults = where(all, {{"tensor", tensor}, {"kind", kind}});
      const double goal = kind == "scale" ? 10 : 5;
      std::vector<std::string> row{tensor, kind, fmt::format("{:.0f}", goal)};
      row.push_back(fmt::format("{:.3g}", times_larger(faults, "perturbation", "as given")));
      for (const char* rule : others) {
        const double times = times_larger(faults, rule, "our false alarms");
        ++asked;
        reached += times >= goal ? 1 : 0;
        row.push_back(fmt::format("{:.3g}", times));
      }
      rows.push_back(row);
    }
  }
  return {
      reached == asked ? Agreement::yes : Agreement::partly,
      fmt::format("at equal false alarms as many times smaller as was our goal in {} of {} kinds "
                  "of fault by rule",
                  reached, asked),
      {},
      table({"tensor", "what is wrong", "goal", "perturbation as given",
             "perturbation at our false alarms", "depth-law", "flat", "assert-close"},
            rows)};
}

}  // namespace

extern const Claim b5_smaller_faults_are_seen{
    .id = "B5",
    .says =
        "Faults of elements and rows are seen at a fifth, of scales at a tenth of the size at which "
        "rules of others see them",
    .where = "goes beyond: a norm over a whole tensor dilutes what is local",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "How many times larger the smallest fault is that a rule sees, in the middle of families, "
        "recipes and batches. A fault that a rule never sees counts as seen at size 1, the largest "
        "tried. At our false alarms: at the margin at which the rule accuses as few healthy runs of "
        "the same model in the same recipe as the default rules.",
    .rows = {{"smallest-fault", too_long}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

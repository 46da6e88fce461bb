#include <fmt/format.h>

#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

struct Sums {
  double elements = 0, outside = 0, judged_by_mpfr = 0, outside_by_mpfr = 0;
};

Answer judge(const Evidence& evidence) {
  std::map<std::string, Sums> by_mode;
  for (const Row& row : evidence.rows("soundness")) {
    if (row["violations"] == "-") continue;  // moments are no bound
    Sums& sums = by_mode[row["mode"]];
    sums.elements += row.number("elements");
    sums.outside += row.number("violations");
    sums.judged_by_mpfr += row.number("mpfr_elements");
    sums.outside_by_mpfr += row.number("mpfr_violations");
  }
  if (!by_mode.contains("deterministic")) throw NotMeasured{"rows of worst cases"};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [mode, sums] : by_mode) {
    rows.push_back({mode, fmt::format("{:.0f}", sums.elements), fmt::format("{:.0f}", sums.outside),
                    fmt::format("{:.0f}", sums.judged_by_mpfr),
                    fmt::format("{:.0f}", sums.outside_by_mpfr)});
  }
  const Sums& worst = by_mode.at("deterministic");
  const double outside = worst.outside + worst.outside_by_mpfr;
  return {outside == 0 ? Agreement::yes : Agreement::no,
          fmt::format("{:.0f} of {:.0f} elements are outside, {:.0f} of them judged by MPFR",
                      outside, worst.elements, worst.judged_by_mpfr),
          {},
          table({"mode", "elements", "outside", "judged by MPFR", "outside"}, rows)};
}

}  // namespace

extern const Claim b1_no_error_is_outside_its_bound{
    .id = "B1",
    .says =
        "Tolerances can be derived: no element of a healthy operation lies outside its worst case",
    .where = "goes beyond: the paper's tolerances are empirical",
    .source = Source::ourselves,
    .published = "none",
    .reading = "One element outside is one too many.",
    .rows = {{"soundness", "^gemm moments (plain|cancelling)"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

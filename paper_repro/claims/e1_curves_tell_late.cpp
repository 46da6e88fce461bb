#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

std::string step(const Row& row) {
  return row.is("seen_from_step", "never") ? "never" : "step " + row["seen_from_step"];
}

Answer judge(const Evidence& evidence) {
  const Rows& curves = evidence.rows("loss-curve");
  const Rows rates = where(evidence.rates("loss-curve"), {{"k", "1"}});
  std::vector<std::vector<std::string>> rows;
  std::size_t neither = 0, at_once = 0, bugs = 0;
  double last = 0;
  for (const Row& row : curves) last = std::max(last, row.number("step"));
  for (const Row& loss : where(rates, {{"curve", "loss"}})) {
    const Row norm = where(rates, {{"curve", "grad_norm"}, {"bug", loss["bug"]}}).front();
    ++bugs;
    neither += loss.is("seen_from_step", "never") && norm.is("seen_from_step", "never") ? 1 : 0;
    at_once += loss.number("findings_at_step_1") > 0 ? 1 : 0;
    rows.push_back({loss["bug"], loss["layout"], step(loss), step(norm), loss["end"],
                    loss["healthy_end_least"] + " to " + loss["healthy_end_most"],
                    loss["findings_at_step_1"]});
  }
  Share accused;
  for (const Row& row : where(curves, {{"bug", "none"}, {"step", "1"}})) {
    if (row.is("findings", "-")) continue;  // the reference itself
    ++accused.of;
    accused.hits += row.number("findings") > 0 ? 1 : 0;
  }
  return {neither > 0 && at_once == bugs ? Agreement::yes : Agreement::no,
          fmt::format("{} of {} bugs are in neither curve after {:.0f} steps; a check of step 1 "
                      "finds {} of the {}",
                      neither, bugs, last, at_once, bugs),
          accused,
          table({"bug", "layout", "seen in the loss", "in the gradient norm", "loss at the end",
                 "of healthy layouts", "findings of a check at step 1"},
                rows)};
}

}  // namespace

extern const Claim e1_curves_tell_late{
    .id = "E1",
    .says =
        "Curves of loss and gradient norm may show a bug only after thousands of steps; one step "
        "is enough for a check of tensors",
    .where = "motivation; the bug is not named",
    .source = Source::review,
    .published = "a minor discrepancy after more than 4,000 steps and 6 hours",
    .reading =
        "It agrees if a bug is in neither curve after all steps and in the first step's check. "
        "Seen is: to the end, outside of the band of healthy layouts by more than its width and by "
        "a pixel of 500 (experiments/curves.hpp).",
    .rows = {{"loss-curve", "gpt (none (dp1|tp2,sp)|sp-norm-grad-not-reduced tp2,sp) "}},
    .picture = "loss-curve.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro

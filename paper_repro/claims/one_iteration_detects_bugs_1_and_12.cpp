#include <fmt/format.h>

#include "paper_repro/claim.hpp"

namespace plumb::paper_repro {

extern const Claim one_iteration_detects_bugs_1_and_12{
    .id = "one-iteration-detects-bugs-1-and-12",
    .where = "TTrace, arXiv 2506.09280, Table 1: bugs 1 and 12",
    .says =
        "One iteration is enough to detect the wrong embedding mask and the unreduced norm "
        "gradient",
    .experiment = "detection-rate",
    .published = "detected",
    .ours =
        [](const Table& rows) {
          const auto at = [&](const char* name) { return rows.column(name); };
          int trials = 0, detected = 0, accused = 0;
          for (const auto& row : rows.rows()) {
            const bool ours = row[at("rule")] == "perturbation";  // the paper's own rule
            const std::string& bug = row[at("bug")];
            if (!ours ||
                (bug != "embedding-mask-on-shifted-ids" && bug != "sp-norm-grad-not-reduced")) {
              continue;
            }
            ++trials;
            detected += row[at("detected")] == "1" ? 1 : 0;
            accused += row[at("false_alarm")] == "1" ? 1 : 0;
          }
          return Answer{fmt::format("detected in {} of {} trials, healthy twin accused in {}",
                                    detected, trials, accused),
                        trials > 0 && detected == trials};
        },
};

}  // namespace plumb::paper_repro

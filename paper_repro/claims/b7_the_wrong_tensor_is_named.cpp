#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("detection-rate");
  std::vector<std::vector<std::string>> rows;
  Share ours, accused;
  for (const std::string& rule : values_of(all, "rule")) {
    Share blamed;
    for (const Row& row : where(all, {{"rule", rule}})) {
      if (!row.yes("detected") && !row.yes("structure")) continue;
      ++blamed.of;
      blamed.hits += row.yes("blamed_right") ? 1 : 0;
      if (rule != "twins,replay") continue;
      ++accused.of;
      accused.hits += row.yes("false_alarm") ? 1 : 0;
    }
    if (rule == "twins,replay") ours = blamed;
    rows.push_back({rule, fmt::format("{} of {}", blamed.hits, blamed.of),
                    fmt::format("{:.1f} %", 100 * blamed.rate())});
  }
  if (ours.of == 0) throw NotMeasured{"rows of the default rules"};
  return {ours.rate() >= 0.97 ? Agreement::yes : Agreement::partly,
          fmt::format("{} of {} detected bugs are blamed on the exact tensor", ours.hits, ours.of),
          accused, table({"rule", "blamed exactly, of those detected", "share"}, rows)};
}

}  // namespace

extern const Claim b7_the_wrong_tensor_is_named{
    .id = "B7",
    .says = "The first wrong tensor is named in one run, without running anything again",
    .where = "goes beyond: the paper runs again with inputs rewritten, and names modules (E12)",
    .source = Source::ourselves,
    .published = "the module",
    .reading =
        "Replay computes each operation again from the candidate's own inputs. Rules of size name "
        "their first finding in dataflow order. Goal: 97 %.",
    .rows = {{"detection-rate", " gpt random .* 1 structure$"}},
    .picture = "detection-rate.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro

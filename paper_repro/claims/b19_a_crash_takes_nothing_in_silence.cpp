#include <fmt/format.h>

#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

struct Sums {
  double states = 0, complete = 0, resumed = 0, reported = 0, undone = 0, silent = 0;
  double tried = 0, needed = 0;  // syncs that are lost in their turn
  double bad() const { return undone + silent; }

  void add(const Row& row) {
    states += row.number("states");
    complete += row.number("complete");
    resumed += row.number("resumed");
    reported += row.number("reported");
    undone += row.number("undone");
    silent += row.number("silent");
    if (row["syncs"] != "one lost") return;
    tried += row.number("syncs_tried");
    needed += row.number("syncs_needed");
  }
};

Answer judge(const Evidence& evidence) {
  std::map<std::string, Sums> by_syncs;
  std::vector<std::vector<std::string>> rows;
  for (const Row& row : evidence.rows("crash-states")) {
    by_syncs[row["syncs"]].add(row);
    rows.push_back({row["saved"], row["syncs"]});
    for (const char* column :
         {"states", "complete", "resumed", "reported", "undone", "silent", "syncs_needed"}) {
      rows.back().push_back(row[column]);
    }
  }
  for (const char* syncs : {"made", "one lost", "lost"}) {
    if (!by_syncs.contains(syncs)) throw NotMeasured{"rows whose syncs are " + std::string(syncs)};
  }
  const Sums &made = by_syncs.at("made"), &one = by_syncs.at("one lost"),
             &lost = by_syncs.at("lost");
  const bool is_sharp = lost.bad() > 0;  // it would have been seen
  return {
      made.bad() > 0 ? Agreement::no
      : is_sharp     ? Agreement::yes
                     : Agreement::partly,
      fmt::format("{:.0f} of {:.0f} states are lost in silence or undone; without syncs {:.0f} of "
                  "{:.0f}, and {:.0f} of {:.0f} syncs are needed",
                  made.bad(), made.states, lost.bad(), lost.states, one.needed, one.tried),
      {},
      table({"saved", "syncs", "states", "complete", "resumed", "reported", "undone", "silent",
             "syncs that are needed"},
            rows)};
}

}  // namespace

extern const Claim b19_a_crash_takes_nothing_in_silence{
    .id = "B19",
    .says = "Traces, states, spreads and rows survive a crash at any store: no silent loss",
    .where = "goes beyond",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "A state of the disk that a crash may leave is complete, or reported, or resumed with equal "
        "output; one other is one too many. Only if a disk that does not sync leaves others.",
    .rows = {{"crash-states", "^(spreads|bounds|rows) "}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

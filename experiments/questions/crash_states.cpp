// What does a crash leave of what is being saved? Every moment, and every state of the disk that may
// follow it, is opened again by the shipped readers; and the same where the disk does not sync.
#include "experiments/crash/crash.hpp"
#include "experiments/experiment.hpp"

namespace plumb::experiments {
namespace {

// Which syncs are made: all; all but one, each in its turn; none.
constexpr const char* ways[] = {"made", "one lost", "lost"};

struct Sum {
  CrashTally tally;
  std::size_t syncs = 0, needed = 0;  // of which each is lost in its turn, and leaves bad states
};

Sum sum_of(Crash& crash, const std::string& way, const DiskModel::Effort& effort) {
  if (way == "made") return {crash.tried(effort, [](std::size_t) { return true; })};
  if (way == "lost") return {crash.tried(effort, [](std::size_t) { return false; })};
  Sum sum;
  for (const std::size_t lost : crash.syncs()) {
    const CrashTally one = crash.tried(effort, [&](std::size_t step) { return step != lost; });
    ++sum.syncs;
    sum.needed += one.bad() > 0 ? 1 : 0;
    sum.tally.moments += one.moments;
    sum.tally.states += one.states;
    sum.tally.drawn += one.drawn;
    for (const auto& [how, states] : one.after) sum.tally.after[how] += states;
  }
  return sum;
}

Table::Row row_of(const std::string& saved, const std::string& way, const Crash& crash,
                  const Sum& sum) {
  const CrashTally& t = sum.tally;
  Table::Row row{saved, way};
  for (const std::size_t n :
       {crash.steps(), t.moments, t.states, t.drawn, t.of(AfterCrash::complete),
        t.of(AfterCrash::resumed), t.of(AfterCrash::reported), t.of(AfterCrash::undone),
        t.of(AfterCrash::silent)}) {
    row.push_back(std::to_string(n));
  }
  const bool each = way == "one lost";
  row.push_back(each ? std::to_string(sum.syncs) : "-");
  row.push_back(each ? std::to_string(sum.needed) : "-");
  return row;
}

void run(Table& rows, const Effort& effort) {
  DiskModel::Effort states;
  states.drawn *= static_cast<std::size_t>(effort.scale);
  for (const Saved& saved : all_saved()) {
    std::optional<Crash> crash;
    for (const char* way : ways) {
      if (effort.out_of_time()) return;
      if (rows.settled({saved.name, way})) continue;
      if (!crash) crash.emplace(saved);
      rows.add(row_of(saved.name, way, *crash, sum_of(*crash, way, states)));
      effort.progress(saved.name + ", syncs " + way);
    }
  }
}

}  // namespace

extern const Experiment crash_states{
    .name = "crash-states",
    .question = "What does a crash leave of what is being saved, and does anyone notice?",
    .columns = {"saved", "syncs", "steps", "moments", "states", "drawn", "complete", "resumed",
                "reported", "undone", "silent", "syncs_tried", "syncs_needed"},
    .keys = 2,
    .run = run,
    .trained_states = "none",
};

}  // namespace plumb::experiments

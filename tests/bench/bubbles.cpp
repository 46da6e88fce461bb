// Replay in the waits of a pipeline's ranks, in real steps of two ranks: how long they wait, how
// much of the waiting replay takes, how much of the replay that is, and how much longer forward and
// backward take with it. Steps without and with it in turn; each with one is held against the mean
// of those before and after it. Wall-clock time, ratios within one run, a row for each pair.
//
// Rows for claim B20 of paper_repro, of threads and of an MPI job:
//   build/bench/bench_bubbles >bubbles-run.csv
//   mpirun -n 2 build/bench/bench_bubbles mpi >>bubbles-run.csv
#include <fmt/format.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/trial.hpp"
#include "model/data/text.hpp"
#include "tests/support/rooms.hpp"
#include "trace/memory.hpp"
#include "trace/rank_replay.hpp"

namespace plumb {
namespace {

constexpr int pairs = 40;

struct Piece final : IdleWork {
  RankReplay replay;
  bool piece(double seconds) override { return replay.one(seconds); }
};

// Of one step, over all ranks.
struct Seen {
  double pipeline = 0, waited = 0, worked = 0;
  std::size_t done = 0, held = 0;  // operations: replayed; that ranks hold whole
};

class Job {
 public:
  Job(World& world, const char* layout) : world_(world), start_(start_in(layout)) {}

  Seen step(bool with) {
    for (std::size_t r = 0; r < waits_.size(); ++r) {
      if (!is_here(r)) continue;
      if (with) pieces_[r].replay.begin(before_, r);
      waits_[r].work = with ? &pieces_[r] : nullptr;
    }
    before_ = run_candidate(start_, nullptr, {}, "reference", world_, nullptr, &waits_).trace;
    return over_ranks();
  }
  std::size_t operations() const { return before_.graph->nodes.size(); }

 private:
  static Start start_in(const char* layout) {
    Config c = config_of("gpt");
    c.micro_batches = 8;
    return start_of(c, find_recipe("bf16"), parse_layout(layout), default_text());
  }
  bool is_here(std::size_t r) const {
    return world_.has_all() || r == static_cast<std::size_t>(world_.rank());
  }

  // Rank 0's process gets all; what it knows of time is what rank 0 saw, which ends last.
  Seen over_ranks() {
    std::string mine;
    for (std::size_t r = 0; r < waits_.size(); ++r) {
      if (!is_here(r)) continue;
      const Waits::Seen& w = waits_[r].seen();
      const RankReplay& replay = pieces_[r].replay;
      mine += fmt::format("{} {} {} {} {}\n", w.pipeline, w.waited, w.worked, replay.done(),
                          replay.done() + replay.left());
    }
    Seen all;
    for (const std::string& text : world_.gather(mine)) {
      std::istringstream words(text);
      for (Seen s; words >> s.pipeline >> s.waited >> s.worked >> s.done >> s.held;) {
        if (all.pipeline == 0) all.pipeline = s.pipeline;
        all.waited += s.waited;
        all.worked += s.worked;
        all.done += s.done;
        all.held += s.held;
      }
    }
    return all;
  }

  World& world_;
  Start start_;
  std::vector<Waits> waits_{2};
  std::vector<Piece> pieces_{2};
  Trace before_;
};

void measure(World& world, const char* name, const char* layout) {
  Job job(world, layout);
  job.step(false);  // warm
  Seen before = job.step(false);
  job.step(true);  // what operations take
  for (int pair = 1; pair <= pairs; ++pair) {
    const Seen with = job.step(true), after = job.step(false);
    const double without = (before.pipeline + after.pipeline) / 2;
    const double waited = (before.waited + after.waited) / 2;
    if (world.rank() == 0) {
      fmt::print("{},\"{}\",8,{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f}\n", name, layout, pair,
                 waited / 2 / without, with.worked / waited,
                 static_cast<double>(with.done) / static_cast<double>(with.held),
                 static_cast<double>(with.done) / static_cast<double>(job.operations()),
                 with.pipeline / without - 1);
    }
    before = after;
  }
}

}  // namespace
}  // namespace plumb

int main(int count, char** words) {
  using namespace plumb;
  keep_freed_memory();
  const bool by_mpi = count > 1 && std::string_view(words[1]) == "mpi";
  World& world = by_mpi ? mpi() : threads();
  if (!by_mpi) {
    fmt::print("world,layout,micro_batches,pair,waits,used,fits_of_held,fits_of_all,slow_down\n");
  }
  for (const char* layout : {"pp2", "pp2,vpp2"}) {
    measure(world, by_mpi ? "mpi" : "threads", layout);
  }
}

#include "cli/bubble_replay.hpp"

#include <fmt/format.h>

#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/report/report.hpp"
#include "trace/structure.hpp"

namespace plumb::cli {

BubbleReplay::BubbleReplay(const Layout& layout, World& world)
    : world_(world),
      waits_(static_cast<std::size_t>(layout.world_size())),
      pieces_(waits_.size()) {}

void BubbleReplay::refuse_odd(const Layout& layout, const std::string& world_name) {
  if (layout.pp == 1) {
    throw Failure("--replay-in-bubbles is for ranks that wait in a pipeline, and " +
                  name_of(layout) + " has one stage; say --layout pp2, or plumb replay TRACE");
  }
  if (world_name == "nccl") {
    throw Failure(
        "--replay-in-bubbles replays on the processor, and --world nccl was not run yet; say "
        "--world threads or mpi, or plumb replay TRACE");
  }
}

void BubbleReplay::ended(std::shared_ptr<const Trace> step) {
  settle();
  before_ = std::move(step);
  const auto mine = static_cast<std::size_t>(world_.rank());
  for (std::size_t r = 0; r < pieces_.size(); ++r) {
    if (!world_.has_all() && r != mine) continue;
    pieces_[r].replay.begin(*before_, r);
    waits_[r].work = &pieces_[r];
  }
}

// What each rank did, on rank 0.
std::vector<Inside> BubbleReplay::gathered() {
  std::vector<Inside> all;
  if (world_.has_all()) {
    for (const Piece& piece : pieces_) all.push_back(piece.replay.inside());
    return all;
  }
  const auto mine = static_cast<std::size_t>(world_.rank());
  for (const std::string& text : world_.gather(text_of(pieces_[mine].replay.inside()))) {
    all.push_back(inside_from(text));
  }
  return all;
}

void BubbleReplay::settle() {
  if (before_ == nullptr) return;
  for (const Waits& each : waits_) {
    pipeline_ += each.seen().pipeline;
    waited_ += each.seen().waited;
    worked_ += each.seen().worked;
  }
  const std::vector<Inside> of_ranks = gathered();
  if (world_.rank() != 0) return;
  const Merged merged = merge(*before_);
  Completed all = complete(*before_->graph, merged, of_ranks);
  taken_ += all.taken;
  rest_ += all.rest;
  for (const Node& node : before_->graph->nodes) {
    for (const std::string& id : node.outputs) {
      if (merged.values.contains(id)) continue;
      all.replayed.not_judged.push_back(
          {id, "it is promised and was not recorded" + why_not_whole(merged.findings, id)});
    }
  }
  std::vector<Finding> damage = merged.findings;
  if (!left_out(*before_->graph, Run(merged).values)) {
    damage.insert(damage.end(), merged.not_finite.begin(), merged.not_finite.end());
  }
  all.replayed.findings.insert(all.replayed.findings.begin(), damage.begin(), damage.end());
  tell_findings(before_->manifest.step, all.replayed);
  findings_ += all.replayed.findings.size();
  not_judged_ += all.replayed.not_judged.size();
}

void BubbleReplay::tell_findings(int step, const Replayed& seen) const {
  for (const Finding& f : seen.findings) {
    fmt::print("step {}: {} {} ratio {}: {}\n", step, f.id, f.statistic, ratio_text(f.ratio),
               f.detail);
  }
  for (const NotJudged& one : seen.not_judged)
    fmt::print("step {}: not judged: {}\n", step, one.text());
}

int BubbleReplay::finish() {
  // No step was there to replay the last one in.
  for (Piece& piece : pieces_) piece.replay = RankReplay();
  for (Waits& each : waits_) each = Waits();
  const std::size_t before = rest_;
  settle();
  last_ = rest_ - before;
  if (world_.rank() != 0) return 0;
  fmt::print(
      "replay: {}, {} not judged; {} in bubbles, {} behind the step, {} of the last step behind the "
      "run\n",
      how_many(findings_, "finding"), not_judged_, how_many(taken_, "operation"), before, last_);
  if (waited_ > 0) {
    fmt::print(
        "waits for messages: {:.0f} % of the time in the pipeline{}, {:.0f} % of them used\n",
        100 * waited_ / pipeline_, world_.has_all() ? "" : " of this rank",
        100 * worked_ / waited_);
  }
  return findings_ > 0 ? 1 : 0;
}

}  // namespace plumb::cli

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <optional>

#include "cli/bubble_replay.hpp"
#include "cli/curve.hpp"
#include "cli/stop.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "experiments/trial.hpp"
#include "model/run/rewriting.hpp"
#include "model/run/training.hpp"
#include "number/words.hpp"
#include "trace/store/store.hpp"

namespace plumb::cli {
namespace {

class TrainCommand {
 public:
  void add_to(CLI::App& verb);
  int run();

 private:
  Trace traced(const Start& start);
  void trace_last(Start start);
  void trace_every(Start start);
  void resync();
  void refuse_other_ranks() const;

  ModelOptions model_;
  std::string out_, rewrite_, bug_, backend_ = "reference", world_name_ = "threads", resync_;
  Curve curve_;
  int steps_ = 1;
  bool every_step_ = false, in_bubbles_ = false;
  std::uint64_t perturb_ = 0;
  double dose_ = 0;
  const Bug* planted_ = nullptr;
  World* world_ = nullptr;
  std::vector<StaleGradients> stale_;  // of the ranks, from step to step
  std::optional<BubbleReplay> replay_;
};

void TrainCommand::add_to(CLI::App& verb) {
  model_.add_to(verb);
  std::vector<CLI::Option*> of_model;
  for (CLI::Option* option : verb.get_options()) {
    if (!option->check_name("--layout") && !option->check_name("--help")) {
      of_model.push_back(option);
    }
  }
  auto* steps = verb.add_option("--steps", steps_,
                                "steps; all but the last are computed by the reference and not "
                                "traced, unless --every-step")
                    ->capture_default_str()
                    ->check(whole_numbers(1, 999999));
  auto* every = verb.add_flag("--every-step", every_step_,
                              "trace every step, each from what the run itself made of the one "
                              "before; the folder gets a trace for each");
  curve_.add_to(verb);
  auto* layout = verb.get_option("--layout");
  auto* of_bug =
      verb.add_option("--bug", bug_, "plant this bug (list: plumb bugs); needs --layout");
  of_bug->group("Bug");
  add_dose(verb, dose_)->needs(of_bug)->group("Bug");
  verb.add_option(
          "--backend", backend_,
          "what multiplies matrices: reference, eigen, onednn (BF16 units of the processor) or "
          "cublas (of a GPU); needs --layout")
      ->capture_default_str()
      ->group("What runs it")
      ->needs(layout);
  verb.add_option("--world", world_name_,
                  "threads; mpi: one rank a process, started by mpirun; nccl: a GPU for each "
                  "rank; needs --layout")
      ->capture_default_str()
      ->check(CLI::IsMember({"threads", "mpi", "nccl"}))
      ->group("What runs it")
      ->needs(layout);
  auto* perturb =
      verb.add_option("--perturb", perturb_,
                      "move the embedding of the one-device run by one ulp, with this seed")
          ->check(whole_numbers(1, std::numeric_limits<std::uint64_t>::max()))
          ->excludes(layout, of_bug, every);
  auto* resync =
      verb.add_option("--resync", resync_,
                      "run each step that this run of a reference traced (--every-step) from the "
                      "reference's state: late bugs show, drift does not; needs --layout")
          ->needs(layout)
          ->excludes(steps, every, perturb);
  auto* in_bubbles =
      verb.add_flag("--replay-in-bubbles", in_bubbles_,
                    "replay the operations of each step while ranks of the pipeline wait in the "
                    "next one; needs --layout with pp, and --every-step or --resync")
          ->needs(layout)
          ->excludes(perturb);
  for (CLI::Option* option : {steps, every, perturb, resync, in_bubbles}) option->group("Steps");
  auto* rewrite = add_rewrite(verb, rewrite_);
  rewrite->excludes(every)->excludes(resync)->group("What modules take in");
  for (CLI::Option* option : of_model) resync->excludes(option);
  verb.add_option("-o,--output", out_, "folder to write the trace to")
      ->required()
      ->check(new_traces());
}

int TrainCommand::run() {
  name_what_was_left(out_);
  planted_ = bug_.empty() ? nullptr : &find_bug(bug_);
  if (planted_ != nullptr && model_.layout.empty()) {
    throw Failure("a bug is planted in a run over ranks; say --layout " +
                  std::string(planted_->needs.layout));
  }
  if (planted_ != nullptr && planted_->in_the_next_step && !every_step_ && resync_.empty()) {
    throw Failure("bug '" + bug_ +
                  "' shows from the second step on; say --every-step, or --resync RUN");
  }
  find_backend(backend_);
  if (in_bubbles_) BubbleReplay::refuse_odd(parse_layout(model_.layout), world_name_);
  world_ = world_name_ == "mpi" ? &mpi() : world_name_ == "nccl" ? &nccl() : &threads();
  if (in_bubbles_ && resync_.empty() && !every_step_) {
    throw Failure(
        "--replay-in-bubbles replays each step during the next one; say --every-step, or --resync "
        "RUN");
  }
  if (in_bubbles_) replay_.emplace(parse_layout(model_.layout), *world_);
  if (!resync_.empty()) {
    resync();
  } else if (every_step_) {
    refuse_other_ranks();
    trace_every(model_.start("dp1,tp1"));
  } else {
    trace_last(model_.start("dp1,tp1"));
  }
  if (world_->rank() == 0) curve_.write();
  return replay_ ? replay_->finish() : 0;
}

// So that steps of a run whose writer was stopped are missed.
static void say_steps(Manifest& manifest, const std::string& first, const std::string& last) {
  manifest.settings["first_step"] = first;
  manifest.settings["last_step"] = last;
}

Trace TrainCommand::traced(const Start& start) {
  if (perturb_ != 0) return run_perturbed(start, perturb_);
  if (model_.layout.empty()) return run_reference(start);
  if (planted_ != nullptr) refuse_unmet(*planted_, start.run, dose_);
  return run_candidate(start, planted_, {dose_, 1}, backend_, *world_, &stale_,
                       replay_ ? replay_->waits() : nullptr)
      .trace;
}

void TrainCommand::trace_last(Start start) {
  if (planted_ != nullptr) refuse_unmet(*planted_, start.run, dose_);  // before hours of training
  const Rewriting how = rewriting_asked(rewrite_);
  start = trained(std::move(start), text_from(model_.data), steps_, [&](int step, double loss) {
    curve_.add(step, loss);
    if (world_->rank() == 0) talk(fmt::format("step {} of {}, loss {:.3f}", step, steps_, loss));
  });
  start = rewritten(std::move(start), how);
  talk("");
  const Trace trace = traced(start);
  if (world_->rank() != 0) return;
  write_trace(trace, out_);
  if (steps_ > 1 || curve_.is_asked_for()) curve_.add(trace);
  if (steps_ > 1) fmt::print("loss {:.3f}, ", curve_.last());
  fmt::print("trace of step {} in {}\n", start.run.step, out_);
}

void TrainCommand::trace_every(Start start) {
  const int first = start.run.step, last = first + steps_ - 1;
  go_through(std::move(start), text_from(model_.data), steps_, [&](const Start& now) {
    const auto trace = std::make_shared<Trace>(traced(now));
    say_steps(trace->manifest, std::to_string(first), std::to_string(last));
    write_trace(*trace, trace_of_step(out_, now.run.step));
    Values values = merge(*trace).values;
    if (replay_) replay_->ended(trace);
    curve_.add(now.run.step, values.at("loss/out")->values[0]);
    fmt::print("step {}, loss {:.3f}\n", now.run.step, curve_.last());
    return values;
  });
  fmt::print("traces of steps {} to {} in {}\n", first, last, out_);
}

// Refuses worlds where each process has one rank: the others do not see the step's new state.
void TrainCommand::refuse_other_ranks() const {
  if (world_->has_all()) return;
  throw Failure(
      "--every-step goes on from what a step made, which one process of an MPI job does not have; "
      "run threads, or each step from a reference's state: --resync RUN");
}

void TrainCommand::resync() {
  const auto traces = traces_of(resync_);
  if (traces.empty()) {
    throw Failure(resync_ + " has no traces of steps; make some: plumb train --steps 3 " +
                  "--every-step -o " + resync_);
  }
  for (const auto& [step, folder] : traces) {
    const Loaded reference = load(folder);
    const Start start = start_from(reference.trace, reference.merged, parse_layout(model_.layout));
    const auto trace = std::make_shared<Trace>(traced(start));
    if (replay_) replay_->ended(trace);
    if (world_->rank() != 0) continue;
    const auto& planned = reference.trace.manifest.settings;
    if (planned.contains("first_step") && planned.contains("last_step")) {
      say_steps(trace->manifest, planned.at("first_step"), planned.at("last_step"));
    }
    write_trace(*trace, trace_of_step(out_, step));
    if (curve_.is_asked_for()) curve_.add(*trace);
    fmt::print("step {} from {}\n", step, folder.string());
  }
  if (world_->rank() == 0)
    fmt::print("traces of {} in {}\n", how_many(traces.size(), "step"), out_);
}

}  // namespace

void add_train(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("train", "run the mini Transformer and trace its last step");
  static TrainCommand command;
  command.add_to(*verb);
  verb->footer(
      "With MPI: mpirun -n 4 plumb train --layout dp2,tp2 --world mpi -o TRACE writes, bit by bit, "
      "what threads do (on fewer cores than ranks: mpirun --oversubscribe -n 4 ...).\n"
      "Without --layout the promise is executed on one device: the reference.\n"
      "With --replay-in-bubbles the exit code is 1 where replay finds something, as that of plumb "
      "replay.\n"
      "--resync RUN takes recipe, model, data and steps from RUN: options for these do not go with "
      "it.");
  verb->callback([&chosen] { chosen = [] { return command.run(); }; });
}

}  // namespace plumb::cli

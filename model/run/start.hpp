// model/run/start.hpp: a step of a run, from its start: the reference on one device, the same with
// a perturbed input, a candidate over ranks; and the start of the step after it.
//
// TESTED   tests/experiments/catch_test.cpp, tests/experiments/settings_test.cpp,
//          tests/experiments/scene_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/sees.hpp"
#include "model/step/train_step.hpp"
#include "trace/comparable.hpp"
#include "trace/merge.hpp"

namespace plumb::model {

// The state and the data of a run's start.
struct Start {
  Training run;  // its layout is what the candidates run in
  Values leaves;
};

// `loaded`: an earlier trace whose last state is the start (its model wins; seed, rate, sequences
// and micro-batches are those of `config`); absent: random weights of `config`. Throws Failure on a
// text that is too short or a trace without a state.
Start start_of(const Config& config, const Recipe& recipe, const Layout& layout,
               std::string_view text, const Trace* loaded = nullptr);

// Returns the same state with other data.
Start with_data(Start start, std::string_view text, std::uint64_t seed);

// Runs the single-device reference.
Trace run_reference(const Start& start);
// The same with its tensors, which are those that the executor made: nothing is merged, and nothing is
// judged again (trace::Reference::executed).
class ExecutedReference {
 public:
  explicit ExecutedReference(const Start& start);
  ExecutedReference(const ExecutedReference&) = delete;  // what to_judge() refers to stays here

  const Trace& trace() const { return trace_; }
  const Merged& merged() const { return merged_; }
  Reference to_judge() const { return Reference::executed(trace_, merged_); }

 private:
  ExecutedReference(const Start& start, const Values& values);
  const Trace trace_;
  const Merged merged_;
};
// Runs the reference with its embedding output moved by one ulp (rule perturbation).
Trace run_perturbed(const Start& start, std::uint64_t seed);

struct Candidate {
  Trace trace;
  bool reached = false;  // a joint that was replaced was asked
};
// Runs the step over the ranks of its layout. `joints`: its decisions, of which a bug replaces one;
// `stale`: of the step that the same ranks made before, `waits`: both as train_step takes them.
Candidate run_candidate(const Start& start, const Joints& joints = {},
                        const std::string& backend = "reference", World& world = threads(),
                        std::vector<StaleGradients>* stale = nullptr,
                        std::vector<Waits>* waits = nullptr);

// Returns the step after `start`, from the state that `step` left, with the same data.
Start step_after(Start start, const Values& step);

}  // namespace plumb::model

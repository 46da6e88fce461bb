// experiments/trial.hpp: reference, healthy run, broken run and their verdicts: shared by catch,
// the demo, sweeps and tests. The judge is given two traces and never a bug.
//
// TESTED   tests/experiments/catch_test.cpp
#pragma once

#include <optional>
#include <string>

#include "experiments/sees.hpp"
#include "injectors/bug.hpp"
#include "model/transformer.hpp"
#include "trace/check.hpp"

namespace plumb::experiments {

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
// Runs the reference with its embedding output moved by one ulp (rule perturbation).
Trace run_perturbed(const Start& start, std::uint64_t seed);

struct Candidate {
  Trace trace;
  bool reached = false;  // the bug's joint was asked
};
// `leftovers`: of the step that the same ranks made before, as train_step takes them.
Candidate run_candidate(const Start& start, const Bug* bug = nullptr, const Dose& dose = {},
                        const std::string& backend = "reference", World& world = threads(),
                        std::vector<Leftovers>* leftovers = nullptr);

// Returns the step after `start`, from the state that `step` left, with the same data.
Start step_after(Start start, const Values& step);

// The result of planting a bug.
struct Trial {
  Verdict healthy, broken;
  bool reached = false;
  bool changed = false;  // some merged tensor differs in some bit from the healthy run
  double effect = 0;     // largest relative Frobenius change against the healthy run,
                         // over activations and gradients (not after clipping)
  std::string effect_at;
  bool blamed_right = false;
  std::string bites_at;
};
// A bug that shows late gets a step before, after which reference and candidates start alike.
Trial run_trial(const Start& start, const Bug& bug, const Dose& dose, const CheckOptions& options);

}  // namespace plumb::experiments

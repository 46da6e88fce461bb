// experiments/trial.hpp: reference, healthy run, broken run and their verdicts: shared by catch,
// the demo, sweeps and tests. The judge is given two traces and never a bug.
//
// TESTED   tests/experiments/catch_test.cpp
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/sees.hpp"
#include "injectors/bug.hpp"
#include "model/run/start.hpp"
#include "trace/check.hpp"

namespace plumb::experiments {

// Runs a candidate with that bug, or with none.
Candidate run_candidate(const Start& start, const Bug* bug, const Dose& dose = {},
                        const std::string& backend = "reference", World& world = threads(),
                        std::vector<StaleGradients>* stale = nullptr,
                        std::vector<Waits>* waits = nullptr);

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

// What is wrong in a run: decisions that are replaced, and where that shows first.
struct Planted {
  std::function<void(Joints&, const Config&)> plant;
  bool in_the_next_step = false;  // the first step is right
  std::string bites_at = {};      // empty: the first tensor that has other bits
};
Planted planted(const Bug& bug, const Dose& dose, const Config& config);

// The runs that are judged, all from one start: of the step before, a bug that shows late has left
// its state alone.
struct Runs {
  Start start;
  Trace reference;
  Candidate healthy, broken;
};
Runs runs_of(const Start& first, const Planted& wrong);
// The step that is judged: `first`, or the one after it. `rewriting`: of it (model/plan/rewriting.hpp).
Start judged_start(const Start& first, bool late, Rewriting rewriting = Rewriting::none);
// Runs `start` with this wrong; of what shows late `first` before it, with the same ranks.
Candidate run_broken(const Start& first, const Start& start, const Planted& wrong);
// Two NaN of the same bits are equal; zeros of either sign are not.
bool same_bits(const Tensor& a, const Tensor& b);
// What the bug changed, without verdicts.
Trial changes_of(const Candidate& healthy, const Candidate& broken, const Planted& wrong,
                 const Merged& of_healthy, const Merged& of_broken);

// A bug that shows late gets a step before, after which reference and candidates start alike. Of
// several bugs in one place experiments/scene.hpp makes all but their own runs once.
Trial run_trial(const Start& start, const Bug& bug, const Dose& dose, const CheckOptions& options,
                Rewriting rewriting = Rewriting::none);
// The same runs, judged in several ways.
std::vector<Trial> run_trials(const Start& start, const Bug& bug, const Dose& dose,
                              const std::vector<CheckOptions>& ways,
                              Rewriting rewriting = Rewriting::none);
std::vector<Trial> run_trials(const Start& start, const Planted& wrong,
                              const std::vector<CheckOptions>& ways,
                              Rewriting rewriting = Rewriting::none);

}  // namespace plumb::experiments

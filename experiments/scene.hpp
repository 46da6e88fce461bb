// experiments/scene.hpp: what candidates of one start are held against, made once for all of them.
//
// COSTS    Made: three steps (reference, healthy run, perturbed reference) and the verdicts on the
//          healthy run. Each candidate: its run and its verdicts.
// TESTED   tests/experiments/scene_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/trial.hpp"
#include "trace/comparable.hpp"

namespace plumb::experiments {

class Scene {
 public:
  // `late`: candidates are judged in the step after `first`, which they begin alike, as a bug does that
  // shows late. `ways`: in which all are judged; a rule `perturbation` that is given no perturbed
  // reference, or that of another step, gets its own.
  Scene(const Start& first, bool late, std::vector<CheckOptions> ways,
        Rewriting rewriting = Rewriting::none);
  Scene(const Scene&) = delete;  // what it holds refers to itself

  const Start& start() const { return start_; }

  // A candidate with this wrong, which is late or not as the scene is; none is judged yet.
  struct Broken {
    Candidate run;
    Merged merged;
    Trial changes;  // without verdicts
  };
  Broken broken(const Planted& wrong) const;
  // Its trials, one for each way.
  std::vector<Trial> judged(const Broken& broken);
  std::vector<Trial> trials(const Planted& wrong) { return judged(broken(wrong)); }

 private:
  const Start first_, start_;
  const ExecutedReference reference_;
  const Candidate healthy_;
  const Merged merged_healthy_;
  std::optional<Trace> perturbed_;
  std::vector<CheckOptions> ways_;
  std::vector<Verdict> of_healthy_;  // by way; made when it is first asked for
};

// The scene that was asked for last.
class LastScene {
 public:
  // `name` says all that a scene is made from; `make` is called where it is another than the last.
  template <class Make>
  Scene& of(const std::string& name, const Make& make) {
    if (!scene_ || name != name_) {
      scene_.reset();  // before the next: a scene is large
      scene_ = make();
      name_ = name;
    }
    return *scene_;
  }

 private:
  std::string name_;
  std::unique_ptr<Scene> scene_;
};

}  // namespace plumb::experiments

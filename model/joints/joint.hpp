// model/joints/joint.hpp: a parallel decision of the model, asked through one replaceable function.
//
// The defaults are correct. A known bug (injectors/) is one joint replaced; the model knows no bug.
// A joint counts its uses, and a replacement may say when it did something else than the default.
//
// TESTED   tests/model/joints_test.cpp
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "model/sees.hpp"

namespace plumb::model {

// Who asks: rank, micro-batch (global number; -1 outside), layer (-1 outside), module path.
struct Where {
  int dp = 0, dp_size = 1;
  int ep = 0, ep_size = 1;  // of the data-parallel ranks
  int tp = 0, tp_size = 1;
  int cp = 0, cp_size = 1;
  int pp = 0, pp_size = 1;
  int micro_batch = -1;
  int layer = -1;
  bool backward = false;      // the task of a stage that asks
  bool recomputing = false;   // backward computes a forward again
  bool after_a_step = false;  // this job has taken a step before
  std::string module;
};

template <class Signature>
class Joint;

template <class R, class... Args>
class Joint<R(const Where&, Args...)> {
 public:
  using Function = std::function<R(const Where&, Args...)>;
  template <class F>
  Joint(F standard) : ask_(std::move(standard)) {}

  void replace(Function other) {
    ask_ = std::move(other);
    replaced_ = true;
  }
  R operator()(const Where& where, Args... args) const {
    ++uses_;
    return ask_(where, std::forward<Args>(args)...);
  }
  const Function& answer() const { return ask_; }
  bool reached() const { return replaced_ && uses_ > 0; }  // a replacement was asked

 private:
  Function ask_;
  bool replaced_ = false;
  mutable std::atomic<long> uses_ = 0;
};

}  // namespace plumb::model

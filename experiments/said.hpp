// experiments/said.hpp: what each rule says of a trial, by what it finds itself, and how far its
// tolerances are from saying otherwise.
//
// TESTED   tests/experiments/said_test.cpp
#pragma once

#include <string>
#include <vector>

#include "experiments/sees.hpp"
#include "experiments/trial.hpp"

namespace plumb::experiments {

// As rows call the rules of a check that is given none.
inline constexpr const char* default_rules = "twins,replay";

// The same of structure alone: replicas that differ, tensors that are missing, numbers that are none.
inline constexpr const char* structure_alone = "structure";

// How a run is judged by the default rules or by one other, each by itself; perturbation by one draw.
// `unseen`: what other rules than the default do not look at, an expression on ids.
std::vector<CheckOptions> ways_of(const std::vector<std::string>& rules,
                                  const std::string& unseen = "");
// The same runs, judged in these ways.
std::vector<Trial> trials_by(const std::vector<std::string>& rules, const Start& start,
                             const Bug& bug, const std::string& unseen = "");

// Structure needs no rule: what a rule adds are its own findings, in dataflow order (those of
// structure alone are structure's). The default
// rules say who is wrong by itself; a rule of sizes can only name the first that differs.
struct Said {
  std::vector<std::string> broken, healthy;  // ids of own findings
  bool structure = false;                    // finds something in the broken run
  bool false_alarm = false;                  // something is found in the healthy run
  std::string blamed;                        // empty: nobody
};
Said said_by(const std::string& rule, const Trial& trial);

// Error / tolerance of one run. A rule whose tolerance is x times as wide finds something if
// `largest` > x, and blames the tensor where a bug bites if `there` > x >= `before`. Infinite: an
// error where none is tolerated, which no factor mends; `finite` leaves these tensors out.
struct Standing {
  double largest = 0, finite = 0;
  double before = 0, there = 0;  // largest before a tensor, and the tensor's
};
Standing standing(const Verdict& verdict, const std::string& id);

// The module of a tensor: "final_norm" of "m0/final_norm.weight/wgrad".
std::string module_of(const std::string& id);

inline std::string yes(bool x) { return x ? "1" : "0"; }

}  // namespace plumb::experiments

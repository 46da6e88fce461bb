// experiments/corpus/plan.hpp: which pairs of runs a corpus has, healthy and buggy, and under which
// numbers its cases stand.
//
// CLAIM    Names of cases and references say nothing of bugs: they are numbers in an order that
//          `draw` draws. Each pair has data and random weights of its own seed, so that cases are
//          independent and rates over them have the intervals that they are given.
// REFUSES  (Failure) an expression that matches no bug, words that are no family; a corpus without a
//          pair. Cards that cannot bite in what is asked for are told in `left_out`.
// TESTED   tests/experiments/corpus_test.cpp
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/experiment.hpp"
#include "experiments/sees.hpp"

namespace plumb::experiments {

struct CorpusAsked {
  std::string bugs;                   // an expression on their ids; empty: all
  std::vector<std::string> families;  // of those that a card has; empty: all
  std::string weights = "random";     // or trained
  std::string recipe;                 // empty: each card's own
  int seeds = 1;                      // pairs of each card and family
  int twins = 0;                      // traces beside each reference
  bool perturbed = false;             // one more, of a perturbed reference
  bool small = false;                 // the small model, in two micro-batches of four sequences
  std::uint64_t draw = 1;             // of the order of cases
};
nlohmann::json json_of(const CorpusAsked& asked);

// One healthy and one buggy run from one start.
struct Pair {
  const Bug* bug = nullptr;
  std::string family;
  std::string recipe = "";
  std::uint64_t seed = 0;                                // of weights and data
  std::string reference = "", healthy = "", buggy = "";  // numbers
};

struct LeftOut {
  std::string bug, family, why;
};

struct CorpusPlan {
  std::vector<Pair> pairs;  // in the order of their references' numbers
  std::vector<LeftOut> left_out;
};

CorpusPlan plan_corpus(const CorpusAsked& asked);

// The sizes of a pair's run.
Config config_of(const CorpusAsked& asked, const Pair& pair);
// Its start; `effort` lends trained weights of larger models, and progress.
Start start_of(const CorpusAsked& asked, const Pair& pair, const Effort& effort);

}  // namespace plumb::experiments

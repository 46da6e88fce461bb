// trace/check.hpp: the verdict: can rounding alone explain how a candidate differs from a
// reference?
//
// It is given two traces (and their promises) and nothing else. Rules:
//   twins          execute the promise K more times in the candidate's layout; the spread of the
//                  twins is the tolerance (one level of false alarms for the whole run);
//                  without a promise twins are traces of the producer's: trace/twin_traces.hpp
//   replay         each operation again from the candidate's own inputs, by its local tolerance;
//                  without a promise those that producers name: trace/partial_promise.hpp
//   perturbation   TTrace: margin times the response of the reference to a perturbed input
//   depth-law      4 1.03^(L+1-l) 2^-7 of the reference's norm, l = 0 (Megatron-LM's constants):
//                  8.29 % at L = 32; here with the model's own depth
//   flat           8.29 % of the reference's norm
//   assert-close   every element within rtol 1.6e-2 |r| + 1e-5 (PyTorch's table for bfloat16)
// Structure is always checked. Default: twins and replay, which see different things: the errors
// that have piled up, and the error of one operation. What twins alone accuse is looked at again by
// six times as many (twins.md V4), unless the producer made them. The last four rules judge tensors
// of more than one element up to the reduced gradients, as twins do; replay alone judges the optimizer.
//
// TESTED   tests/trace/check_test.cpp, tests/experiments/catch_test.cpp
// SOURCES  twins.md V1 to V5; bounds/SOURCES.md [Megatron-LM] [PyTorch-close]
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/accuracy.hpp"
#include "trace/comparable.hpp"
#include "trace/finding.hpp"
#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/replay.hpp"
#include "trace/sees.hpp"
#include "trace/store/spreads_file.hpp"
#include "trace/trace.hpp"
#include "trace/twins.hpp"

namespace plumb::trace {

// The level of false alarms, twins, their seed and stored spreads: TwinOptions.
struct CheckOptions : TwinOptions {
  std::vector<std::string> rules = {"twins", "replay"};
  std::vector<double> other_levels = {};  // of false alarms, to judge the same twins at
  bool second_look = true;                // at what twins alone accuse? COSTS 24 twins (V4)
  double margin = 2;                      // of perturbation
  ReplayOptions replay = {};              // its level is not read: it is false_alarm
  const Trace* perturbed = nullptr;
  const Trace* better = nullptr;    // the same step in more digits: how much do both err?
  std::vector<const Trace*> given;  // twins that the producer made; empty: the promise makes them
  std::string exact;                // ids that are equal where none of the given twins moves them
  Hands hands = {};                 // that read runs; no result depends on them
  bool says_where = true;           // is it looked where in its tensor a finding lies?
  std::string only, skip, allow_unmatched;  // regular expressions on ids; empty: all, none, none
};

// One judged tensor: its worst statistic under the rules that were asked for.
//
// `ratio` ranks, and at most 1 passes. Of replay and the rules of others it is error / tolerance.
// Of twins it is how improbable the statistic is: how far its logarithm lies beyond that of twins,
// over how far it may lie beyond (Tests::standing). An error over its largest allowed size would
// not rank: a share of elements that differ cannot pass 1, so healthy tensors would stand at 0.95.
struct Line {
  std::string id;
  std::string statistic;
  double ratio = 0;
  double relative = 0;           // |candidate - reference| / |reference|, Frobenius
  std::optional<double> p = {};  // of twins: chance that a healthy run shows so much anywhere
  double largest = 0;            // max |candidate - reference|
  double cosine = 1;             // of the angle between both; NaN: there is none
  bool judged = true;            // false: it differs, and only other rules would judge it
  bool by_rounding = false;      // by twins or replay, which know what rounding does

  // Takes on a ratio of a rule, if it is the worst so far.
  void take(const std::string& of, double more, bool of_rounding = true) {
    by_rounding = by_rounding || of_rounding;
    if (!statistic.empty() && more <= ratio) return;
    statistic = of;
    ratio = more;
  }
  // The relative difference as a ratio of signal to noise; infinite or NaN: there is none.
  double decibels() const { return -20 * std::log10(relative); }
};

struct Verdict {
  std::vector<std::string> rules;   // that were asked for
  std::vector<Finding> findings;    // in dataflow order
  std::vector<Finding> undecided;   // one row at a rounding boundary, replay inside its tolerance
  std::set<std::string> unsettled;  // of these: nothing replays it, or what it is made from
  std::vector<NotJudged> not_judged;
  std::size_t unjudged = 0;  // tensors that no rule judged although they differ: given twins do not
  std::size_t unexplained = 0;   // of these: differences that have no known reason
  std::size_t of_optimizer = 0;  // of these: made of gradients that are judged
  std::size_t last_bits = 0;     // of these: single numbers that are a last bit off
  std::pair<std::string, double>
      farthest;                   // of those unexplained: the largest difference, relative
  std::string earliest;           // of those unexplained: the first in dataflow order
  std::vector<Line> lines;        // in dataflow order
  Accuracies accuracies;          // where a better run was given
  std::size_t not_looked_at = 0;  // tensors that --only or --skip leaves out
  std::size_t skipped = 0;        // findings of ranks' files and collectives that --skip leaves out
  std::size_t in_one_only = 0;    // tensors of one run, as --allow-unmatched lets it be
  std::size_t tests = 0;          // of the twins rule
  std::size_t vacuous = 0;        // tensors whose tolerance exceeds half their signal
  // Choices of experts, and those in which the candidate was followed: trace/decisions.hpp.
  std::size_t decisions = 0, forced = 0;
  std::size_t flips = 0;  // rare roundings in which twins followed it: trace/boundaries.hpp
  bool could_fail = false;
  bool beside = false;        // given twins lie beside the reference, so that they excuse nothing
  bool apart = false;         // a given twin stands apart from others, who would find something
  std::string lacks;          // what a producer says that its trace lacks, so that nobody judges it
  bool identical = false;     // one layout and equal bits: as a trace and itself
  bool looked_again = false;  // something stood out by twins alone
  std::vector<std::string> notes;  // what a reader should know of the two traces
  std::string blamed;              // first tensor that is wrong by itself; empty if nothing is
  std::string blamed_by;           // the statistic that says so
  double smallest_scale =
      0;  // median over tensors of the smallest scale error that would be flagged

  // How many lines are of tensors that were judged, or are equal.
  std::size_t judged() const {
    return static_cast<std::size_t>(std::ranges::count(lines, true, &Line::judged));
  }
  // 0 all inside, 1 a finding, 3 nothing that was judged could have failed, nothing settles what one
  // row shows, nothing explains where differences begin, twins lie beside the reference, or one apart, or
  // a trace lacks what was to be judged.
  int exit_code() const {
    if (!findings.empty()) return 1;
    const bool known = could_fail && !identical && !beside && !apart && lacks.empty();
    return known && unsettled.empty() && unexplained == 0 ? 0 : 3;
  }
};

// A run to be held against another. One that promises something is merged; one that promises nothing
// need not be, and is then read tensor by tensor.
struct ToJudge {
  const Trace& trace;
  const Merged* merged = nullptr;
};

// Throws Failure (exit code 2) on traces that cannot be compared, each with what to do: runs of
// another configuration, recipe, step or seed; and a reference that is none (trace/comparable.hpp).
Verdict check(const Trace& reference, const Trace& candidate, const CheckOptions& options);

Verdict check(const ToJudge& reference, const ToJudge& candidate, const CheckOptions& options);

// Compares traces that are merged already.
Verdict check(const Trace& reference, const Merged& merged_reference, const Trace& candidate,
              const Merged& merged_candidate, const CheckOptions& options);

// Compares one candidate of several with a reference that was judged before.
Verdict check(const Reference& reference, const Trace& candidate, const Merged& merged_candidate,
              const CheckOptions& options);

// The same in several ways (one or more). COSTS one comparison of both runs for all of them; so all
// that are given a perturbed reference are given one and the same (else std::invalid_argument).
std::vector<Verdict> check_each(const Reference& reference, const Trace& candidate,
                                const Merged& merged_candidate,
                                const std::vector<CheckOptions>& ways);

// What a verdict rests on, for experiments that ask for more: it at several levels, and the twins
// (of the rule twins) as they were drawn and measured.
struct Judged {
  std::vector<Verdict> verdicts;  // at options.false_alarm, then at each of options.other_levels
  std::optional<Drawn> drawn;
};
Judged judge_runs(const Reference& reference, const Trace& candidate,
                  const Merged& merged_candidate, const CheckOptions& options);

}  // namespace plumb::trace

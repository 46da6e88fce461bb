// trace/twins.hpp: the twin rule: K further executions of the promise in the candidate's layout,
// and what their spread says of the candidate (trace/twins.md).
//
// Judged are the tensors of forward, backward and reduction. The optimizer phase is elementwise:
// given the reduced gradients, replay judges it more sharply than a twin could, and Adam's first
// step would turn harmless sign flips of tiny gradients into large ones (twins.md J2).
//
// TESTED   tests/trace/twins_test.cpp; experiments twin-spread, false-alarms
// SOURCES  twins.md M1, V1, V2, V3, J2
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bounds/multiply.hpp"
#include "trace/boundaries.hpp"
#include "trace/families.hpp"
#include "trace/finding.hpp"
#include "trace/merge.hpp"
#include "trace/sees.hpp"
#include "trace/spreads.hpp"
#include "trace/statistics.hpp"
#include "trace/store/spreads_file.hpp"
#include "trace/together.hpp"

namespace plumb::trace {

// Does this rule judge the node's outputs? Not the optimizer's, no choices (twins make the
// reference's), and no copies in a short format: where the scale of a tensor sits between two
// powers of two, a healthy run may round all of it on the other grid. The tensors that are made of
// such copies are judged.
bool judged_by_twins(const Node& node);

struct TwinOptions {
  double false_alarm = 1e-2;               // of the whole run
  int twins = 4;                           // of a first look
  std::uint64_t seed = 1;                  // of the twins
  const StoredSpreads* spreads = nullptr;  // how twins scatter, from earlier batches; or from these
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  const Multiply* multiply = nullptr;  // how the machine of both runs multiplies, if not by chains
  bool together = false;               // are gradients judged as one vector where none stands out?
  bool around_candidate = false;       // are they its own, and is the reference judged by them?
  bool keeps_twins = false;            // stay their tensors in memory when they are measured?
};

// The class that shares a prior: Measured::group (twins.md N2).
struct Group {
  enum { forward, gradient, weight_matrix, weight_vector };
};

// The statistic of a tensor that stands out most.
struct Worst {
  std::string statistic;
  double ratio = 0;  // Tests::standing; at most 1 passes
  double p = 1;      // chance that a healthy run shows so much, anywhere
};

struct TwinsJudgement {
  std::vector<Finding> findings;     // rejected at the family-wise level, one per tensor
  std::vector<Finding> undecidable;  // differs though no twin does and something is split upstream
  // Findings that vanish without their worst row, or without that of tensors they are made from.
  std::set<std::string> one_row;
  std::map<std::string, Worst> worst;  // per tensor
  std::size_t tests = 0, vacuous = 0;
  std::set<std::string> noisy;  // the vacuous ones
  bool could_fail = false;
  double smallest_scale = 0;  // of a typical tensor; infinite where none shows any
  // Of TwinOptions::together: where no tensor is found, and where many gradients are.
  std::vector<Together> together;
  std::optional<CommonSlope> common_slope;
  // A twin that the others judge to be none, and without which something would be found.
  std::optional<Apart> apart;
};

// One tensor of a reference and of the twins around it.
struct Around {
  Whole reference;
  std::vector<Whole> twins;
};

// The part of a level that the gradients together have: that of one family more (trace/families.hpp),
// whose others are a statistic each, and what few twins show. All other tests have the rest.
inline constexpr double part_of_together = 1.0 / (all_statistics.size() + 2);

// What a candidate is held against: the reference given what of the candidate is followed, and
// twins around it, up to the reduction (trace/boundaries.hpp); and both as numbers.
struct Drawn {
  Merged reference;                          // empty where it is read when it is asked for
  std::optional<std::vector<Values>> twins;  // absent unless they are kept
  std::set<std::string> followed;  // tensors taken from the candidate: for replay to judge
  std::size_t flips = 0;           // numbers in them that had been rounded otherwise
  std::vector<Measured> measured;  // of the tensors that were wanted
  std::map<std::string, Expectation> expected = {};  // of those that this process made, by id
  std::function<Around(const std::string&)> read =
      {};  // where these are read when they are asked for

  // For a second look at one of them.
  Expectation expected_of(const std::string& id) const;
};
// With stored spreads that these twins outgrow, four are drawn; throws Failure if they still do.
Drawn draw_twins(const Graph& reference_graph, const Merged& reference,
                 const Graph& candidate_graph, const Merged& candidate,
                 const std::function<bool(const std::string&)>& wanted, const TwinOptions& options);

// By what a candidate's tensors can be made again, where it has a promise; else nothing.
struct Remake {
  const Graph* graph = nullptr;
  const Values* values = nullptr;  // the candidate's
};
// Twins alone accuse nobody at a first look, which is at so many times the level that was asked for, though
// not above a half. What stands out is looked at again, by so many times as many twins, at a level so many
// times smaller; from 0.01 to 0.1 by less and less, so that who asks for 0.1 is told at about 0.1. What an
// error has to reach is hardly more than at the first look (measured: V4 of twins.md); what four twins took
// for large because they lie close together does not reach it.
inline constexpr double looser = 10;
inline constexpr int more_twins = 6;
inline constexpr double stricter = 10;
double level_of_first_look(double level);
double level_of_second_look(double level);

// Twins, which have to outlive this, and the tests that follow from them at every level.
struct TwinTests {
  explicit TwinTests(const Drawn& twins, const StoredSpreads* spreads = nullptr)
      : drawn(twins), tests(twins.measured, spreads == nullptr ? nullptr : &spreads->learnt) {}
  const Drawn& drawn;
  Tests tests;
};

// The verdict of the twins at options.false_alarm.
TwinsJudgement conclude(const TwinTests& tests, const Run& candidate, const TwinOptions& options,
                        const Remake& remake = {});

// Twins and candidate of one tensor, as numbers. `touched`: is something split upstream of it?
Measured measured_of(const std::string& id, bool touched, const Around& around,
                     const Whole& candidate);

// Makes K twins of the candidate's promise around the reference alone.
std::vector<Values> make_twins(const Graph& reference_graph, const Values& reference,
                               const Graph& candidate_graph, const TwinOptions& options);

}  // namespace plumb::trace

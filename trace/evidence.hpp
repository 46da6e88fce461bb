// trace/evidence.hpp: what a check sees of two runs, whatever level of false alarms it is asked for:
// what does not fit, what each rule says of each tensor, and the twins that were drawn.
//
// COSTS    what the rules cost that are asked for (trace/check.hpp)
// TESTED   tests/trace/check_test.cpp
// SOURCES  twins.md V1 to V5
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/check.hpp"
#include "trace/order.hpp"
#include "trace/pairs.hpp"
#include "trace/partial_promise.hpp"
#include "trace/rules.hpp"
#include "trace/selection.hpp"
#include "trace/settle.hpp"
#include "trace/twin_traces.hpp"

namespace plumb::trace {

// Two runs, read once for all ways in which they are judged.
struct Both {
  // Throws std::invalid_argument if ways have different perturbed references.
  Both(const ToJudge& reference, const ToJudge& candidate, const std::vector<CheckOptions>& ways);

  Run r, c;
  Pairs pairs;
};

class Evidence {
 public:
  // `given_choices`: is the reference's record changed by the candidate's choices? All that is given
  // has to outlive this. Throws Failure on what cannot be judged as it is asked for.
  Evidence(const ToJudge& of_reference, const ToJudge& of_candidate, const Both& both,
           bool given_choices, const CheckOptions& asked);
  Evidence(const Evidence&) = delete;  // what replays knows where this is

  bool asks(const std::string& rule) const { return asks_for(options, rule); }
  // Only tensors that exist on both sides in one shape can be judged by size.
  bool judgeable(const std::string& id) const;
  // So many twins of the promise.
  Drawn draw(int twins) const;
  // Replays these, whatever the rules.
  void replay_each(const std::set<std::string>& taken);
  bool looks_at_all() const { return select_.all(); }
  // Who makes which tensor of the candidate, as its promise or the producers say.
  Accounts::NodeOf node_of() const;

  const CheckOptions& options;
  const Trace &reference, &candidate;
  const Merged *merged_reference, *merged_candidate;  // of what promises something
  const Run &r, &c;
  const Run* by_twins =
      &c;  // is judged by them: the reference, where they lie around the candidate
  const Pairs& pairs;
  DataflowOrder order;
  bool ordered = false;                      // does anybody know the order of dataflow?
  Verdict so_far;                            // without what twins say
  std::map<std::string, Line> lines;         // by id
  std::map<std::string, Unjudged> unjudged;  // by given twins, or by what producers say
  std::set<std::string> asserted;            // of given twins
  std::optional<Drawn> drawn;                // of the rule twins
  std::optional<PartialPromise> told;        // where nothing is promised
  Replays replays{nullptr};

 private:
  void gather();
  bool equal_bits() const;
  bool looks_at(const Finding& f) const;
  void tell(Finding f);
  std::set<std::string> of_unknown_order() const;
  void say_how_twins_multiply();
  void look_at_structure();
  void say_which_shapes_differ();
  void say_which_updates_are_lacking();
  void hold_against_the_better();
  bool has_a_size(const std::string& id) const;
  void apply(const std::string& rule);
  bool has_statistics(const std::string& id) const;
  void apply_twins();
  void apply_given_twins();
  void doubt_twins_that_lie_beside();
  bool left_to_replay(const std::string& id) const;
  // Each: was anything judged?
  bool apply_to_messages();
  bool apply_to_losses();
  bool apply_to_clips();
  void apply_replay();
  void say_what_was_told(const Replayed& seen);
  void doubt_updates_that_nobody_replayed();
  void replay_what_was_followed();
  ReplayOptions by_card() const;

  const bool given_choices_;
  std::function<bool(const std::string&)> far_beyond_;  // of given twins
  std::optional<Merged> as_machine_;  // the reference, made again as options.multiply does
  Selection select_;
  std::set<std::string> crosswise_;   // of dimensions that are not the reference's, joined or cut
  std::set<std::string> not_finite_;  // findings of structure: no statistic holds them
};

}  // namespace plumb::trace

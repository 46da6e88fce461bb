// trace/twin_traces.hpp: twins that the producer of the runs made itself, given as traces.
//
// Without a promise nobody knows where sums are split: that twins move there, and only there, is the
// producer's claim. What no twin moves has no tolerance. It need not be equal either: a sum that the
// producer did not know may be split upstream. So such a tensor, where the candidate differs, is not
// judged, and neither is what may have been made from it; unless the user says that nothing there is
// split (`exact`), which makes the difference a finding (twins.md G1).
//
// Twins may be further runs of the candidate instead, which rounded otherwise what its ranks add: they
// say so ("twin of": "the candidate"). They lie around the candidate, and the reference is judged by
// them (twins.md G3): then the two have changed places here.
//
// REFUSES  twins of another run, step, shape or format; that lack a tensor, are not whole, or start
//          from other values; that have the bits of each other, of the reference or the candidate
// COSTS    reads each twin four times, and the reference as often for each; memory of the energies
//          of rows and columns of each twin of one tensor, for each thread
// TESTED   tests/trace/twin_traces_test.cpp
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "trace/hands.hpp"
#include "trace/order.hpp"
#include "trace/pairs.hpp"
#include "trace/sees.hpp"
#include "trace/selection.hpp"
#include "trace/trace.hpp"
#include "trace/twins.hpp"

namespace plumb::trace {

// A tensor that differs, and that no rule judges.
struct Unjudged {
  enum class Kind {
    unexplained,   // for no known reason
    made_of_such,  // may be made from a tensor that is not judged
    of_optimizer,  // made of gradients that are judged
    last_bit       // of a single number
  };
  std::string id, why;
  Kind kind;
};

struct GivenTwins {
  Drawn drawn;
  std::vector<Unjudged> unjudged;
  std::set<std::string> asserted;  // no twin moves them, and the user says that they are equal
  // Of what an optimizer made: is it farther off than twins explain? Reads that tensor of each twin.
  std::function<bool(const std::string&)> far_beyond;
};

// Does it say that it is a run of the candidate?
bool is_of_candidate(const Trace& twin);
// Do they? Throws Failure where only some do.
bool are_of_candidate(const std::vector<const Trace*>& twins);

// Throws Failure, with the twin by number, on anything that is no twin of `reference`. `about`: what is said of
// tensors; the word of the run that is trusted, also where twins are the other's.
GivenTwins given_twins(const Trace& reference, const Run& of_reference, const Abouts& about,
                       const Run& candidate, const Pairs& pairs,
                       const std::vector<const Trace*>& twins, const Pattern& exact,
                       const std::function<bool(const std::string&)>& wanted, const Hands& hands);

}  // namespace plumb::trace

// trace/twin_refusals.hpp: traces that are no twins of a run are refused by name, with what to do about it.
//
// REFUSES  twins that lack a tensor, are not whole, hold one in another shape or format, or start from other
//          values; that have the bits of each other, of the reference or the candidate
// COSTS    reads again what twins and candidate both have otherwise than the reference, and no more
// TESTED   tests/trace/twin_traces_test.cpp
#pragma once

#include <set>
#include <string>

#include "trace/pairs.hpp"
#include "trace/sees.hpp"
#include "trace/twins_read.hpp"

namespace plumb::trace {

// A twin has to go on from the reference's own state, as whole as that is, with every tensor that is judged (`ids`).
// Throws Failure.
void refuse_another(std::size_t k, const TwinsRead& twins, const Run& reference,
                    const Abouts& about, const std::set<std::string>& ids);

// Twins that are copies of each other do not scatter, and a candidate beside its own copy does not differ. Throws
// Failure. `of_candidate`: twins are the candidate's, and the two have changed places.
void refuse_copies(const TwinsRead& twins, const Run& candidate, const Pairs& pairs,
                   const std::set<std::string>& ids, bool of_candidate);

}  // namespace plumb::trace

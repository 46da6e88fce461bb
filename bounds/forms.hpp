// bounds/forms.hpp: the tolerance of a call whose formula is known, or is one of several.
//
// Kernels take other formulas for the same mathematics: gelu by a sigmoid or by a tanh, a layer
// norm in one pass or two. A card's fact "form_OPERATION" names the one that is taken. Where it is
// silent the bound covers all of Operation::forms: of each element the largest. (A kernel takes one
// of them; so a probability is not shared out.)
//
// TESTED   tests/bounds/forms_test.cpp
#pragma once

#include <string>
#include <vector>

#include "bounds/machine.hpp"
#include "bounds/operation.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// The formulas that a machine may take; those that others cover are left out. In moments only one
// can be taken: the promised one, unless the card knows better. Throws Failure if the card names none
// of them.
std::vector<std::size_t> forms_on(const Machine& machine, const Operation& operation, Mode mode);

// "the formula tanh", "any of the formulas sigmoid, tanh"; nothing for an operation with one.
std::string assumed_forms(const Machine& machine, const Operation& operation, Mode mode);

// The largest bound of each element under these formulas. Its terms are those of the formula with
// the largest bound. COSTS as many tolerances as formulas.
Outcome<Tolerance> tolerance_of_forms(const Operation& operation, const ToleranceCall& call,
                                      const std::vector<std::size_t>& forms);

}  // namespace plumb::bounds

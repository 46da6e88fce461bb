// probe/calibrate.hpp: a machine card of a subject's products, from what they return.
//
//   1  Is the same product the same again, and does an element keep its bits in another shape?
//   2  Trees of sums of many lengths (masked.hpp), in one shape.
//   3  Orders, or steps of a matrix unit, that explain the trees (orders.hpp).
//   4  Arithmetics that make the bits of other shapes and lengths (emulation.hpp).
//   5  Functions, sums outside of products, a softmax, casts, as far as it has any (functions.hpp,
//      sums.hpp, softmax.hpp, casts.hpp); infinities and NaN (special.hpp).
//   6  Tolerances of the card, held against products, sums and softmaxes that no probe has used
//      (validate).
//
//   A fact goes into the card if results tell it; the others are named in `unknown`, each with a
//   reason. What no card can say, and no bound needs, is `observed`. Bounds of a card with few facts
//   are wide or refused; they are not guesses.
//
// TESTED   tests/probe/calibrate_test.cpp: devices that are not there, whose facts are hidden
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bounds/machine.hpp"
#include "probe/emulation.hpp"
#include "probe/orders.hpp"
#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

struct CalibrateOptions {
  std::size_t longest = 1024;       // products of a sum
  std::size_t widest = 192;         // rows and columns of the largest product; emulated devices: 24
  std::size_t arguments = 1 << 18;  // of a function, by chance
  unsigned seed = 1;
  std::string source = "plumb calibrate";  // what facts give as theirs
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

struct Unknown {
  std::string fact, why;
};

// Measured, and no fact of a card.
struct Observed {
  std::string what, as;
};

// What tolerances of the card are worth on tables of an operation that no probe has used.
struct HeldTables {
  std::string operation = {};
  std::size_t elements = 0, outside = 0;
  double worst = 0;                  // error over bound
  std::optional<double> equal = {};  // share with the bits (softmax: meetings) of the card's order
  std::string refused = {};          // why there is no bound
};

// What the tolerances of the card are worth on products that no probe has used.
struct Validation {
  std::size_t elements = 0, outside = 0;  // of the deterministic bound
  double worst = 0;                       // error over bound
  double moments = 0;  // RMS of (error - bias) / deviation, of plain data; 0: refused
  std::size_t arguments = 0, function_errors = 0;  // of functions; those beyond the card's ulps
  double equal = 0;                     // share with the bits of the emulation; 0: there is none
  std::string refused;                  // why there is no bound
  std::vector<HeldTables> tables = {};  // column_sum, softmax, if the subject has them

  bool holds() const;  // is nothing outside of a bound?
};

struct Calibration {
  Machine card;
  std::vector<Unknown> unknown;
  std::vector<Observed> observed;
  Trees trees;
  std::vector<Emulated> emulations;  // all that are left; none: nothing makes the bits
  bool repeats = true, slice_invariant = true;
  Validation validation;
};

Calibration calibrate(const Subject& subject, const CalibrateOptions& options = {});

// Are the functions of the subject within the ulps of the card, at arguments of another seed?
void validate_functions(const Subject& subject, const Machine& card, std::size_t arguments,
                        unsigned seed, Validation& result);

// Adds to what is held what was found, its value and the bound of each element.
void hold_elements(const Tensor& found, const Matrix<double>& value, const Matrix<double>& bound,
                   HeldTables& held);

// The same of the sums and the softmax of the subject, as far as there are any.
void validate_tables(const Subject& subject, const Machine& card, std::size_t longest,
                     unsigned seed, Validation& result);

// Products of up to `longest` terms; one of `widest` rows and columns, the others of up to 24.
Validation validate(const Subject& subject, const Machine& card,
                    const std::vector<Emulated>& emulations, std::size_t longest,
                    std::size_t widest, unsigned seed);

}  // namespace plumb::probe

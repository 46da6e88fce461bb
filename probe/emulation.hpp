// probe/emulation.hpp: which arithmetic, if any, makes a subject's products bit by bit.
//
//   Every way that is described (order and rounding of FP32 sums, products within a sum rounded once
//   or twice, subnormals kept or flushed; or the terms, grid and kept bits of a matrix unit) is made
//   here on drawn operands, and leaves the list where one bit differs. A fact is known where all
//   that are left agree on it. So a fact is wrong only if something that is not described gives the
//   same bits on all draws.
//
// COSTS    a product of each candidate on a few hundred elements; most fall at the first one
// TESTED   tests/probe/calibrate_test.cpp
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "bounds/machine.hpp"
#include "probe/orders.hpp"
#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

// Operands that tell arithmetics apart, and the products that the subject makes of them.
struct Sample {
  Operands operands;
  Tensor found;
  std::string_view kind;  // of bounds/examples/draw.hpp
};
// Which: shapes up to `largest` x `terms` x `largest`. `tiny`: about FP32's smallest normal number;
// else away from it.
struct Samples {
  std::size_t largest = 24, terms = 64;
  unsigned seed = 1;
  bool tiny = false;
  std::size_t wide = 0;  // not 0: the first is of `wide` rows and columns
};
std::vector<Sample> samples_of(const Subject& subject, const Samples& which);

// A zero has no sign here, and a NaN no code.
bool same_numbers(const Tensor& x, const Tensor& y);
// The operands without half of A's first rows and half of B's first columns.
Operands without_first(const Operands& whole);

// Those of the candidates that make every bit of the samples.
std::vector<Emulated> left_of(const std::vector<Emulated>& candidates,
                              const std::vector<Sample>& samples);

// The roundings for which each element is one that some candidate makes: where kernels differ from
// shape to shape, this still tells how they round.
std::vector<Rounding> roundings_left(const std::vector<Emulated>& candidates,
                                     const std::vector<Sample>& samples);

// FP32 sums in one of these orders, with each rounding but the stochastic one; subnormals are kept.
std::vector<Emulated> candidates_in(const std::vector<Order>& orders);
// Steps of a matrix unit with each grid and each number of kept bits.
std::vector<Emulated> candidates_in(const Steps& steps, const Format& input);

// What a card says of products, if it is enough to make their bits.
std::optional<Emulated> emulated_by(const Machine& card, const Format& input);

// The share of elements that have the emulation's bits, of sums as long as its order is known.
double share_equal(const Emulated& device, const std::vector<Sample>& samples);

}  // namespace plumb::probe

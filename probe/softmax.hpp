// probe/softmax.hpp: the order in which a softmax adds its exponentials, from its results alone.
//
//   Exponentials are positive: no two of them cancel, and masks (masked.hpp) do not work. Instead of
//   three numbers of a row one is 0, whose exponential is 1, and two are t; all others are so low that
//   theirs are zero. e^t vanishes beside 1, and twice e^t does not. So the sum is above 1, and the
//   result at the 0 below that of a 0 alone, just where the two meet before either meets the 1.
//
//   Trees of up to 64 terms come from all such questions about where two terms meet. Of longer ones
//   the tree that an order has is held against one question for each partial sum: of two terms that
//   it adds and one of its neighbour. No other binary tree gives the same answers to these.
//   (Joining the pairs of the questions leaves two parts of the root, and so on below, as Aho's
//   algorithm finds them.) Rows by themselves, of other lengths, have to answer so, too.
//
//   Which t works tells whether sums are rounded to nearest (-17) or toward zero (-16.2); where they
//   are rounded otherwise, or in more bits than FP32's, none does.
//
// ASSUMES  that the order depends on shapes alone; holds for a softmax that is taken online, too
// TESTED   tests/probe/softmax_test.cpp
// SOURCES  bounds/SOURCES.md [Xie25]
#pragma once

#include "probe/sees.hpp"
#include "probe/sums.hpp"

namespace plumb::probe {

SumsFound order_of_softmax(const Subject& subject, const CalibrateOptions& options);

// Of drawn triples in rows of drawn lengths, each row by itself: the share that the softmax answers as
// the order does. Where its results do not tell, or it rounds otherwise: 0.
double share_of_meetings(const Tables& softmax, const Order& order, unsigned seed);

}  // namespace plumb::probe

// probe/sums.hpp: the order of sums outside of products: of columns, and of rows.
//
//   Masked sums give the tree of each length (masked.hpp), in tables of `tile` sums. The orders that
//   explain the trees are made bit by bit on drawn tables of other widths; what differs in one bit is
//   out. `column_sum` becomes the fact order_column_sum; a row's sum is no operation of a card, and
//   is observed.
//
// TESTED   tests/probe/sums_test.cpp
#pragma once

#include <optional>
#include <string>

#include "probe/findings.hpp"
#include "probe/orders.hpp"
#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

// What results tell of one kind of sums. Without an order: why.
struct SumsFound {
  bool offered = false;
  Trees trees = {};
  std::optional<Order> order = {};  // with the rounding that makes the bits, and `up_to`
  std::string how = {}, why = {};
};
// `name`: column_sum or row_sum.
SumsFound order_of_sums(const Subject& subject, const std::string& name,
                        const CalibrateOptions& options);

// The share of drawn column sums that have the bits of the order.
double share_of_sums(const Subject& subject, const Order& order, unsigned seed);

// Both of them, and the softmax (softmax.hpp): facts, what is not known, what is observed.
void find_sums(const Subject& subject, const CalibrateOptions& options, Findings& findings);

}  // namespace plumb::probe

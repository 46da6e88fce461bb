// probe/devices.hpp: devices that are not there, drawn at random, whose facts the probes do not see.
//
//   Sums of FP32 in each order of number/order.hpp with each rounding, products rounded within a sum
//   or not, subnormals kept or flushed; matrix units of 2 to 32 terms with any grid and any number of
//   kept bits, promoted or not, or in parts that FP32 adds. Sums of columns and of a softmax have an
//   order of their own, and now and then a rounding.
//
// TESTED   tests/probe/calibrate_test.cpp
#pragma once

#include <string>
#include <vector>

#include "probe/calibrate.hpp"
#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

struct HiddenDevice {
  Emulated device;
  Format input;
  Emulated column_sum = {}, softmax = {};  // as they take their sums

  // "lanes 8 strided, toward_zero, fused, subnormals kept; columns sequential toward_zero; softmax ...",
  // "terms 16 grid 25 kept 23".
  std::string text() const;
};
HiddenDevice drawn_device(unsigned seed);
// Products alone, and with the sums and the softmax.
Subject products_of(const HiddenDevice& hidden);
Subject all_of(const HiddenDevice& hidden);

// What a calibration said of a fact of the device. A card that says less than is there is not wrong.
struct Recovered {
  std::string fact, hidden, found;  // found: empty where the card is silent, or says any
  bool wrong = false;
};
std::vector<Recovered> held_against(const HiddenDevice& hidden, const Calibration& found);
// The same of sums outside of products, which a card knows where FP32 adds: their orders, and that
// they are rounded as the card says.
std::vector<Recovered> sums_held_against(const HiddenDevice& hidden, const Calibration& found);

// Copies of a card, each with one of its facts about products changed.
struct ChangedCard {
  std::string fact;
  Machine card;
};
std::vector<ChangedCard> with_one_fact_changed(const Machine& card);

// Does validation see that the card is not the subject's: bits or bounds?
bool is_noticed(const Subject& subject, const Machine& card, std::size_t longest, unsigned seed);

}  // namespace plumb::probe

// probe/devices.hpp: devices that are not there, drawn at random, whose facts the probes do not see.
//
//   Sums of FP32 in each order of number/order.hpp with each rounding, products rounded within a sum
//   or not, subnormals kept or flushed; matrix units of 2 to 32 terms with any grid and any number of
//   kept bits, promoted or not, or in parts that FP32 adds.
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

  // "lanes 8 strided, toward_zero, fused, subnormals kept", "terms 16 grid 25 kept 23".
  std::string text() const;
};
HiddenDevice drawn_device(unsigned seed);

// What a calibration said of a fact of the device. A card that says less than is there is not wrong.
struct Recovered {
  std::string fact, hidden, found;  // found: empty where the card is silent, or says any
  bool wrong = false;
};
std::vector<Recovered> held_against(const HiddenDevice& hidden, const Calibration& found);

// Copies of a card, each with one of its facts about products changed.
struct ChangedCard {
  std::string fact;
  Machine card;
};
std::vector<ChangedCard> with_one_fact_changed(const Machine& card);

// Does validation see that the card is not the subject's: bits or bounds?
bool is_noticed(const Subject& subject, const Machine& card, std::size_t longest, unsigned seed);

}  // namespace plumb::probe

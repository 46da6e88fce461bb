// probe/findings.hpp: where probes put what they find: facts of the card with their source, what is
// not known and why, and what was observed besides.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "probe/calibrate.hpp"
#include "probe/sees.hpp"

namespace plumb::probe {

class Findings {
 public:
  Findings(Calibration& found, std::string source) : found_(found), source_(std::move(source)) {}

  void fact(std::string name, std::string value, const std::string& how) {
    found_.card.facts.push_back({std::move(name), std::move(value), Provenance::measured,
                                 fmt::format("{}: {}", source_, how)});
  }
  void unknown(std::string name, std::string why) {
    found_.unknown.push_back({std::move(name), std::move(why)});
  }
  void observed(std::string what, std::string as) {
    found_.observed.push_back({std::move(what), std::move(as)});
  }
  // Does the card say that FP32 adds, and rounds so?
  bool adds_in_fp32(Rounding how) const {
    const Fact* accumulator = found_.card.fact("accumulator");
    const Fact* rounding = found_.card.fact("rounding");
    return accumulator != nullptr && accumulator->value == "fp32" && rounding != nullptr &&
           rounding->value == name_of(how);
  }

 private:
  Calibration& found_;
  std::string source_;
};

}  // namespace plumb::probe

// trace/finding.hpp: one thing that is wrong with a run, or that could not be judged.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "trace/profile.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// The ratio of what no tolerance allows.
inline constexpr double infinite = std::numeric_limits<double>::infinity();

// One thing that is wrong, in words and, where there are any, in numbers.
struct Finding {
  std::string id;  // canonical id of the tensor
  std::string
      statistic;     // structure, norm, row, element, mismatch, scale, replay, or a rule's name
  double ratio = 0;  // above 1 is a finding (infinite where no size applies): trace/check.hpp
  std::string detail = {};  // one sentence with coordinates and numbers
  struct At {
    std::size_t row, column;
  };
  std::optional<At> at = {};                        // the worst element
  std::optional<double> value = {}, expected = {};  // what the run has there, what it should have
  std::optional<double> tolerance = {};             // how far the one may be from the other
  std::string term = {};                            // of replay: the largest term of that tolerance
  std::string looks_like = {};   // of replay: the mistake that leaves such numbers
  Profile profile = {};          // where in the tensor it is wrong
  std::optional<double> p = {};  // of twins: chance of so much in a healthy run
  std::optional<int> rank = {};  // the one that a finding of structure speaks of
  bool may_follow = false;  // of structure: what is wrong upstream may cause it (another shape)
};

// A tensor, or a message, that could not be judged.
struct NotJudged {
  std::string id, why;
  std::string text() const { return id + ": " + why; }
  bool operator==(const NotJudged&) const = default;
};

// Is it of a rank's file, which is not there or one too many? Its id is the file's name.
bool is_of_file(const Finding& finding);

// Replay and structure say who is wrong by itself; the other statistics only who differs.
bool is_wrong_by_itself(const Finding& finding);

// The rule that a statistic belongs to: "norm" is one of twins.
std::string rule_of(const std::string& statistic);

// Is it a size that twins show less often? Twins that are equal bit by bit allow none, so more of them
// say the same.
bool is_by_size_of_twins(const Finding& finding);

// Who was first, of one finding or more in dataflow order: the first that is wrong by itself; else the first that is
// no chance, which a size of twins is from `sure` on; else the first of all (twins.md V5).
const Finding& to_blame(std::span<const Finding> findings, double sure);

}  // namespace plumb::trace

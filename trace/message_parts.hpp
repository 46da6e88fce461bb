// trace/message_parts.hpp: one piece that came out of a collective, held against the pieces that it is
// made of.
//
// COSTS    one read of each piece; memory of a few thousand numbers of each
// TESTED   tests/trace/messages_test.cpp
// SOURCES  twins.md J4
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "trace/finding.hpp"
#include "trace/sees.hpp"
#include "trace/store/messages_file.hpp"

namespace plumb::trace {

// A piece of a tensor of a message.
struct Part {
  const Message* of;
  const StoredTensor* tensor;
  std::size_t first, size;
  int rank;  // whose it is

  void read(std::size_t at, std::span<double> into) const {
    of->file->read(*tensor, first + at, into, true);
  }
  // Whole numbers, as they are.
  void read(std::size_t at, std::span<std::uint64_t> into) const {
    of->file->read_whole(*tensor, first + at, into);
  }
};
// Piece number `piece` of what a rank gave, or of what it got.
Part part(const Message& message, int rank, bool is_given, std::size_t piece);

// What came out, and all that it is made of, of one size: one piece that was moved, or the terms of a
// sum. `own`: which of them is of the rank that got it, if any is.
struct Made {
  Part out;
  std::vector<Part> from;
  std::size_t own = 0;
};

struct PartJudged {
  double ratio = 0;                // worst error over tolerance; 0 where each number is exact
  std::optional<Finding> finding;  // without an id
};
PartJudged judge_part(const Made& made);

}  // namespace plumb::trace

// trace/joint.hpp: one tensor, put together from the shards that ranks hold of it, a stretch at a
// time.
//
// Where several shards hold an element the first one's value counts, and the others are held
// against it; where none does, it is zero and a finding. Summands are put together each by itself,
// and added in FP32 in their order; a sum in BF16 or FP16 is a number of that format, as ranks have it.
//
// COSTS    memory of where pieces begin and end, none of their numbers
// TESTED   tests/trace/merge_test.cpp, tests/trace/whole_test.cpp
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trace/sees.hpp"
#include "trace/trace.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {

// A shard and the rank that holds it.
struct OfRank {
  std::size_t rank;
  const Shard* shard;
};

// Who holds which elements of a tensor, or of one summand of it.
class Cover {
 public:
  Cover(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols) {}
  // Adds the pieces of a shard; `number`: its place among all shards of the tensor.
  void add(std::size_t number, const Shard& shard);
  // To be called once, behind the last. Returns false if pieces overlap in too many ways.
  bool arrange();

  const float* at(std::size_t first, std::size_t n, float* room) const;
  void lie(std::size_t first, std::size_t n, std::vector<Lying>& runs) const;
  std::vector<Columns> by_columns(std::size_t row, std::size_t rows) const;
  // Do all numbers lie somewhere, as those that are compared where they lie?
  bool lies_bare() const { return bare_ && !hole_; }
  void hold_together(std::size_t first, std::size_t n, Disagreements& seen) const;
  // The place in the whole of the first element that nobody holds.
  const std::optional<std::size_t>& first_hole() const { return hole_; }
  const std::vector<std::size_t>& shards() const { return numbers_; }

 private:
  struct Told {
    const Shard* shard;
    std::size_t number, piece;
    Piece lies;
  };
  struct Holder {  // of the elements of one segment
    const Shard* shard;
    std::size_t number, piece;
    std::size_t place;  // in the shard, of the first of them
  };
  struct Segment {  // columns that the same shards hold
    std::size_t col, end, first_holder, holders;
  };
  struct Band {  // rows that are held alike
    std::size_t row, end, first_segment, segments;
    bool in_a_row;  // all of them, in each shard that holds them
  };
  template <class F>
  void by_segments(std::size_t first, std::size_t n, const F& f) const;
  void arrange_band(std::size_t row, std::size_t end, std::vector<const Told*>& told);
  bool is_in_a_row(const Band& band) const;
  void note_hole(std::size_t row, std::size_t col);

  std::size_t rows_, cols_;
  std::vector<Told> told_;
  std::vector<Band> bands_;
  std::vector<Segment> segments_;
  std::vector<Holder> holders_;
  std::vector<std::size_t> numbers_;
  std::optional<std::size_t> hole_;
  bool bare_ = true;
};

class Joint : public Elements {
 public:
  // `ranks`: of the run. `rounds`: are sums rounded to their format? Tiles of a sketch are not.
  Joint(std::string id, std::vector<OfRank> shards, std::size_t ranks, bool rounds = true);

  // Is there a tensor, whatever is wrong with it?
  bool whole() const { return !covers_.empty(); }
  std::size_t rows() const { return first().rows; }
  std::size_t cols() const { return first().cols; }
  const Format& format() const { return shards_.front().shard->format; }

  const float* at(std::size_t first, std::size_t n, float* room) const override;
  void lie(std::size_t first, std::size_t n, float* room, std::vector<Lying>& runs) const override;
  std::vector<Columns> by_columns(std::size_t row, std::size_t rows) const override;
  void hold_together(std::size_t first, std::size_t n, Disagreements& seen) const override;
  std::vector<Finding> findings(const Disagreements& seen) const override;

 private:
  const Placement& first() const { return shards_.front().shard->placement; }
  Finding found(std::string detail) const;
  // Do all numbers lie somewhere, and is none a sum?
  bool lies_bare() const { return first().parts <= 1 && covers_.front().lies_bare(); }
  bool shapes_fit();
  bool enough();
  void cover();

  std::string id_;
  std::vector<OfRank> shards_;
  std::size_t ranks_;
  bool rounds_;
  std::vector<Cover> covers_;  // by summand; one unless it is a sum
  std::vector<Finding> before_, behind_;
};

}  // namespace plumb::trace

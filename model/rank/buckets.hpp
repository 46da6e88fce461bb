// model/rank/buckets.hpp: sums a rank's gradients over the ranks that hold copies, while backward
// goes on.
//
// Complete gradients are put into buckets in the order of backward; a full bucket is sent. It is
// copied to one of two outboxes, in turn, from which it leaves; the sums are written where the
// gradients were. Elements are summed in rank order, so buckets change no bits. Without overlap the
// world sums each gradient as it is complete. A layout that is `padded` begins each gradient of a
// bucket at a multiple of Layout::alignment.
//
// TESTED   tests/model/overlap_test.cpp, tests/model/padding_test.cpp,
//          tests/experiments/races_test.cpp
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "model/rank/context.hpp"
#include "model/sees.hpp"

namespace plumb::model {

class Buckets {
 public:
  Buckets(RankContext& rank, std::map<std::string, Tensor>& gradients)
      : rank_(rank), gradients_(gradients) {}

  // A gradient that no micro-batch will add to.
  void put(const std::string& gradient);
  // Sends the last bucket.
  void close();
  // Returns the sum, once; waits for it.
  Tensor take(const std::string& gradient);

 private:
  using Events = std::array<Event, pieces>;
  struct Outbox {
    std::vector<float> values;
    std::size_t size = 0;  // elements in it
    std::string first;     // the first gradient in it
    Events left;           // one for each piece that has left
  };
  // The event after which the first n of `size` elements have travelled.
  static const Event& when(const Events& pieces_have, std::size_t n, std::size_t size);
  // The elements of a bucket that a gradient takes, with its padding.
  std::size_t room_of(const std::string& gradient) const;
  // Waits until the outbox has been sent, and fills it.
  void fill(Outbox& box);
  void set_out(Outbox& box, Communicator& copies);

  RankContext& rank_;
  std::map<std::string, Tensor>& gradients_;  // accumulated; the sums land in them
  std::vector<std::string> open_;
  std::size_t size_ = 0;  // of the open bucket, in elements
  std::size_t sent_ = 0;
  std::array<Outbox, 2> outboxes_;
  std::map<std::string, Event> landed_;
};

}  // namespace plumb::model

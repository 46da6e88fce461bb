#include "model/rank/buckets.hpp"

#include "kernels/ops.hpp"
#include "model/joints/gradients.hpp"
#include "model/joints/layout.hpp"
namespace plumb::model {
namespace {

constexpr std::size_t bucket_size = 4096;  // elements; a larger gradient has a bucket of its own

// Where a sum lands: the elements of a bucket from `begin` on.
struct Landing {
  Tensor* gradient;
  std::size_t begin;
};

// A bucket under way.
struct Sum {
  Communicator& copies;
  const std::vector<float>& outbox;
  std::size_t size;
  std::vector<Landing> to;
  Format wire;
  std::array<Tensor, pieces> own;  // pieces, as they left

  void leave(std::size_t i) {
    const auto [first, last] = slice(size, pieces, static_cast<int>(i));
    own[i] = Tensor(1, last - first);
    std::copy_n(outbox.begin() + static_cast<std::ptrdiff_t>(first), last - first,
                own[i].values.begin());
    round_to_format(own[i].values, wire);
    for (int r = 0; r < copies.size(); ++r) {
      if (r != copies.rank()) copies.send(r, 0, own[i]);
    }
  }

  void land(std::size_t i) {
    Tensor total;
    for (int r = 0; r < copies.size(); ++r) {
      Tensor theirs = r == copies.rank() ? own[i] : copies.receive(r, 0);
      if (r == 0) {
        total = std::move(theirs);
      } else {
        add_to(total, theirs);
        round_to_format(total.values, wire);
      }
    }
    const Slice piece = slice(size, pieces, static_cast<int>(i));
    for (const auto& [gradient, begin] : to) {
      const std::size_t first = std::max(piece.first, begin);
      const std::size_t last = std::min(piece.last, begin + gradient->size());
      for (std::size_t e = first; e < last; ++e) {
        gradient->values[e - begin] = total.values[e - piece.first];
      }
    }
  }
};

void scale(std::span<float> values, float by) {
  for (float& x : values) x *= by;
}

}  // namespace

void Buckets::put(const std::string& gradient) {
  auto& values = gradients_.at(gradient).values;
  const auto predivide = static_cast<float>(rank_.l.predivide);
  const float divisor = rank_.joints.gradients.divisor(rank_.at(gradient), predivide);
  if (divisor != 1) scale(values, 1 / divisor);
  const std::size_t n = room_of(gradient);
  if (!rank_.joints.gradients.sums_over_batches(rank_.at(gradient))) {
    landed_[gradient] = {};
    return;
  }
  if (!rank_.streams.on()) {  // the world's own sum
    rank_.copies_of(gradient).sum(values, rank_.joints.gradients.wire(rank_.at(gradient), fp32));
    landed_[gradient] = {};
    return;
  }
  const bool other =
      !open_.empty() && &rank_.copies_of(open_.front()) != &rank_.copies_of(gradient);
  if (other || size_ + n > bucket_size) close();
  open_.push_back(gradient);
  size_ += n;
  if (size_ >= bucket_size) close();
}

std::size_t Buckets::room_of(const std::string& gradient) const {
  const std::size_t n = gradients_.at(gradient).size();
  if (!rank_.l.padded) return n;
  return (n + Layout::alignment - 1) / Layout::alignment * Layout::alignment;
}

void Buckets::close() {
  if (open_.empty()) return;
  Communicator& copies = rank_.copies_of(open_.front());
  if (copies.size() > 1) {
    Outbox& box = outboxes_[sent_++ % outboxes_.size()];
    fill(box);
    set_out(box, copies);
  } else {
    for (const std::string& gradient : open_) landed_[gradient] = {};
  }
  open_.clear();
  size_ = 0;
}

const Event& Buckets::when(const Events& pieces_have, std::size_t n, std::size_t size) {
  std::size_t i = 0;
  while (slice(size, pieces, static_cast<int>(i)).last < n) ++i;
  return pieces_have[i];
}

void Buckets::fill(Outbox& box) {
  if (box.size > 0) {
    rank_.wait(when(box.left, std::min(size_, box.size), box.size), Wait::bucket_left, box.first);
  }
  box.size = size_;
  box.first = open_.front();
  box.values.resize(std::max(box.values.size(), size_));
  auto next = box.values.begin();
  for (const std::string& gradient : open_) {
    std::ranges::copy(gradients_.at(gradient).values, next);
    next += static_cast<std::ptrdiff_t>(room_of(gradient));
  }
}

void Buckets::set_out(Outbox& box, Communicator& copies) {
  const Format wire = rank_.joints.gradients.wire(rank_.at(open_.front()), fp32);
  const auto sum = std::make_shared<Sum>(Sum{copies, box.values, size_, {}, wire, {}});
  std::size_t begin = 0, packed = 0;
  for (const std::string& gradient : open_) {
    const std::size_t at =
        rank_.l.padded ? rank_.joints.padding.begins(rank_.at(gradient), packed, begin) : begin;
    Tensor& to = gradients_.at(gradient);
    sum->to.push_back({&to, at});
    begin += room_of(gradient);
    packed += to.size();
  }
  Events landed;
  for (std::size_t i = 0; i < pieces; ++i) {
    box.left[i] = rank_.streams.issue(Stream::sums_out, [sum, i] { sum->leave(i); });
  }
  for (std::size_t i = 0; i < pieces; ++i) {
    landed[i] = rank_.streams.issue(Stream::sums_in, [this, sum, i, left = box.left[i]] {
      rank_.streams.wait(left);  // the rank's own part is in the sum
      sum->land(i);
    });
  }
  std::size_t end = 0;  // of a gradient in the bucket
  for (const std::string& gradient : open_) {
    end += room_of(gradient);
    landed_[gradient] = when(landed, end, size_);
  }
}

Tensor Buckets::take(const std::string& gradient) {
  rank_.wait(landed_.at(gradient), Wait::gradient, gradient);
  Tensor& sum = gradients_.at(gradient);
  // Someone may ask for the gradient later: the next step, or a piece that was not waited for.
  const bool stays = rank_.stale != nullptr || rank_.streams.on();
  Tensor taken = stays ? sum : std::move(sum);
  const auto predivide = static_cast<float>(rank_.l.predivide);
  const float multiplier = rank_.joints.gradients.multiplier(rank_.at(gradient), predivide);
  if (multiplier != 1) scale(taken.values, multiplier);
  return taken;
}

}  // namespace plumb::model

#include "model/buckets.hpp"

#include "bounds/outcome.hpp"
#include "model/rank.hpp"

namespace plumb {
namespace {

constexpr std::size_t bucket_size = 4096;  // elements; a larger gradient has a bucket of its own

// A bucket under way.
struct Sum {
  Communicator& copies;
  const std::vector<float>& outbox;
  std::vector<float> own;   // as they left
  std::vector<Tensor*> to;  // where the sums land, in the order of the bucket

  void leave(const Slice& part) {
    const auto first = outbox.begin() + static_cast<std::ptrdiff_t>(part.first);
    Tensor letter(1, part.last - part.first);
    std::copy_n(first, letter.size(), letter.values.begin());
    std::copy_n(first, letter.size(), own.begin() + static_cast<std::ptrdiff_t>(part.first));
    for (int r = 0; r < copies.size(); ++r) {
      if (r != copies.rank()) copies.send(r, 0, letter);
    }
  }

  void land(const Slice& part) {
    Tensor total(1, part.last - part.first);
    for (int r = 0; r < copies.size(); ++r) {
      Tensor theirs = r == copies.rank() ? own_part(part) : copies.receive(r, 0);
      if (r == 0) {
        total = std::move(theirs);
      } else {
        add_to(total, theirs);
      }
    }
    std::size_t start = 0;  // of a gradient in the bucket
    for (Tensor* gradient : to) {
      const std::size_t first = std::max(part.first, start);
      const std::size_t last = std::min(part.last, start + gradient->size());
      for (std::size_t i = first; i < last; ++i) {
        gradient->values[i - start] = total.values[i - part.first];
      }
      start += gradient->size();
    }
  }

 private:
  Tensor own_part(const Slice& part) const {
    Tensor x(1, part.last - part.first);
    std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(part.first), x.size(), x.values.begin());
    return x;
  }
};

}  // namespace

void Buckets::put(const std::string& gradient) {
  const std::size_t n = rank_.main_grad.at(gradient).size();
  const bool other =
      !open_.empty() && &rank_.copies_of(open_.front()) != &rank_.copies_of(gradient);
  if (other || size_ + n > bucket_size) close();
  open_.push_back(gradient);
  size_ += n;
  if (size_ >= bucket_size) close();
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

const Event& Buckets::when(const Events& parts_have, std::size_t n, std::size_t size) {
  std::size_t i = 0;
  while (slice(size, parts, static_cast<int>(i)).last < n) ++i;
  return parts_have[i];
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
    next = std::ranges::copy(rank_.main_grad.at(gradient).values, next).out;
  }
}

void Buckets::set_out(Outbox& box, Communicator& copies) {
  const auto sum = std::make_shared<Sum>(Sum{copies, box.values, std::vector<float>(size_), {}});
  for (const std::string& gradient : open_) sum->to.push_back(&rank_.main_grad.at(gradient));
  Events landed;
  for (int i = 0; i < parts; ++i) {
    const Slice part = slice(size_, parts, i);
    box.left[static_cast<std::size_t>(i)] =
        rank_.overlap.issue(Lane::sums_out, [sum, part] { sum->leave(part); });
  }
  for (std::size_t i = 0; i < parts; ++i) {
    const Slice part = slice(size_, parts, static_cast<int>(i));
    landed[i] = rank_.overlap.issue(Lane::sums_in, [this, sum, part, left = box.left[i]] {
      rank_.overlap.wait(left);  // one's own part is in the sum
      sum->land(part);
    });
  }
  std::size_t end = 0;  // of a gradient in the bucket
  for (const std::string& gradient : open_) {
    end += rank_.main_grad.at(gradient).size();
    landed_[gradient] = when(landed, end, size_);
  }
}

Tensor Buckets::take(const std::string& gradient) {
  rank_.wait(landed_.at(gradient), Wait::gradient, gradient);
  return rank_.main_grad.at(gradient);
}

}  // namespace plumb

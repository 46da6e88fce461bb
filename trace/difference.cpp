#include "trace/difference.hpp"

#include <cmath>
#include <limits>

#include "trace/blocks.hpp"

namespace plumb::trace {
namespace by_blocks {
namespace {

// What lies in runs, from a place on.
class Walk {
 public:
  explicit Walk(std::span<const Lying> runs) : runs_(runs) {}
  // How many numbers lie in a row here.
  std::size_t left() const { return runs_[run_].n - at_; }
  Stored stored() const { return runs_[run_].stored; }
  const char* here() const { return runs_[run_].bytes + at_ * width_of(stored()); }
  void skip(std::size_t n) {
    at_ += n;
    if (at_ < runs_[run_].n) return;
    at_ = 0;
    ++run_;
  }
  void take(std::size_t n, float* into) {
    for (std::size_t done = 0; done < n;) {
      const std::size_t some = std::min(n - done, left());
      numbers_at(here(), stored(), some, into + done);
      skip(some);
      done += some;
    }
  }

 private:
  std::span<const Lying> runs_;
  std::size_t run_ = 0, at_ = 0;
};

// Blocks that lie one behind the other on both sides.
struct Stream {
  const char *a, *b;
  Stored of_a, of_b;
  std::size_t blocks;
  Places at;
};

// Shards by columns have some blocks of each row. Read in the order of rows they are many streams; so
// all that one file has of these rows is read before the next. None, where both do not lie alike, or
// some block does not lie in one piece.
std::vector<Stream> streams_of(const Reading& a, const Reading& b, std::size_t first,
                               std::size_t n) {
  if (n > at_once || a.cols() % block != 0) return {};
  const std::vector<Columns> of_a = a.by_columns(first, n), of_b = b.by_columns(first, n);
  if (of_a.size() != of_b.size()) return {};
  std::vector<Stream> streams;
  for (std::size_t s = 0; s < of_a.size(); ++s) {
    const auto& [bytes, stored, column, width] = of_a[s];
    if (column != of_b[s].column || width != of_b[s].width || width % block != 0) return {};
    streams.push_back({bytes,
                       of_b[s].bytes,
                       stored,
                       of_b[s].stored,
                       n / a.cols() * width / block,
                       {column / block, width / block, a.cols() / block}});
  }
  return streams;
}

template <class A>
void add_to(const Stream& stream, Blocks<false>& blocks) {
  if (stream.of_b == Stored::bf16) {
    blocks.add<A, OfBf16>(stream.a, stream.b, stream.blocks, stream.at);
  } else if (stream.of_b == Stored::f16) {
    blocks.add<A, OfFp16>(stream.a, stream.b, stream.blocks, stream.at);
  } else {
    blocks.add<A, OfFp32>(stream.a, stream.b, stream.blocks, stream.at);
  }
}

void add(const Stream& stream, Blocks<false>& blocks) {
  if (stream.of_a == Stored::bf16) {
    add_to<OfBf16>(stream, blocks);
  } else if (stream.of_a == Stored::f16) {
    add_to<OfFp16>(stream, blocks);
  } else {
    add_to<OfFp32>(stream, blocks);
  }
}

const char* bytes_of(const float* x) { return reinterpret_cast<const char*>(x); }

}  // namespace
}  // namespace by_blocks

double Difference::relative() const {
  if (non_finite > 0) return std::numeric_limits<double>::infinity();
  if (squares == 0) return 0;
  return energy > 0 ? std::sqrt(squares / energy) : std::numeric_limits<double>::infinity();
}

// From 1 - cosine, which has more digits: (|a - b|^2 - (|a| - |b|)^2) / (2 |a| |b|).
double Difference::cosine() const {
  if (non_finite > 0) return std::numeric_limits<double>::quiet_NaN();
  if (squares == 0) return 1;
  const double of_a = std::sqrt(own), of_b = std::sqrt(energy), longer = of_a - of_b;
  if (of_a == 0 || of_b == 0) return std::numeric_limits<double>::quiet_NaN();
  return 1 - (squares - longer * longer) / (2 * of_a * of_b);
}

Difference difference(std::span<const float> a, std::span<const float> b, const Closeness& close) {
  using namespace by_blocks;
  Difference sum;
  const std::size_t n = a.size() / block, rest = n * block;
  Blocks<true> blocks(close, sum);
  blocks.add<OfFp32, OfFp32>(bytes_of(a.data()), bytes_of(b.data()), n);
  blocks.add_slowly(a.data() + rest, b.data() + rest, a.size() - rest);
  return sum;
}

std::size_t compared_at_once(std::size_t cols) {
  using namespace by_blocks;
  return cols % block == 0 && 0 < cols && cols <= at_once ? at_once / cols * cols : at_once;
}

Difference difference(const Whole& a, const Whole& b) {
  Difference sum;
  Reading of_a(a), of_b(b);
  const auto add = [&](std::size_t first, std::size_t n) {
    add_difference(of_a, of_b, first, n, sum);
    return true;
  };
  by_stretches(a.size(), add, compared_at_once(a.cols));
  return sum;
}

void add_difference(Reading& a, Reading& b, std::size_t first, std::size_t n, Difference& sum) {
  using namespace by_blocks;
  const std::vector<Stream> streams = streams_of(a, b, first, n);
  if (streams.empty()) return add_difference(a.lying(first, n), b.lying(first, n), sum);
  const Closeness close;
  Blocks<false> blocks(close, sum);
  for (const Stream& stream : streams) add(stream, blocks);
}

void add_difference(std::span<const Lying> a, std::span<const Lying> b, Difference& sum) {
  using namespace by_blocks;
  static_assert(stretch % block == 0);  // else sums would depend on where a stretch ends
  std::size_t size = 0;
  for (const Lying& run : a) size += run.n;
  const Closeness close;
  Blocks<false> blocks(close, sum);
  Walk of_a(a), of_b(b);
  Numbers x, y;
  while (size > 0) {
    const std::size_t n = std::min(block, size),
                      here = std::min({of_a.left(), of_b.left(), at_once}) / block;
    if (here > 0) {
      if (blocks.room() < here) blocks.settle();
      add({of_a.here(),
           of_b.here(),
           of_a.stored(),
           of_b.stored(),
           here,
           {blocks.placed(), here, 0}},
          blocks);
      of_a.skip(here * block);
      of_b.skip(here * block);
      size -= here * block;
      continue;
    }
    of_a.take(n, x.data());
    of_b.take(n, y.data());
    if (n == block) {
      blocks.add<OfFp32, OfFp32>(bytes_of(x.data()), bytes_of(y.data()), 1);
      blocks.settle();
    } else {
      blocks.add_slowly(x.data(), y.data(), n);
    }
    size -= n;
  }
}

}  // namespace plumb::trace

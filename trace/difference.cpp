#include "trace/difference.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "number/lanes.hpp"
#include "trace/kept.hpp"

namespace plumb::trace {
namespace {

// All of this is of one file: as a header, with names that others could see, GCC 12 kept sums in memory
// and compared at two thirds of the speed (bench_traces, Zen 5).
constexpr std::size_t block = 16 * lanes;  // FP32 sums stay this short
constexpr std::size_t burst = 1024;        // bytes to prefetch at once
constexpr std::size_t at_once =
    16 * stretch;  // numbers; beginning anew costs what reading some thousand does

// Sixteen words after another, from any address.
class Lines {
 public:
  explicit Lines(const char* from) : at_(from) {}
  void next(Words& words) {
    std::memcpy(&words, at_, sizeof words);
    at_ += sizeof words;
  }

 private:
  const char* at_;
};

// Thirty-two numbers: those in even places, and those in odd ones. Of two bytes these are what lies in
// sixteen words, so that a whole line is loaded at once.
struct OfFp32 {
  static constexpr std::size_t width = 4;
  static void load(Lines& from, Floats& even, Floats& odd) {
    Words x, y;
    from.next(x);
    from.next(y);
    even = __builtin_shufflevector((Floats)x, (Floats)y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,
                                   24, 26, 28, 30);
    odd = __builtin_shufflevector((Floats)x, (Floats)y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23,
                                  25, 27, 29, 31);
  }
};
struct OfBf16 {
  static constexpr std::size_t width = 2;
  static void load(Lines& from, Floats& even, Floats& odd) {
    Words codes;
    from.next(codes);
    even = (Floats)(codes << 16);
    odd = (Floats)(codes & 0xffff0000U);
  }
};
struct OfFp16 {
  static constexpr std::size_t width = 2;
  static void load(Lines& from, Floats& even, Floats& odd) {
    Words codes;
    from.next(codes);
    widen(codes & 0xffffU, even);
    widen(codes >> 16, odd);
  }

 private:
  static void widen(const Words& codes, Floats& x) {
    const Words size = (codes & 0x7fffU) << 13;
    const Words wide = (Words)((Floats)size * 0x1p112F);
    const Words top = size >= 0x0f800000U ? Words{} + 0x7f800000U : Words{};
    x = (Floats)(wide | top | (codes & 0x8000U) << 16);
  }
};

struct Chunk {
  Floats squares{}, energy{}, own{};
  Ints largest{};  // bits of |a - b|, which are ordered as the numbers are
  Ints over{};     // minus the count
  Words ulps{};
};

// `all`: over and ulps, too.
template <bool all>
inline void add_lanes(const Floats& x, const Floats& y, const Closeness& close, Chunk& sum) {
  const Floats d = x - y;
  sum.squares += d * d;
  sum.energy += y * y;
  sum.own += x * x;
  const Ints size = (Ints)d & 0x7fffffff;
  sum.largest = size > sum.largest ? size : sum.largest;
  if constexpr (all) {
    sum.over += (Floats)size > close.absolute + close.relative * (Floats)((Ints)y & 0x7fffffff);
    const Ints minus_x = (Ints)x >> 31, minus_y = (Ints)y >> 31;  // all bits, or none
    const Ints u = ((Ints)x ^ (minus_x & 0x7fffffff)) - minus_x;  // as place() below
    const Ints v = ((Ints)y ^ (minus_y & 0x7fffffff)) - minus_y;
    const Words apart = u > v ? (Words)u - (Words)v : (Words)v - (Words)u;
    sum.ulps = apart > sum.ulps ? apart : sum.ulps;
  }
}

// Prefetches a burst where `left` blocks lie. Two streams that take turns line by line are read at less
// than half the speed of one (Zen 5, bench_traces); of FP32 not so: there this would cost a third.
template <class A>
inline void fetch(const char* from, std::size_t left) {
  if constexpr (A::width == 2) {
    if (left % (burst / (block * A::width)) != 0) return;
#pragma GCC unroll 16
    for (std::size_t line = 0; line < burst; line += 64)
      __builtin_prefetch(from + 2 * burst + line);
  }
}

// Does not hold where something is not finite: then `squares` or `energy` is not finite either.
template <class A, class B, bool all>
inline void add_block(Lines& a, Lines& b, const Closeness& close, Chunk& into) {
  Chunk sum;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < block; i += 2 * lanes) {
    Floats x, y, odd_x, odd_y;
    A::load(a, x, odd_x);
    B::load(b, y, odd_y);
    add_lanes<all>(x, y, close, sum);
    add_lanes<all>(odd_x, odd_y, close, sum);
  }
  into = sum;
}

// Ordered like the numbers, both zeros in one place: differences are distances in numbers.
std::int32_t place(float x) {
  const auto s = std::bit_cast<std::int32_t>(x);
  const std::int32_t minus = s >> 31;
  return (s ^ (minus & 0x7fffffff)) - minus;
}

std::uint32_t distance(float a, float b) {
  const std::int32_t x = place(a), y = place(b);
  return static_cast<std::uint32_t>(std::max(x, y)) - static_cast<std::uint32_t>(std::min(x, y));
}

// Adds any elements, one by one, in FP64.
template <bool all>
void add_slowly(const float* a, const float* b, std::size_t n, const Closeness& close,
                Difference& sum) {
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      ++sum.non_finite;
      continue;
    }
    const double d = static_cast<double>(a[i]) - b[i];
    const float size = std::fabs(a[i] - b[i]);
    sum.squares += d * d;
    sum.energy += static_cast<double>(b[i]) * b[i];
    sum.own += static_cast<double>(a[i]) * a[i];
    sum.largest = std::max(sum.largest, size);
    if constexpr (all) {
      sum.ulps = std::max(sum.ulps, distance(a[i], b[i]));
      sum.over += size > close.absolute + close.relative * std::fabs(b[i]) ? 1 : 0;
    }
  }
}

// Sums of n vectors. Folded in halves, two vectors at a time, so that none has lanes left over.
void sums_of(const std::array<Floats, lanes>& vectors, std::size_t n, Floats& sums) {
  std::array<Floats, lanes> rows;
  for (std::size_t k = 0; k < lanes; ++k) rows[k] = k < n ? vectors[k] : Floats{};
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) {  // lanes 0..7 of row i, then 0..7 of row i + 8
    const Floats x = rows[i], y = rows[i + 8];
    rows[i] =
        __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const Floats x = rows[i], y = rows[i + 4];
    rows[i] =
        __builtin_shufflevector(x, y, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
        __builtin_shufflevector(x, y, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) {
    const Floats x = rows[i], y = rows[i + 2];
    rows[i] =
        __builtin_shufflevector(x, y, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
        __builtin_shufflevector(x, y, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  }
  const Floats x = rows[0], y = rows[1];
  sums = __builtin_shufflevector(x, y, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
         __builtin_shufflevector(x, y, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
}

std::int32_t largest_lane(const Ints& x) {
  std::int32_t largest = x[0];
  for (std::size_t l = 1; l < lanes; ++l) largest = std::max(largest, x[l]);
  return largest;
}

using Numbers = std::array<float, block>;

// Those in even places come first in every thirty-two, on both sides.
template <class A>
void widened(const char* from, Numbers& into) {
  Lines lines(from);
  for (std::size_t i = 0; i < block; i += 2 * lanes) {
    Floats even, odd;
    A::load(lines, even, odd);
    std::memcpy(into.data() + i, &even, sizeof even);
    std::memcpy(into.data() + i + lanes, &odd, sizeof odd);
  }
}

bool all_zero(const Numbers& x) {
  Words seen{};
  for (std::size_t i = 0; i < block; i += lanes) {
    Words bits;
    std::memcpy(&bits, x.data() + i, sizeof bits);
    seen |= bits << 1;
  }
  return !any(seen != 0);
}

// The places, in a tensor, of blocks that lie one behind the other in a file: `run` follow each other
// in the tensor, too, and the next so many begin `stride` blocks behind these.
struct Places {
  std::size_t first, run, stride;
};

// Differences of blocks, whose sums over lanes are made sixteen at a time, and added in the order of
// the tensor.
template <bool all>
class Blocks {
 public:
  static constexpr std::size_t most = at_once / block;

  Blocks(const Closeness& close, Difference& sum) : close_(close), sum_(sum) {}
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() { settle(); }

  // Adds blocks that lie one behind the other on both sides, and stay there until settle().
  template <class A, class B>
  void add(const char* a, const char* b, std::size_t blocks) {
    while (blocks > 0) {
      if (placed_ == most) settle();
      const std::size_t some = std::min(blocks, most - placed_);
      add<A, B>(a, b, some, {placed_, some, 0});
      a += some * block * A::width;
      b += some * block * B::width;
      blocks -= some;
    }
  }

  // The same, of blocks whose places are below `most`. All before the last are added before settle().
  template <class A, class B>
  void add(const char* a, const char* b, std::size_t blocks, const Places& at) {
    Lines of_a(a), of_b(b);
    std::size_t place = at.first, left = at.run;
    for (; blocks > 0; --blocks, a += block * A::width, b += block * B::width) {
      fetch<A>(a, blocks);
      fetch<B>(b, blocks);
      Chunk one;
      add_block<A, B, all>(of_a, of_b, close_, one);
      squares_[n_] = one.squares;
      energy_[n_] = one.energy;
      own_[n_] = one.own;
      largest_[n_] = one.largest;
      if constexpr (all) {
        over_[n_] = one.over;
        ulps_[n_] = one.ulps;
      }
      where_[n_] = {a, b, widened<A>, widened<B>, place};
      placed_ = std::max(placed_, ++place);
      if (--left == 0) {
        place += at.stride - at.run;
        left = at.run;
      }
      if (++n_ == lanes) finish();
    }
  }

  void add_slowly(const float* a, const float* b, std::size_t n) {
    settle();
    plumb::trace::add_slowly<all>(a, b, n, close_, sum_);
  }

  std::size_t placed() const { return placed_; }
  std::size_t room() const { return most - placed_; }

  void settle() {
    finish();
    std::ranges::sort(odd_, {}, [](const Odd& one) { return one.at.place; });
    auto odd = odd_.begin();
    for (std::size_t place = 0; place < placed_; ++place) {
      if (odd != odd_.end() && odd->at.place == place) {
        add_oddly(*odd++, done_[place]);
        continue;
      }
      sum_.squares += static_cast<double>(done_[place].squares);
      sum_.energy += static_cast<double>(done_[place].energy);
      sum_.own += static_cast<double>(done_[place].own);
    }
    odd_.clear();
    placed_ = 0;
  }

 private:
  struct Where {
    const char *a, *b;
    void (*widened_a)(const char*, Numbers&);
    void (*widened_b)(const char*, Numbers&);
    std::size_t place;
  };
  struct Sums {
    float squares, energy, own;
  };
  struct Odd {
    Where at;
    bool sound;
  };

  // Sums over lanes, and what does not depend on an order.
  void finish() {
    if (n_ == 0) return;
    Floats squares, energy, own;
    sums_of(squares_, n_, squares);
    sums_of(energy_, n_, energy);
    sums_of(own_, n_, own);
    Ints fine = Ints{} - 1;
    for (const Floats* sums : {&squares, &energy, &own})
      fine &= (*sums > least_kept) & (*sums < most_kept);
    Ints largest{}, over{};
    Words ulps{};
    for (std::size_t k = 0; k < n_; ++k) {
      const Sums sums = {squares[k], energy[k], own[k]};
      done_[where_[k].place] = sums;
      if (fine[k] == 0 && !is_equal(where_[k], sums, largest_[k])) {
        odd_.push_back({where_[k], is_sound(where_[k], sums)});
        if (!odd_.back().sound) continue;
      }
      largest = largest_[k] > largest ? largest_[k] : largest;
      if constexpr (all) {
        over += over_[k];
        ulps = ulps_[k] > ulps ? ulps_[k] : ulps;
      }
    }
    sum_.largest = std::max(sum_.largest, std::bit_cast<float>(largest_lane(largest)));
    if constexpr (all) {
      for (std::size_t l = 0; l < lanes; ++l) {
        sum_.ulps = std::max(sum_.ulps, ulps[l]);
        sum_.over += static_cast<std::size_t>(-over[l]);
      }
    }
    n_ = 0;
  }

  // Is it the same block on both sides, and no sum has lost bits? Where x is not y, x - y is not 0.
  static bool is_equal(const Where& at, const Sums& sums, const Ints& largest) {
    if (sums.squares != 0 || any(largest != 0)) return false;
    if (kept(sums.energy) && kept(sums.own)) return true;
    if (sums.own != 0) return false;
    Numbers x;
    at.widened_a(at.a, x);
    return all_zero(x);
  }

  // What is rare: a block of which a sum has lost bits, or is zero. Are squares and energy sound?
  static bool is_sound(const Where& at, const Sums& sums) {
    Numbers x, y;
    at.widened_a(at.a, x);
    at.widened_b(at.b, y);
    return (kept(sums.squares) || (sums.squares == 0 && x == y)) &&
           (kept(sums.energy) || (sums.energy == 0 && all_zero(y)));
  }

  void add_oddly(const Odd& odd, const Sums& sums) {
    Numbers x, y;
    odd.at.widened_a(odd.at.a, x);
    odd.at.widened_b(odd.at.b, y);
    if (!odd.sound) {
      plumb::trace::add_slowly<all>(x.data(), y.data(), block, close_, sum_);
      return;
    }
    sum_.squares += static_cast<double>(sums.squares);
    sum_.energy += static_cast<double>(sums.energy);
    if (kept(sums.own)) {
      sum_.own += static_cast<double>(sums.own);
    } else {
      for (const float v : x) sum_.own += static_cast<double>(v) * v;
    }
  }

  const Closeness& close_;
  Difference& sum_;
  std::size_t n_ = 0;
  // Of blocks whose sums wait; not initialised.
  std::array<Floats, lanes> squares_, energy_, own_;
  std::array<Ints, lanes> largest_, over_;
  std::array<Words, lanes> ulps_;
  std::array<Where, lanes> where_;
  std::array<Sums, most> done_;  // by place, until settle(); not initialised
  std::size_t placed_ = 0;
  std::vector<Odd> odd_;
};

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
  Difference sum;
  const std::size_t n = a.size() / block, rest = n * block;
  Blocks<true> blocks(close, sum);
  blocks.add<OfFp32, OfFp32>(bytes_of(a.data()), bytes_of(b.data()), n);
  blocks.add_slowly(a.data() + rest, b.data() + rest, a.size() - rest);
  return sum;
}

std::size_t compared_at_once(std::size_t cols) {
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
  const std::vector<Stream> streams = streams_of(a, b, first, n);
  if (streams.empty()) return add_difference(a.lying(first, n), b.lying(first, n), sum);
  const Closeness close;
  Blocks<false> blocks(close, sum);
  for (const Stream& stream : streams) add(stream, blocks);
}

void add_difference(std::span<const Lying> a, std::span<const Lying> b, Difference& sum) {
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

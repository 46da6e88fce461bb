// trace/blocks.hpp: sums of the differences of two tensors, in blocks of FP32 sums (trace/difference.cpp).
//
// A block is 256 numbers that lie one behind the other on both sides, in FP32, BF16 or FP16: sixteen
// lanes add sixteen each, sixteen blocks add up their lanes at once, and FP64 adds blocks in the order
// of the tensor, whatever order they were read in. A block whose sums have lost bits is read again.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "number/lanes.hpp"
#include "trace/difference.hpp"

namespace plumb::trace::by_blocks {

inline constexpr std::size_t block = 16 * lanes;  // FP32 sums stay this short
inline constexpr std::size_t burst = 1024;        // bytes to prefetch at once
// Numbers that are compared at once: beginning anew costs as much as reading some thousand.
inline constexpr std::size_t at_once = 16 * stretch;
inline constexpr float least = 1e-20F, most = 1e30F;  // block sums outside have lost bits

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
// than half the speed of one (Zen 5, bench_traces).
template <class A>
inline void fetch(const char* from, std::size_t left) {
  if (left % (burst / (block * A::width)) != 0) return;
#pragma GCC unroll 16
  for (std::size_t line = 0; line < burst; line += 64) __builtin_prefetch(from + 2 * burst + line);
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
inline std::int32_t place(float x) {
  const auto s = std::bit_cast<std::int32_t>(x);
  const std::int32_t minus = s >> 31;
  return (s ^ (minus & 0x7fffffff)) - minus;
}

inline std::uint32_t distance(float a, float b) {
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

// Sums of n vectors, each in the order of lanes: rows become columns, which are added.
inline void sums_of(const std::array<Floats, lanes>& vectors, std::size_t n, Floats& sums) {
  std::array<Floats, lanes> rows, mixed;
  for (std::size_t k = 0; k < lanes; ++k) rows[k] = k < n ? vectors[k] : Floats{};
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < lanes / 2; ++i) {
      const Floats x = rows[i], y = rows[i + lanes / 2];
      mixed[2 * i] =
          __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      mixed[2 * i + 1] = __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                 14, 30, 15, 31);
    }
    rows = mixed;
  }
  sums = Floats{};
  for (const Floats& column : rows) sums += column;
}

inline std::int32_t largest_lane(const Ints& x) {
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

// Has a block sum kept its bits?
inline bool kept(float sum) { return sum > least && sum < most; }

inline bool all_zero(const Numbers& x) {
  return std::ranges::all_of(x, [](float v) { return v == 0; });
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
    by_blocks::add_slowly<all>(a, b, n, close_, sum_);
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
    for (const Floats* sums : {&squares, &energy, &own}) fine &= (*sums > least) & (*sums < most);
    Ints largest{}, over{};
    Words ulps{};
    for (std::size_t k = 0; k < n_; ++k) {
      const Sums sums = {squares[k], energy[k], own[k]};
      done_[where_[k].place] = sums;
      if (fine[k] == 0) {
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
      by_blocks::add_slowly<all>(x.data(), y.data(), block, close_, sum_);
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

}  // namespace plumb::trace::by_blocks

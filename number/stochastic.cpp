// Stochastic rounding of arrays, 128 values at a time. Sixteen random bits decide nearly always; a
// value for which they may not is rounded alone, with all 32.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "number/ars.hpp"
#include "number/instructions.hpp"
#include "number/lanes.hpp"
#include "number/rounding.hpp"

namespace plumb {
namespace {

constexpr std::size_t group_size = RandomWords::group_size;
constexpr std::size_t registers = group_size / lanes;

// Whether any of these numbers is at least `least`.
bool any_from(const Words& numbers, std::uint32_t least) {
#ifdef __AVX512F__
  return _mm512_cmpge_epu32_mask((__m512i)numbers, _mm512_set1_epi32(static_cast<int>(least))) != 0;
#else
  std::array<std::uint32_t, lanes> each;
  std::memcpy(&each, &numbers, sizeof each);
  return *std::max_element(each.begin(), each.end()) >= least;
#endif
}

// Each kind of rounding adds random bits to what is cut off: what carries goes up. It is given
// sixteen bits (`half`) and leaves in `end` what follows the last digit of the sum: from `undecided`
// on, the other sixteen could carry. `most` collects what makes it refuse a group: `beyond` and more.

// For formats with FP32's exponents that cut at most sixteen bits, so that these decide.
struct ByBits {
  int drop;
  static constexpr std::uint32_t undecided = 1, beyond = 1;

  explicit ByBits(const Format& to) : drop(24 - to.precision) {}
  void operator()(Floats& x, const Words& half, Words&, Words&) const {
    const Words sum = ((Words)x + (half >> (16 - drop))) & (~0U << drop);
    x = x == x ? (Floats)sum : x;
  }
};

// For narrower exponents and at most four digits, by FP32's bits. Below the smallest normal number
// that number is added, so that the digits end where they end above it. FP32 rounds this by up to a
// unit of the bits behind the sixteen: one unit less is added, and `undecided` allows for both.
// Refuses NaN and values beyond the format.
struct ByAdding {
  int drop;
  std::uint32_t undecided, beyond;
  float smallest;
  bool one_zero;

  explicit ByAdding(const Format& to)
      : drop(24 - to.precision),
        undecided(((0xffffU << (drop - 16)) - 1) << (32 - drop)),
        beyond(std::bit_cast<std::uint32_t>(static_cast<float>(to.largest())) + 1),
        smallest(static_cast<float>(to.smallest_normal())),
        one_zero(to.zeros == Zeros::one) {}

  void operator()(Floats& x, const Words& half, Words& end, Words& most) const {
    const Words bits = (Words)x;
    const Floats a = (Floats)(bits & 0x7fffffffU);
    const Floats lifted = a < smallest ? smallest + Floats{} : Floats{};
    const Words sum = (Words)(a + lifted) + ((half << (drop - 16)) - 1);
    end = sum << (32 - drop);
    const Words rounded = (Words)((Floats)(sum & (~0U << drop)) - lifted);
    most = most > rounded ? most : rounded;
    Words sign = bits & 0x80000000U;
    if (one_zero) sign = rounded == 0 ? Words{} : sign;
    x = (Floats)(rounded | sign);
  }
};

// For any narrower exponents and any values, in whole 2^-16 of a spacing.
struct ByScaling {
  std::uint32_t least, most, below;
  float largest, outside;
  bool one_zero;
  static constexpr std::uint32_t undecided = 0xffff0000U, beyond = 1;

  explicit ByScaling(const Format& to)
      : least(static_cast<std::uint32_t>(to.emin + 127) << 23),
        most(static_cast<std::uint32_t>(to.emax + 1 + 127) << 23),
        below(static_cast<std::uint32_t>(to.precision - 1) << 23),
        largest(static_cast<float>(to.largest())),
        outside(static_cast<float>(round_to(4 * to.largest(), to, {.how = Rounding::stochastic}))),
        one_zero(to.zeros == Zeros::one) {}

  void operator()(Floats& x, const Words& half, Words& end, Words&) const {
    const Words bits = (Words)x;
    Words a = bits & 0x7fffffffU;
    a = a < most ? a : Words{} + most;  // beyond the format, and so is what it is rounded to
    Words binade = a & 0x7f800000U;
    binade = binade > least ? binade : Words{} + least;
    const Words spacing = binade - below;
    const Words inverse = ((127U + 127U + 16U) << 23) - spacing;  // 2^16 / spacing
    const Ints sum = __builtin_convertvector((Floats)a * (Floats)inverse, Ints) + (Ints)half;
    end = (Words)sum << 16;
    Floats rounded = __builtin_convertvector(sum >> 16, Floats) * (Floats)spacing;
    rounded = rounded > largest ? outside + Floats{} : rounded;
    Words sign = bits & 0x80000000U;
    if (one_zero) sign = rounded == 0 ? Words{} : sign;
    rounded = (Floats)((Words)rounded | sign);
    x = x == x ? rounded : x;
  }
};

// One array, and whose bits.
struct Draws {
  const Format& to;
  std::uint64_t key;
  float alone(float x, std::uint64_t element) const {
    return round_to(x, to, {.how = Rounding::stochastic, .word = random_word(key, element)});
  }
};

// A group of rounded values, and their ends.
struct Group {
  std::array<Floats, registers> values;
  std::array<Words, registers> ends;
};

// Rounds alone what sixteen bits did not decide, and stores all.
template <class Kind>
[[gnu::noinline, gnu::cold]] void decide(Group group, const Kind& kind, float* x,
                                         const Draws& draws, std::uint64_t first) {
  for (std::size_t i = 0; i < registers; ++i) {
    for (std::size_t l = 0; l < lanes; ++l) {
      if (group.ends[i][l] < kind.undecided) continue;
      group.values[i][l] = draws.alone(x[lanes * i + l], first + lanes * i + l);
    }
  }
  std::memcpy(x, &group.values, sizeof group.values);
}

// One group in place. Returns false, and changes nothing, where the kind refuses it.
template <class Kind>
PLUMB_WITHIN inline bool round_group(float* x, const Kind& kind, const RandomWords::Group& random,
                                     const Draws& draws, std::uint64_t first) {
  Group group;
  Words most{}, end{};
#pragma GCC unroll 8
  for (std::size_t i = 0; i < registers; ++i) {
    fetch_ahead(x + lanes * i);
    std::memcpy(&group.values[i], x + lanes * i, sizeof group.values[i]);
    keep(group.values[i]);
    const Words half = i % 2 == 0 ? random[i / 2] & 0xffffU : random[i / 2] >> 16;
    group.ends[i] = Words{};
    kind(group.values[i], half, group.ends[i], most);
    end = end > group.ends[i] ? end : group.ends[i];
  }
  if (any_from(most, kind.beyond)) [[unlikely]]
    return false;
  if (any_from(end, kind.undecided)) [[unlikely]] {
    decide(group, kind, x, draws, first);
    return true;
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < registers; ++i) {
    std::memcpy(x + lanes * i, &group.values[i], sizeof group.values[i]);
  }
  return true;
}

// Groups in place, one kind of rounding for nearly all and one that refuses nothing.
template <class Kind, class Otherwise>
class Groups {
 public:
  explicit Groups(const Draws& draws)
      : kind_(draws.to), otherwise_(draws.to), words_(draws.key), draws_(draws) {}

  [[gnu::noinline]] void whole(float* x, std::uint64_t group, std::uint64_t n) const {
    RandomWords::Group random, next;
    words_(group, next);
    for (const std::uint64_t end = group + n; group < end; ++group, x += group_size) {
      random = next;
      words_(group + 1, next);  // ahead of use: each round of a block waits for the one before
      if (round_group(x, kind_, random, draws_, group * group_size)) continue;
      refused(x, random, group);
    }
  }

  // The values [skip, skip + n) of a group.
  void part(float* x, std::uint64_t group, std::size_t skip, std::size_t n) const {
    std::array<float, group_size> values{};
    std::copy_n(x, n, &values[skip]);
    whole(values.data(), group, 1);
    std::copy_n(&values[skip], n, x);
  }

  void all(std::span<float> values, std::uint64_t first) const {
    float* x = values.data();
    const std::size_t skip = first % group_size;
    const std::size_t head = std::min((group_size - skip) % group_size, values.size());
    const std::size_t n = (values.size() - head) / group_size;
    const std::size_t tail = values.size() - head - n * group_size;
    const std::uint64_t group = (first + head) / group_size;
    if (head > 0) part(x, first / group_size, skip, head);
    whole(x + head, group, n);
    if (tail > 0) part(x + head + n * group_size, group + n, 0, tail);
  }

 private:
  [[gnu::noinline, gnu::cold]] void refused(float* x, const RandomWords::Group& random,
                                            std::uint64_t group) const {
    round_group(x, otherwise_, random, draws_, group * group_size);
  }

  Kind kind_;
  Otherwise otherwise_;
  RandomWords words_;
  Draws draws_;
};

}  // namespace

void round_stochastically(std::span<float> values, const Format& to, std::uint64_t key,
                          std::uint64_t first) {
  if (to == fp32 || to == fp64) return;
  const Draws draws{to, key};
  if (to.zeros == Zeros::none) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = draws.alone(values[i], first + i);
  } else if (to.emin == fp32.emin) {
    Groups<ByBits, ByBits>(draws).all(values, first);
  } else if (to.precision > 4) {
    Groups<ByScaling, ByScaling>(draws).all(values, first);
  } else {
    Groups<ByAdding, ByScaling>(draws).all(values, first);
  }
}

}  // namespace plumb

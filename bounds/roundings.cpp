#include "bounds/roundings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "bounds/operation.hpp"
#include "number/lanes.hpp"
#include "number/philox.hpp"
#include "number/shuffle.hpp"

namespace plumb::bounds {
namespace {

Floats load(const float* from) {
  Floats x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

// Calls f(sixteen elements of each part) in turn; the last ones get zeros beyond the end.
template <class F>
void by_sixteens(std::vector<Matrix<float>>& parts, const F& f) {
  const std::size_t n = parts.size(), size = parts[0].size();
  std::vector<float*> at(n);
  std::size_t first = 0;
  for (; first + lanes <= size; first += lanes) {
    for (std::size_t p = 0; p < n; ++p) at[p] = parts[p].values.data() + first;
    f(at);
  }
  if (first == size) return;
  std::vector<std::array<float, lanes>> last(n);
  for (std::size_t p = 0; p < n; ++p) {
    std::copy(parts[p].values.begin() + static_cast<std::ptrdiff_t>(first), parts[p].values.end(),
              last[p].begin());
    at[p] = last[p].data();
  }
  f(at);
  for (std::size_t p = 0; p < n; ++p)
    std::copy_n(at[p], size - first, parts[p].values.data() + first);
}

// Where parts and running sums all are numbers of the wire format (-1; 0 elsewhere): no rounding
// happens there in any run, so there is nothing to decorrelate. (Sums of few BF16 values in FP32
// are the common case.) Only FP32 and BF16 wires are looked at; the sums' errors come from TwoSum,
// which is exact.
class Exact {
 public:
  explicit Exact(const Format& wire)
      : looked_at_(wire == fp32 || wire == bf16), lost_bits_(wire == bf16 ? 0xffff : 0) {}

  // Of sixteen elements of each part.
  Ints operator()(const std::vector<float*>& parts) const {
    if (!looked_at_) return Ints{};
    Floats sum = load(parts[0]);
    Ints all = ((Ints)sum & lost_bits_) == 0;
    for (std::size_t p = 1; p < parts.size(); ++p) {
      const Floats b = load(parts[p]), s = sum + b;
      const Floats t = s - sum;
      all &= (sum - (s - t)) + (b - t) == 0;
      all &= (((Ints)b | (Ints)s) & lost_bits_) == 0;
      sum = s;
    }
    return all;
  }

 private:
  const bool looked_at_;
  const std::int32_t lost_bits_;
};

// A random word for each element of a row, and once more for the first of them, so that sixteen may
// be taken from any place.
std::vector<std::uint32_t> words_of(std::uint64_t key, std::size_t n) {
  std::vector<std::uint32_t> words(n + lanes);
  for (std::size_t e = 0; e < n; e += 4) {
    const Bits bits = random_block(key, e / 4);
    std::copy_n(bits.begin(), std::min<std::size_t>(4, n - e), words.begin() + e);
  }
  for (std::size_t e = n; e < n + lanes; ++e) words[e] = words[e - n];
  return words;
}

// 4 u ulps of the larger of two numbers go from one to the other, u uniform in (-1/2, 1/2); but at
// most all that the smaller is, since a part that is lost beside the other is lost in every twin.
class Transfer {
 public:
  explicit Transfer(const Format& wire)
      : relative_(std::ldexp(1.0F, 1 - wire.precision)),
        at_zero_(Floats{} + static_cast<float>(std::max(wire.spacing_at_zero(), 0x1p-149))) {}

  void operator()(Floats& x, Floats& y, const Words& word, const Ints& except) const {
    const Floats of_x = ulps(x), of_y = ulps(y);
    const Floats ulp = of_x > of_y ? of_x : of_y;
    Floats u, a, b;
    in_ulps(x, y, ulp, a, b);
    draw(a, b, word ^ (Words)ulp, u);
    const Floats smaller = size(x) < size(y) ? size(x) : size(y);
    const Floats reach = ulp < smaller * 0.5F ? ulp : smaller * 0.5F;
    const Floats by = 4 * u * reach;
    x = except ? x : x + by;
    y = except ? y : y - by;
  }

 private:
  static Floats size(const Floats& x) { return (Floats)((Ints)x & 0x7fffffff); }

  // The ulps by the exponents' bits.
  Floats ulps(const Floats& x) const {
    const Floats u = (Floats)((Ints)x & 0x7f800000) * relative_;
    return u > at_zero_ ? u : at_zero_;
  }

  // Division by a power of two, which is a product where that is a normal number.
  static void in_ulps(const Floats& x, const Floats& y, const Floats& ulp, Floats& a, Floats& b) {
    if (any(ulp < 0x1p-126F)) {
      a = x / ulp;
      b = y / ulp;
      return;
    }
    const Floats reciprocal = (Floats)(0x7f000000 - (Ints)ulp);
    a = x * reciprocal;
    b = y * reciprocal;
  }

  // The same u for the same word where both numbers round alike: a hash of the word and of what
  // they round to. Its last lines are MurmurHash3's [Appleby].
  static void draw(const Floats& x, const Floats& y, const Words& word, Floats& u) {
    const Ints a = __builtin_convertvector(x + half_of(x), Ints);
    const Ints b = __builtin_convertvector(y + half_of(y), Ints);
    Words h = word ^ ((Words)a * 0x9E3779B1U + (Words)b * 0x7FEB352DU);
    h = (h ^ (h >> 16)) * 0x85EBCA6BU;
    h = (h ^ (h >> 13)) * 0xC2B2AE35U;
    h ^= h >> 16;
    u = __builtin_convertvector((Ints)(h >> 8), Floats) * 0x1p-24F + (0x1p-25F - 0.5F);
  }

  // With the sign of x.
  static Floats half_of(const Floats& x) {
    return (Floats)(((Ints)x & std::numeric_limits<std::int32_t>::min()) | 0x3f000000);
  }

  float relative_;  // of a binade's lower end
  Floats at_zero_;
};

}  // namespace

void RealRoundings::round_as(Matrix<float>& x, const Format& to, const TensorCast& cast) {
  if (cast.saturate) {
    const auto largest = static_cast<float>(to.largest());
    for (float& v : x.values) v = v > largest ? largest : v < -largest ? -largest : v;
  }
  if (cast.key) {
    round_stochastically(x.values, to, *cast.key);
  } else {
    round_in_place(x.values, to);
  }
}

void TwinRoundings::before_parts(std::vector<Matrix<float>>& parts, const Format& wire) {
  if (moves_.orders && parts.size() > 2) reorder(parts);
  if (moves_.amounts && parts.size() > 1) move_amounts(parts, wire);
}

void TwinRoundings::reorder(std::vector<Matrix<float>>& parts) const {
  constexpr std::uint64_t of_orders = 0xD1B54A32D192ED03ULL;
  const std::size_t n = parts.size();
  std::uint64_t drawn = 0;
  const auto below = [&](std::size_t end) {
    return static_cast<std::size_t>(uniform(key_ ^ of_orders, drawn++) * static_cast<double>(end));
  };
  const std::size_t slices = below(2) == 0 ? 1 : n;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::vector<float> before(n);
  for (std::size_t s = 0; s < slices; ++s) {
    shuffle(std::span(order), below);
    const auto [first, last] =
        slice(parts[0].size(), static_cast<int>(slices), static_cast<int>(s));
    for (std::size_t e = first; e < last; ++e) {
      for (std::size_t p = 0; p < n; ++p) before[p] = parts[p].values[e];
      for (std::size_t p = 0; p < n; ++p) parts[p].values[e] = before[order[p]];
    }
  }
}

void TwinRoundings::move_amounts(std::vector<Matrix<float>>& parts, const Format& wire) const {
  const std::size_t n = parts.size();
  const std::size_t transfers = n == 2 ? 1 : n, size = parts[0].size();
  const std::size_t row = parts[0].cols == 1 ? size : parts[0].cols;
  const Transfer transfer(wire);
  const Exact exact(wire);
  std::vector<std::vector<std::uint32_t>> words;
  for (std::size_t i = 0; i < transfers; ++i) {
    words.push_back(words_of(key_ + 0x9E3779B97F4A7C15ULL * (i + 1), row));
  }
  std::size_t place = 0;  // in the row; a remainder of each would cost a third
  by_sixteens(parts, [&](const std::vector<float*>& of_parts) {
    const std::size_t at = place;
    for (place += lanes; place >= row; place -= row) {
    }
    const Ints untouched = exact(of_parts);
    if (!any(~untouched)) return;
    for (std::size_t i = 0; i < transfers; ++i) {
      float *const here = of_parts[i], *const next = of_parts[i + 1 < n ? i + 1 : 0];
      Floats x = load(here), y = load(next);
      Words word;
      std::memcpy(&word, &words[i][at], sizeof word);
      transfer(x, y, word, untouched);
      std::memcpy(here, &x, sizeof x);
      std::memcpy(next, &y, sizeof y);
    }
  });
}

void ChanceRoundings::before_parts(std::vector<Matrix<float>>& parts, const Format& wire) {
  TwinRoundings::before_parts(parts, wire);
  wire_calls_ = 2 * parts.size() - 1;
}

void ChanceRoundings::round(Matrix<float>& x, const Format& to) {
  if (wire_calls_ > 0) {
    --wire_calls_;
    return TwinRoundings::round(x, to);
  }
  if (to == fp32) return;
  round_stochastically(x.values, to, draws_, drawn_);
  drawn_ += x.size();
}

void RecordedRoundings::round(Matrix<float>& x, const Format& to) {
  const Tensor before = x;
  RealRoundings::round(x, to);
  keep(before, x);
}

void RecordedRoundings::round_as(Matrix<float>& x, const Format& to, const TensorCast& cast) {
  const Tensor before = x;
  RealRoundings::round_as(x, to, cast);
  keep(before, x);
}

void RecordedRoundings::keep(const Tensor& before, const Tensor& after) {
  Tensor error = after;
  for (std::size_t e = 0; e < error.size(); ++e) error.values[e] -= before.values[e];
  errors_.push_back(std::move(error));
}

void SignedRoundings::round(Matrix<double>& x, const Format&) {
  const Tensor& error = errors_.at(calls_);
  const double sign = uniform(key_, calls_++) < 0.5 ? -1 : 1;
  for (std::size_t e = 0; e < x.size(); ++e) {
    if (x.values[e] == 0) continue;
    x.values[e] += sign * static_cast<double>(error.values[e]);
  }
}

}  // namespace plumb::bounds

// rope: rotates the query and key heads of packed qkv by the angle of their position
//
//   inputs       qkv (T, F), [places (T, 1): positions, where they are not t mod sequence]
//   outputs      y (T, F),  F = kv_heads (heads / kv_heads + 2) head_dim
//   attributes   heads, kv_heads, head_dim, sequence, base, inverse (1: rotates back, gradient),
//                [rotated: how many of a head's columns turn, the last ones; head_dim],
//                [stretch: how many times as long sequences are as those that the weights were made
//                for; 1. YaRN [PQFS23]: pairs of columns that turn less than once in the old length
//                turn stretch times more slowly, those that turn more than 32 times as before, others
//                in between; and queries and keys grow to 0.1 ln(stretch) + 1 of their length]
//   layout       per key/value head: its query heads, then the key, then the value
//   evaluate     cos and sin of pos base^(-2i/rotated), and what stretch makes of them, in FP64, rounded to FP32; each product and
//                the sum of two products rounded to FP32; one rounding to the output format
#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "bounds/examples/heads.hpp"
#include "bounds/operations/attention.hpp"
#include "bounds/operations/index.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
struct Turn {
  T cos, sin;
};

// A frequency, in radians a position, where `length` positions were stretched to more.
double stretched(double frequency, double length, double stretch) {
  const double turns = length * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp((turns - 1) / 31, 0.0, 1.0);
  return frequency * (kept + (1 - kept) / stretch);
}

// One row per position; FP64 until the rounding to T.                         // (positions, half)
template <class T>
Matrix<Turn<T>> turns(const Call<T>& call, std::size_t positions, std::size_t half) {
  const double base = call.attribute("base"), sign = call.attribute("inverse") != 0 ? -1 : 1;
  const double stretch = call.attribute("stretch", 1);
  const double size = stretch > 1 ? 0.1 * std::log(stretch) + 1 : 1;
  Matrix<Turn<T>> table(positions, half);
  for (std::size_t i = 0; i < half; ++i) {
    double frequency = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
    if (stretch > 1)
      frequency = stretched(frequency, call.attribute("sequence") / stretch, stretch);
    for (std::size_t t = 0; t < positions; ++t) {
      const double angle = static_cast<double>(t) * frequency;
      table(t, i) = {static_cast<T>(size * std::cos(angle)),
                     static_cast<T>(size * (sign * std::sin(angle)))};
    }
  }
  return table;
}

template <class T>
void rotate(T* head, const Turn<T>* turn, std::size_t half) {
  for (std::size_t i = 0; i < half; ++i) {
    const T x = head[i];
    const T y = head[i + half];
    head[i] = x * turn[i].cos - y * turn[i].sin;
    head[i + half] = y * turn[i].cos + x * turn[i].sin;
  }
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const std::size_t dim = call.count("head_dim");
  const auto rotated =
      static_cast<std::size_t>(call.attribute("rotated", static_cast<double>(dim)));
  const std::size_t group = PackedHeads(call).ratio() + 2;
  if (rotated > dim) throw std::invalid_argument("rope: more columns rotate than a head has");
  const std::size_t sequence = call.count("sequence");
  Matrix<T> y = call[0];
  const Matrix<Turn<T>> table = turns(call, std::min(sequence, y.rows), rotated / 2);
  for (std::size_t t = 0; t < y.rows; ++t) {
    const std::size_t place = call.inputs.size() == 1
                                  ? t % sequence
                                  : index_of(call[1].values[t], table.rows, "rope: a position");
    for (std::size_t h = 0; h < y.cols / dim; ++h) {
      if (h % group == group - 1) continue;  // a value head
      rotate(y.row(t) + (h + 1) * dim - rotated, table.row(place), rotated / 2);
    }
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

void random(RandomCall& c) {
  const HeadsSize size = random_heads(c);
  c.give(size.tokens, size.cols);
  c.documents(static_cast<std::size_t>(c.e.attributes["sequence"]));
  if (c.draw.coin()) c.e.attributes["stretch"] = c.whole(2, 40);
  if (c.draw.coin()) return;  // half of the rotations leave a head's first columns alone
  const auto pairs = static_cast<std::size_t>(c.e.attributes["head_dim"]) / 2;
  c.e.attributes["rotated"] = static_cast<double>(2 * c.draw.between(1, pairs));
}

}  // namespace

extern const Operation rope{
    .id = "rope",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.kind = Kind::attention},
    .schema = {.inputs = {{"qkv", "sequence n", "heads head_dim + 2 kv_heads head_dim"},
                          optional({"places", "sequence n", "1"})},
               .outputs = {{"y", "sequence n", "heads head_dim + 2 kv_heads head_dim"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"),
                              count("sequence"), real("base"), flag("inverse"),
                              or_else(count("rotated")), or_else(real("stretch"), 1)}},
    .examples = {.random = random, .shaped = shaped_heads, .usual = "256x192"},
};

}  // namespace plumb::bounds

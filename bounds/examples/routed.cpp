#include "bounds/examples/routed.hpp"

#include <cmath>
#include <numeric>

#include "number/outcome.hpp"

namespace plumb::bounds {
namespace {

struct Sizes {
  std::size_t tokens, width, other, experts, k;
};

// k experts of each token, none twice: `first` says where to begin, and steps of 1 go on.
template <class First>
Matrix<double> ids_of(const Sizes& n, const First& first) {
  Matrix<double> ids(n.tokens, n.k);
  for (std::size_t t = 0; t < n.tokens; ++t) {
    const std::size_t begin = first(t);
    for (std::size_t j = 0; j < n.k; ++j) {
      ids(t, j) = static_cast<double>((begin + j) % n.experts);
    }
  }
  return ids;
}

template <class First>
Matrix<double> counts_of(const Sizes& n, const First& first) {
  Matrix<double> counts(n.experts, 1);
  for (std::size_t e = 0; e < n.experts; ++e) counts.values[e] = static_cast<double>(first(e));
  return counts;
}

// Drops the copies beyond an equal share.
void drop_copies(Example& e, const Routed& with) {
  const std::size_t ids = with.inputs.find('i');
  if (ids == with.inputs.npos || !with.drops) return;
  e.inputs[ids] = value_of({"within_capacity", {e.inputs[ids]}, e.attributes, {}})[0];
}

void attributes_of(Example& e, const Sizes& n) {
  const auto experts = static_cast<double>(n.experts), tokens = static_cast<double>(n.tokens);
  e.attributes.insert({{"experts", experts},
                       {"k", static_cast<double>(n.k)},
                       {"most", std::ceil(tokens * static_cast<double>(n.k) / experts)},
                       {"rate", 0.001},
                       {"balance", 0.01 * experts / (static_cast<double>(n.k) * tokens * tokens)},
                       {"z", 0.001 / tokens}});
}

// Adds inputs by the letters of Routed; `table(rows, cols)` makes numbers of the inputs' format,
// and `fp32s` numbers of FP32, of the logits' size.
template <class Table, class Fp32, class First>
void fill(Example& e, const Routed& with, const Sizes& n, const Table& table, const Fp32& fp32s,
          const First& first, bool biases) {
  attributes_of(e, n);
  const bool transposed = e.attributes.contains("transpose_b") && e.attributes["transpose_b"] != 0;
  for (const char kind : with.inputs) {
    if (kind == 'l') e.inputs.push_back(fp32s(n.tokens, n.experts));
    if (kind == 'p') e.inputs.push_back(value_of_softmax(fp32s(n.tokens, n.experts)));
    if (kind == 'g') table(n.tokens, n.experts);
    if (kind == 'n') e.inputs.push_back(Matrix<double>(n.experts, 1, 5));
    if (kind == 's') e.inputs.push_back(fp32s(n.tokens, 1));
    if (kind == 'o' || (kind == 'v' && biases)) e.inputs.push_back(fp32s(n.experts, 1));
    if (kind == 'c') e.inputs.push_back(counts_of(n, first));
    if (kind == 'x') table(n.tokens, n.width);
    if (kind == 'r') table(n.tokens * n.k, n.width);
    if (kind == 'h') table(n.tokens * n.k, n.other);
    if (kind == 'i') e.inputs.push_back(ids_of(n, first));
    for (std::size_t i = 0; kind == 'w' && i < n.experts; ++i) {
      transposed ? table(n.other, n.width) : table(n.width, n.other);
    }
    if (kind == 'f' && biases) e.inputs.push_back(Matrix<double>(1, 1, 1024));
    for (std::size_t i = 0; kind == 'b' && biases && i < n.experts; ++i) table(n.other, 1);
  }
}

}  // namespace

void routed(RandomCall& c, const Routed& with) {
  Draw& draw = c.draw;
  const std::size_t experts = draw.between(2, 6);
  const Sizes n{draw.between(1, 12), 2 * draw.between(1, 24), 2 * draw.between(1, 8), experts,
                draw.between(1, experts - 1)};
  if (with.inputs.find('w') != with.inputs.npos) c.e.attributes["transpose_b"] = draw.coin();
  if (with.chained && draw.between(0, 2) == 0) c.e.attributes["chain"] = c.whole(1, 16);
  if (!with.parted) c.one_part();
  const auto table = [&](std::size_t rows, std::size_t cols) { c.give(rows, cols); };
  const auto logits = [&](std::size_t rows, std::size_t cols) {
    if (draw.kind() == "tiny") return draw.matrix(rows, cols);
    return draw.moderate(rows, cols, draw.kind() == "spread" ? 40 : 3);
  };
  const auto first = [&](std::size_t) { return draw.between(0, experts - 1); };
  const bool biases = draw.coin();
  fill(c.e, with, n, table, logits, first, biases);
  if (draw.between(0, 2) == 0) drop_copies(c.e, with);
}

void routed(Maker& m, const Routed& with) {
  Example& e = m.e;
  if (with.as_many && m.cols < 2) {
    throw Failure(e.id + " takes TOKENSxEXPERTS, two experts at least");
  }
  const std::size_t experts = with.as_many ? m.cols : 4;
  const Sizes n{m.rows, m.cols, m.cols < 64 ? m.cols : 16, experts,
                std::min<std::size_t>(2, experts - 1)};
  if (with.inputs.find('w') != with.inputs.npos) e.attributes["transpose_b"] = 0;
  const auto table = [&](std::size_t rows, std::size_t cols) { m.drawn(rows, cols); };
  const auto logits = [&](std::size_t rows, std::size_t cols) {
    m.drawn(rows, cols);
    Matrix<double> made = std::move(e.inputs.back());
    e.inputs.pop_back();
    return made;
  };
  const auto first = [](std::size_t t) { return t * 7 / 3; };
  fill(e, with, n, table, logits, first, false);
}

}  // namespace plumb::bounds

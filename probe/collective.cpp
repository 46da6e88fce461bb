#include "probe/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "bounds/examples/draw.hpp"
#include "bounds/examples/example.hpp"
#include "bounds/on_machine.hpp"
#include "number/rounding.hpp"

namespace plumb::probe {
namespace {

using Algorithm = Collective::Algorithm;

Tree tree_in(const Collective& how, std::size_t element, std::size_t elements) {
  const auto ranks = static_cast<std::size_t>(how.ranks);
  if (how.algorithm == Algorithm::tree) {
    return tree_of(Order{Order::Kind::pairwise}, ranks);
  }
  std::size_t first = 0;
  if (how.algorithm == Algorithm::ring) {
    for (std::size_t c = 0; c < ranks; ++c) {
      const auto [begin, end] = slice(elements, how.ranks, static_cast<int>(c));
      if (begin <= element && element < end) first = c + static_cast<std::size_t>(*how.rotation);
    }
  }
  Tree sum;
  for (std::size_t k = 0; k < ranks; ++k) sum = sum_of({sum, leaf((first + k) % ranks)});
  return sum;
}

// Of numbers to send: formats of a short range do not hold those that are spread.
std::vector<std::string_view> kinds_of(const Format& wire) {
  return {"plain", "cancelling", "positive", wire.emax > 60 ? "spread" : "plain"};
}

float sum_by(const Tree& tree, const Tensor& ranks, std::size_t element) {
  if (tree->parts.empty()) return ranks(tree->leaf, element);
  return sum_by(tree->parts[0], ranks, element) + sum_by(tree->parts[1], ranks, element);
}

Matrix<double> row_of(const Tensor& x, std::size_t r) {
  Matrix<double> row(1, x.cols);
  for (std::size_t e = 0; e < x.cols; ++e) row.values[e] = static_cast<double>(x(r, e));
  return row;
}

Example example_of(const Collective& how, const Tensor& ranks) {
  Example e{
      "all_reduce", {}, {{"algorithm", static_cast<double>(how.algorithm)}}, {1, how.wire, fp32}};
  if (how.rotation) e.attributes["rotation"] = *how.rotation;
  for (std::size_t r = 0; r < ranks.rows; ++r) e.inputs.push_back(row_of(ranks, r));
  return e;
}

class Prober {
 public:
  Prober(const AllReduce& all_reduce, std::size_t ranks, std::size_t elements, unsigned seed)
      : all_reduce_(all_reduce), ranks_(ranks), elements_(elements), seed_(seed) {}

  CollectiveFound operator()() {
    const std::optional<Format> wire = find_wire();
    if (!wire) return refuse("no format makes of a single rank's numbers what comes back");
    if (!grow_trees(*wire)) return refuse("masked sums of the ranks contradict each other");
    name(*wire);
    if (found_.is) hold();
    return std::move(found_);
  }

 private:
  CollectiveFound refuse(const std::string& why) {
    found_.why = why;
    return std::move(found_);
  }

  Tensor drawn(std::string_view kind, unsigned seed) const {
    Draw draw(kind, seed);
    return converted<float>(draw.matrix(ranks_, elements_));
  }

  // The widest format to which the numbers of the first and of the last rank are rounded.
  std::optional<Format> find_wire() const {
    for (const Format& format : {fp32, bf16, fp16, e4m3fn, e5m2}) {
      if (travels(format, 0) && travels(format, ranks_ - 1)) return format;
    }
    return {};
  }
  bool travels(const Format& format, std::size_t rank) const {
    Tensor x = drawn("positive", seed_);
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (r != rank) std::fill_n(x.row(r), elements_, 0.0F);
    }
    const Tensor found = all_reduce_(x);
    for (std::size_t e = 0; e < elements_; ++e) {
      if (found(0, e) != round_to(x(rank, e), format)) return false;
    }
    return true;
  }

  // Where ranks i and j meet, of each element; nothing where results do not tell. Masks and ones are
  // numbers that travel.
  std::optional<std::vector<std::size_t>> meetings(std::size_t i, std::size_t j,
                                                   const Format& wire) const {
    const int high = std::min(wire.emax, 120);
    const float one = std::ldexp(1.0F, high > 60 ? 0 : wire.emin);
    const float mask = std::ldexp(1.0F, high);
    Tensor x(ranks_, elements_, one);
    std::fill_n(x.row(i), elements_, mask);
    std::fill_n(x.row(j), elements_, -mask);
    const Tensor found = all_reduce_(x);
    std::vector<std::size_t> sizes;
    for (const float sum : found.values) {
      const float later = sum / one;
      const bool whole = later >= 0 && later <= static_cast<float>(ranks_ - 2);
      if (!whole || later != std::floor(later)) return {};
      sizes.push_back(ranks_ - static_cast<std::size_t>(later));
    }
    return sizes;
  }

  bool grow_trees(const Format& wire) {
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::size_t>> sizes;
    for (std::size_t i = 0; i < ranks_; ++i) {
      for (std::size_t j = i + 1; j < ranks_; ++j) {
        const auto met = meetings(i, j, wire);
        if (!met) return false;
        sizes[{i, j}] = sizes[{j, i}] = *met;
      }
    }
    for (std::size_t e = 0; e < elements_; ++e) {
      const auto meets = [&](const std::vector<Meet>& asked) {
        std::vector<std::vector<std::size_t>> all;
        for (const Meet& one : asked) {
          all.emplace_back();
          for (const std::size_t j : one.others) all.back().push_back(sizes.at({one.i, j})[e]);
        }
        return std::optional(all);
      };
      found_.trees.push_back(tree_from(ranks_, meets));
      if (!found_.trees.back()) return false;
    }
    return true;
  }

  bool explains(const Collective& how) const {
    for (std::size_t e = 0; e < elements_; ++e) {
      if (!same(found_.trees[e], tree_in(how, e, elements_))) return false;
    }
    return true;
  }

  // Does it make every bit of drawn messages?
  bool makes_the_bits(const Collective& how) const {
    for (const std::string_view kind : kinds_of(how.wire)) {
      const Tensor x = drawn(kind, seed_ + 1);
      const Tensor found = all_reduce_(x);
      const Tensor made = how.algorithm == Algorithm::any_order
                              ? made_by_trees(x, how.wire)
                              : evaluation_of(plumb::probe::example_of(how, x))[0];
      if (found.values != made.values) return false;
    }
    return true;
  }
  // What is sent and the sum are rounded to the wire, and nothing between.
  Tensor made_by_trees(Tensor x, const Format& wire) const {
    round_in_place(x.values, wire);
    Tensor sums(1, elements_);
    for (std::size_t e = 0; e < elements_; ++e) sums(0, e) = sum_by(found_.trees[e], x, e);
    round_in_place(sums.values, wire);
    return sums;
  }

  void name(const Format& wire) {
    const int ranks = static_cast<int>(ranks_);
    std::vector<Collective> candidates{{Algorithm::rank_order, ranks, wire, {}},
                                       {Algorithm::tree, ranks, wire, {}}};
    for (int r = 0; r < ranks; ++r) candidates.push_back({Algorithm::ring, ranks, wire, r});
    std::erase_if(candidates, [&](const Collective& how) { return !explains(how); });
    const bool named = !candidates.empty();
    if (!named && of_two(found_.trees)) {
      candidates.push_back({Algorithm::any_order, ranks, wire, {}});
    }
    for (const Collective& how : candidates) {
      if (found_.is || !makes_the_bits(how)) continue;
      found_.is = how;
      found_.how = fmt::format("trees of all {} elements of a message, and every bit of drawn ones",
                               elements_);
    }
    if (found_.is) return;
    found_.why = named ? "what its trees explain does not make the bits of drawn messages"
                       : "no algorithm that has a name explains the trees";
  }
  static bool of_two(const std::vector<Tree>& trees) {
    return std::ranges::all_of(trees, [](const Tree& tree) {
      return tree->parts.empty() || (tree->parts.size() == 2 && of_two(tree->parts));
    });
  }

  void hold() {
    found_.held.operation = "all_reduce";
    Machine card{"found", "", {}, found_.is};
    for (const std::string_view kind : kinds_of(found_.is->wire)) {
      const Tensor x = drawn(kind, seed_ + 1000);
      const Tensor found = all_reduce_(x);
      const Example e = plumb::probe::example_of(*found_.is, x);
      const auto values = value_of(e);
      std::vector<const Matrix<double>*> inputs;
      for (const Matrix<double>& input : e.inputs) inputs.push_back(&input);
      const ToleranceCall call{inputs, e.attributes, e.how, Mode::deterministic, 0, values};
      const auto bound = tolerance_on(card, e.operation(), call, fp32);
      if (!bound) {
        found_.held.refused = bound.error().detail;
        return;
      }
      hold_elements(found, values[0], bound->bound[0], found_.held);
    }
  }

  const AllReduce& all_reduce_;
  std::size_t ranks_, elements_;
  unsigned seed_;
  CollectiveFound found_;
};

}  // namespace

CollectiveFound collective_of(const AllReduce& all_reduce, std::size_t ranks, std::size_t elements,
                              unsigned seed) {
  return Prober(all_reduce, ranks, elements, seed)();
}

}  // namespace plumb::probe

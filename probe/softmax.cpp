#include "probe/softmax.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include "probe/triples.hpp"

namespace plumb::probe {
namespace {

constexpr std::size_t longest_tree = 64;       // that is found without an order in mind
constexpr std::size_t most_numbers = 1 << 20;  // of a table: a limit of memory
constexpr std::size_t repetitions = 16;        // of what has to be the same each time
constexpr float nothing = -200;                // its exponential is zero

// A way to ask: two of these terms are seen beside a 1, and one is not.
struct Rung {
  float t;
  Rounding rounding;
};
constexpr std::array rungs{Rung{-17.0F, Rounding::nearest_even},
                           Rung{-16.2F, Rounding::toward_zero}};

// Asks rows of n numbers, together or each as a table of its own.
class Rows {
 public:
  Rows(const Tables& softmax, std::size_t n, bool together)
      : softmax_(softmax), n_(n), together_(together) {}

  // The rounding of sums whose results tell where terms meet; nothing if none do.
  std::optional<Rounding> rounding() {
    for (const Rung& rung : rungs) {
      if (works(rung)) return rung.rounding;
    }
    return {};
  }

  // Do i and j meet before either meets k? Of each; nothing where results do not tell.
  std::optional<std::vector<bool>> answers(const std::vector<Triple>& asked) const {
    std::vector<bool> all;
    const std::size_t at_a_time = std::max<std::size_t>(1, most_numbers / n_);
    for (std::size_t first = 0; first < asked.size(); first += at_a_time) {
      const std::size_t some = std::min(at_a_time, asked.size() - first);
      std::vector<Row> rows;
      for (std::size_t m = first; m < first + some; ++m) {
        const auto [i, j, k] = asked[m];
        rows.push_back({k, {{i, t_}, {j, t_}}});
      }
      for (const float result : results(rows)) {
        if (result != alone_ && result != beside_) return {};
        all.push_back(result == beside_);
      }
    }
    return all;
  }

 private:
  // A row with a 0 at `largest`, and some other numbers.
  struct Row {
    std::size_t largest;
    std::vector<std::pair<std::size_t, float>> others;
  };

  bool works(const Rung& rung) {
    const std::size_t last = n_ - 1;
    const float twice = rung.t + 0.6931472F;  // ln 2
    std::vector<Row> rows;
    for (std::size_t again = 0; again < repetitions; ++again) {
      rows.insert(rows.end(), {{0, {}},
                               {0, {{last, rung.t}}},
                               {last, {{0, rung.t}}},
                               {0, {{last, twice}}},
                               {last, {{0, twice}}}});
    }
    const std::vector<float> found = results(rows);
    t_ = rung.t;
    alone_ = found[0];
    beside_ = found[3];
    for (std::size_t m = 0; m < found.size(); ++m) {
      if (found[m] != (m % 5 < 3 ? alone_ : beside_)) return false;
    }
    return beside_ < alone_;
  }

  // The results at the 0 of each row.
  std::vector<float> results(const std::vector<Row>& rows) const {
    const std::size_t each = together_ ? rows.size() : 1;
    std::vector<Tensor> asked;
    for (std::size_t first = 0; first < rows.size(); first += each) {
      Tensor& x = asked.emplace_back(each, n_, nothing);
      for (std::size_t r = 0; r < each; ++r) {
        x(r, rows[first + r].largest) = 0;
        for (const auto& [k, value] : rows[first + r].others) x(r, k) = value;
      }
    }
    const std::vector<Tensor> found = softmax_(asked);
    std::vector<float> all;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      all.push_back(found[r / each](r % each, rows[r].largest));
    }
    return all;
  }

  const Tables& softmax_;
  std::size_t n_;
  bool together_;
  float t_ = 0, alone_ = 0, beside_ = 0;
};

class Softmax {
 public:
  Softmax(const Tables& softmax, const CalibrateOptions& options)
      : softmax_(softmax), options_(options) {}

  SumsFound operator()() {
    found_.offered = true;
    grow_trees();
    std::vector<Order> orders = orders_that_explain(found_.trees);
    if (found_.trees.size() < 3) {
      found_.why = "results do not tell where exponentials meet";
    } else if (orders.empty()) {
      found_.why = "no order that has a name explains the trees";
    } else {
      go_on(orders);
    }
    return std::move(found_);
  }

 private:
  void grow_trees() {
    for (const std::size_t n : probed_lengths) {
      if (n > std::min(longest_tree, options_.longest)) return;
      options_.progress(fmt::format("the tree of a softmax of {} numbers", n));
      Tree tree = n == 1 ? leaf(0) : tree_of(n);
      if (!tree) return;
      found_.trees[n] = std::move(tree);
    }
  }

  // Do sums of n terms tell, and are they rounded as the others?
  bool tells(Rows& rows) {
    const auto rounding = rows.rounding();
    if (!rounding_) rounding_ = rounding;
    return rounding && rounding == rounding_;
  }

  Tree tree_of(std::size_t n) {
    Rows rows(softmax_, n, true);
    if (!tells(rows)) return {};
    return tree_from(n, [&](const std::vector<Meet>& asked) { return meetings(rows, n, asked); });
  }

  // Where i and j meet: all that meet them later, and no others, lie outside of that part.
  static std::optional<std::vector<std::vector<std::size_t>>> meetings(
      const Rows& rows, std::size_t n, const std::vector<Meet>& asked) {
    std::vector<Triple> triples;
    for (const Meet& one : asked) {
      for (const std::size_t j : one.others) {
        for (std::size_t k = 0; k < n; ++k) {
          if (k != one.i && k != j) triples.push_back({one.i, j, k});
        }
      }
    }
    const auto later = rows.answers(triples);
    if (!later) return {};
    std::vector<std::vector<std::size_t>> sizes;
    auto at = later->begin();
    for (const Meet& one : asked) {
      sizes.emplace_back();
      for (std::size_t m = 0; m < one.others.size(); ++m) {
        const auto end = at + static_cast<std::ptrdiff_t>(n - 2);
        sizes.back().push_back(n - static_cast<std::size_t>(std::count(at, end, true)));
        at = end;
      }
    }
    return sizes;
  }

  // Follows the orders to longer sums, as far as one of them has the trees.
  void go_on(std::vector<Order> orders) {
    std::size_t up_to = orders[0].up_to;
    for (const std::size_t n : probed_lengths) {
      if (up_to < std::min(longest_tree, options_.longest) || n > options_.longest) break;
      if (n <= up_to) continue;
      options_.progress(fmt::format("partial sums of a softmax of {} numbers", n));
      Rows rows(softmax_, n, true);
      if (!tells(rows)) break;
      std::vector<Order> left = orders;
      std::erase_if(left, [&](const Order& order) {
        return !all_true(rows.answers(triples_of(plumb::probe::tree_of(order, n))));
      });
      if (left.empty()) break;
      orders = std::move(left);
      up_to = n;
    }
    Order order = orders[0];
    order.up_to = up_to;
    order.rounding = *rounding_;
    if (share_of_meetings(softmax_, order, options_.seed) < 1) {
      found_.why = fmt::format("{} explains tables of many rows, and not single rows",
                               plumb::text_of(order));
      return;
    }
    found_.order = order;
    found_.how = fmt::format("trees of up to {} exponentials{}, and single rows",
                             std::min(longest_tree, up_to),
                             up_to > longest_tree ? ", each partial sum of longer ones" : "");
  }

  static bool all_true(const std::optional<std::vector<bool>>& answers) {
    return answers && std::ranges::count(*answers, false) == 0;
  }

  const Tables& softmax_;
  const CalibrateOptions& options_;
  std::optional<Rounding> rounding_;
  SumsFound found_;
};

std::vector<Triple> drawn_triples(std::size_t n, std::size_t count, std::mt19937& random) {
  std::vector<Triple> all;
  while (all.size() < count) {
    const Triple t{random() % n, random() % n, random() % n};
    if (t.i != t.j && t.i != t.k && t.j != t.k) all.push_back(t);
  }
  return all;
}

}  // namespace

double share_of_meetings(const Tables& softmax, const Order& order, unsigned seed) {
  constexpr std::size_t lengths = 6, triples = 16;
  std::mt19937 random(seed);
  std::size_t same = 0;
  for (std::size_t draw = 0; draw < lengths; ++draw) {
    const std::size_t n = 3 + random() % (order.up_to - 2);
    const std::vector<Triple> asked = drawn_triples(n, triples, random);
    Rows rows(softmax, n, false);
    if (rows.rounding() != order.rounding) return 0;
    const auto found = rows.answers(asked);
    if (!found) return 0;
    const auto expected = answers_of(plumb::probe::tree_of(order, n), asked);
    for (std::size_t m = 0; m < triples; ++m) same += (*found)[m] == expected[m] ? 1 : 0;
  }
  return static_cast<double>(same) / (lengths * triples);
}

SumsFound order_of_softmax(const Subject& subject, const CalibrateOptions& options) {
  const auto of = subject.tables.find("softmax");
  if (of == subject.tables.end() || of->second({Tensor(1, 2, 0.0F)}).empty()) return {};
  return Softmax(of->second, options)();
}

}  // namespace plumb::probe

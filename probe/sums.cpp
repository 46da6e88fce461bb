#include "probe/sums.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "bounds/examples/draw.hpp"
#include "probe/emulation.hpp"
#include "probe/masked.hpp"
#include "probe/softmax.hpp"

namespace plumb::probe {
namespace {

constexpr std::size_t usual = 24;  // sums of most drawn tables

Tensor transposed(const Tensor& x) {
  Tensor y(x.cols, x.rows);
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t j = 0; j < y.cols; ++j) y(i, j) = x(j, i);
  }
  return y;
}

// One kind of sums: row r of a table of terms becomes sum r.
class Sums {
 public:
  Sums(const Subject& subject, std::string name) : subject_(subject), name_(std::move(name)) {}

  // One sum for each row of each table; nothing where the subject has none.
  std::vector<Tensor> operator()(const std::vector<Tensor>& terms) const {
    const auto of = subject_.tables.find(name_);
    if (of == subject_.tables.end()) return {};
    if (name_ == "row_sum") return of->second(terms);
    std::vector<Tensor> columns;
    for (const Tensor& x : terms) columns.push_back(transposed(x));
    return of->second(columns);
  }

  // Masks ask for products; those of a row are taken exactly here, and summed there.
  Subject as_products() const {
    Subject products = subject_;
    products.input = fp32;
    products.multiply = [*this](const std::vector<Operands>& asked) {
      std::vector<Tensor> terms;
      for (const auto& [a, b] : asked) terms.push_back(products_of(a, b));
      const std::vector<Tensor> sums = (*this)(terms);
      std::vector<Tensor> all;
      for (const Tensor& sum : sums) {
        Tensor& c = all.emplace_back(sum.size(), sum.size());
        for (std::size_t r = 0; r < sum.size(); ++r) c(r, r) = sum.values[r];
      }
      return all;
    };
    return products;
  }

  // Drawn tables and their sums, as products with ones. The first is as wide as `wide`, the second a
  // single sum, which libraries like to take otherwise.
  std::vector<Sample> samples(std::size_t terms, std::size_t wide, unsigned seed) const {
    static constexpr std::array kinds{"plain", "spread", "cancelling", "positive", "powers"};
    Draw shapes("plain", seed);
    std::vector<Tensor> asked;
    for (std::size_t i = 0; i < 2 * kinds.size(); ++i) {
      const std::size_t rows = i == 0 && wide > 0 ? wide : i == 1 ? 1 : shapes.between(1, usual);
      const std::size_t shortest = std::min<std::size_t>(2, terms);
      const std::size_t cols = i == 1 || i % 2 == 0 ? terms : shapes.between(shortest, terms);
      Draw draw(kinds[i / 2], seed * 64 + static_cast<unsigned>(i));
      asked.push_back(converted<float>(draw.matrix(rows, cols)));
    }
    const std::vector<Tensor> sums = (*this)(asked);
    std::vector<Sample> all;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Tensor ones(asked[i].cols, 1, 1.0F);
      all.push_back({{std::move(asked[i]), ones}, sums[i], kinds[i / 2]});
    }
    return all;
  }

 private:
  static Tensor products_of(const Tensor& a, const Tensor& b) {
    Tensor x(a.rows, a.cols);
    for (std::size_t r = 0; r < x.rows; ++r) {
      for (std::size_t k = 0; k < x.cols; ++k) x(r, k) = a(r, k) * b(k, r);
    }
    return x;
  }

  const Subject& subject_;
  std::string name_;
};

// Lengths of sums that no card speaks of: a few.
bool is_told(std::size_t n) { return std::has_single_bit(n) || n == 17 || n == 100; }

// Those that make every bit. Products with ones are exact, so that one candidate of each two is enough.
std::vector<Emulated> orders_left(const std::vector<Order>& orders,
                                  const std::vector<Sample>& samples) {
  std::vector<Emulated> all = candidates_in(orders);
  std::erase_if(all, [](const Emulated& each) { return !each.fused; });
  return left_of(all, samples);
}

void choose_order(const Sums& sums, std::size_t wide, unsigned seed, SumsFound& found) {
  const auto orders = orders_that_explain(found.trees);
  if (orders.empty()) {
    found.why = "no order that has a name explains the trees";
    return;
  }
  const std::size_t terms = orders[0].up_to;
  const auto left = orders_left(orders, sums.samples(terms, wide, seed));
  const bool agree = std::ranges::all_of(
      left, [&](const Emulated& each) { return each.order.rounding == left[0].order.rounding; });
  if (left.empty() || !agree) {
    found.why = fmt::format("{} explains the trees, and {}", plumb::text_of(orders[0]),
                            left.empty() ? "does not make the bits of drawn tables"
                                         : "several roundings make the bits of drawn tables");
    return;
  }
  found.order = left[0].order;
  found.how = fmt::format("trees of up to {} terms, and every bit of drawn tables of up to {} sums",
                          terms, std::max(usual, wide));
}

void observe(const std::string& what, const SumsFound& found, Findings& findings) {
  if (found.trees.empty()) return;
  const auto& [n, tree] = *found.trees.rbegin();
  const std::string order = found.order ? plumb::text_of(*found.order) + "; " : "";
  findings.observed(what, fmt::format("{}of {} terms {}", order, n, text_of(tree)));
}

void tell(const std::string& fact, const SumsFound& found, Findings& findings) {
  if (!found.order) return findings.unknown(fact, found.why);
  if (findings.adds_in_fp32(found.order->rounding)) {
    return findings.fact(fact, plumb::text_of(*found.order), found.how);
  }
  findings.unknown(fact, fmt::format("its sums are rounded to {}, which is not what the card says "
                                     "of sums",
                                     name_of(found.order->rounding)));
}

}  // namespace

SumsFound order_of_sums(const Subject& subject, const std::string& name,
                        const CalibrateOptions& options) {
  const Sums sums(subject, name);
  SumsFound found;
  found.offered = !sums({Tensor(1, 2, 1.0F)}).empty();
  if (!found.offered) return found;
  const Subject products = sums.as_products();
  for (const std::size_t n : probed_lengths) {
    if (n > options.longest) break;
    if (name == "row_sum" && !is_told(n)) continue;
    options.progress(fmt::format("the tree of a {} of {} terms", name, n));
    Tree tree = tree_of(products, n);
    if (!tree) break;
    found.trees[n] = std::move(tree);
  }
  choose_order(sums, subject.tile > 1 ? options.widest : 0, options.seed, found);
  return found;
}

double share_of_sums(const Subject& subject, const Order& order, unsigned seed) {
  const auto samples = Sums(subject, "column_sum").samples(order.up_to, 0, seed);
  return share_equal({.order = order}, samples);
}

void find_sums(const Subject& subject, const CalibrateOptions& options, Findings& findings) {
  const SumsFound columns = order_of_sums(subject, "column_sum", options);
  if (columns.offered) tell("order_column_sum", columns, findings);
  observe("sums of columns", columns, findings);
  observe("sums of rows", order_of_sums(subject, "row_sum", options), findings);
  const SumsFound exponentials = order_of_softmax(subject, options);
  if (exponentials.offered) tell("order_softmax", exponentials, findings);
  observe("sum of a softmax", exponentials, findings);
}

}  // namespace plumb::probe

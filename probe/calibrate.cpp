#include "probe/calibrate.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "probe/casts.hpp"
#include "probe/chance.hpp"
#include "probe/findings.hpp"
#include "probe/functions.hpp"
#include "probe/masked.hpp"
#include "probe/special.hpp"
#include "probe/sums.hpp"

namespace plumb::probe {
namespace {

constexpr std::size_t usual = 24;    // rows and columns of most products
constexpr unsigned most_rounds = 8;  // of samples that tell matrix units apart

constexpr const char* out_of_reach = "products of the format do not reach them";
constexpr const char* mixed = "neither keeping all of them nor flushing them makes the bits";

bool has_steps(const Tree& tree) {
  return tree->parts.size() > 2 || std::ranges::any_of(tree->parts, has_steps);
}
bool has_steps(const Trees& trees) {
  return std::ranges::any_of(trees, [](const auto& each) { return has_steps(each.second); });
}

// Of one subject, fact by fact.
class Calibrator {
 public:
  Calibrator(const Subject& subject, const CalibrateOptions& options)
      : subject_(subject), options_(options), findings_(found_, options.source) {}

  Calibration operator()() {
    found_.card.id = subject_.name;
    found_.card.title =
        fmt::format("products of {} numbers by {:.100}", subject_.input.name, subject_.name);
    repeat();
    grow_trees();
    explain();
    find_special(subject_, findings_);
    find_functions(subject_, options_, findings_);
    find_casts(subject_, options_, findings_);
    find_sums(subject_, options_, findings_);
    options_.progress("holding its tolerances against products that no probe used");
    found_.validation =
        validate(subject_, found_.card, found_.emulations, longest(), wide(), options_.seed + 1000);
    validate_functions(subject_, found_.card, options_.arguments, options_.seed + 1000,
                       found_.validation);
    validate_tables(subject_, found_.card, options_.longest, options_.seed + 1000,
                    found_.validation);
    return std::move(found_);
  }

 private:
  // A large product costs much where each step of it is emulated.
  std::size_t wide() const { return subject_.tile > 1 ? options_.widest : 0; }
  Samples which(std::size_t terms) const {
    return {.largest = usual, .terms = terms, .seed = options_.seed, .wide = wide()};
  }
  std::vector<Sample> samples(std::size_t terms) const {
    return samples_of(subject_, which(terms));
  }
  std::vector<Sample> tiny_samples(std::size_t terms) const {
    Samples tiny = which(terms);
    tiny.tiny = true;
    tiny.wide = 0;
    return samples_of(subject_, tiny);
  }

  // Of short sums and of the longest ones, which a kernel may share out among workers.
  void repeat() {
    const std::size_t longest = options_.longest;
    std::size_t again = 0, all = 0;
    for (const std::size_t terms :
         std::set<std::size_t>{std::min<std::size_t>(64, longest), longest}) {
      options_.progress(fmt::format("asking for the same products of {} terms again", terms));
      const auto once = samples(terms);
      again += asked_again(once);
      all += 3 * once.size();
      cut_up(once);
    }
    found_.repeats = again == all;
    findings_.observed("the same products again",
                       found_.repeats
                           ? fmt::format("the same bits, {} times of {}", again, all)
                           : fmt::format("other bits, {} times of {}", all - again, all));
  }

  // How often each of these products has the same bits in three further tries.
  std::size_t asked_again(const std::vector<Sample>& once) {
    std::vector<Operands> asked;
    for (const Sample& s : once) asked.push_back(s.operands);
    std::size_t same = 0;
    for (int again = 0; again < 3; ++again) {
      const std::vector<Tensor> found = subject_.multiply(asked);
      for (std::size_t i = 0; i < once.size(); ++i) {
        same += same_numbers(found[i], once[i].found) ? 1 : 0;
      }
    }
    return same;
  }

  // Each sample again, without its first rows and columns.
  void cut_up(const std::vector<Sample>& whole) {
    std::vector<Operands> asked;
    for (const Sample& s : whole) asked.push_back(without_first(s.operands));
    const std::vector<Tensor> found = subject_.multiply(asked);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const Tensor& c = whole[i].found;
      Tensor part(found[i].rows, found[i].cols);
      for (std::size_t r = 0; r < part.rows; ++r) {
        std::copy_n(c.row(r + c.rows - part.rows) + (c.cols - part.cols), part.cols, part.row(r));
      }
      found_.slice_invariant = found_.slice_invariant && same_numbers(found[i], part);
    }
  }

  void grow_trees() {
    for (const std::size_t n : probed_lengths) {
      if (n > options_.longest) break;
      options_.progress(fmt::format("the tree of a sum of {} products", n));
      Tree tree = tree_of(subject_, n);
      if (!tree) {
        if (n <= 3) no_tree_ = fmt::format("masked sums of {} products contradict each other", n);
        return;
      }
      found_.trees[n] = std::move(tree);
    }
  }

  std::size_t longest() const { return found_.trees.empty() ? 3 : found_.trees.rbegin()->first; }

  void explain() {
    options_.progress("trying each arithmetic that would do so");
    if (has_steps(found_.trees)) return explain_steps();
    if (!found_.repeats) return explain_chance();
    std::vector<Order> orders = orders_that_explain(found_.trees);
    if (!orders.empty() && explain_sums(orders, orders[0].up_to)) {
      Order order = found_.emulations[0].order;
      findings_.fact("order_gemm", plumb::text_of(order),
                     trees_text() + "; " + bits_text(order.up_to));
    } else {
      if (!explain_pairs()) {
        findings_.unknown("rounding", "no rounding of FP32 makes the bits of sums of two products");
        return findings_.unknown("order_gemm", why_no_order(orders));
      }
      findings_.unknown("order_gemm", why_no_order(orders));
      findings_.fact("order_gemm", "any", "the order depends on the shape, or has no name");
    }
    findings_.fact("slice_invariant", found_.slice_invariant ? "yes" : "no",
                   "products cut and repeated");
  }

  std::string why_no_order(const std::vector<Order>& orders) const {
    if (!no_tree_.empty()) return no_tree_;
    if (orders.empty()) return "no order that has a name explains the trees";
    return fmt::format("{} explains products of {} x n x {}, and not those of other shapes",
                       plumb::text_of(orders[0]), subject_.tile, subject_.tile);
  }

  // Finds roundings that make all bits; says what they agree on.
  bool explain_sums(const std::vector<Order>& orders, std::size_t terms) {
    auto left = left_of(candidates_in(orders), samples(terms));
    if (left.empty()) return false;
    const auto agree = [&](const auto& of) {
      return std::ranges::all_of(left, [&](const Emulated& e) { return of(e) == of(left[0]); });
    };
    if (!agree([](const Emulated& e) { return e.order.rounding; })) return false;
    const std::string how = bits_text(terms);
    findings_.fact("accumulator", "fp32", how);
    findings_.fact("rounding", std::string(name_of(left[0].order.rounding)), how);
    explain_subnormals(left, terms);
    const bool fused = std::ranges::any_of(left, &Emulated::fused);
    if (terms > 2) findings_.fact("fma", fused ? "as_written" : "any", how);
    if (fused) std::erase_if(left, [](const Emulated& e) { return !e.fused; });
    found_.emulations = std::move(left);
    return true;
  }

  // Of sums of two products, whose order matters only to what is rounded first.
  bool explain_pairs() {
    found_.emulations.clear();
    std::vector<Emulated> kept = candidates_in({Order{}, Order{.swapped = true}});
    const auto left = roundings_left(kept, samples(2));
    if (left.size() != 1) return false;
    const std::string how = "every element of drawn products of two terms";
    findings_.fact("accumulator", "fp32", how);
    findings_.fact("rounding", std::string(name_of(left[0])), how);
    findings_.fact("fma", "any", "the order is not known");
    std::vector<Emulated> flushed = kept;
    for (Emulated& e : flushed) e.flushes = true;
    const auto tiny = tiny_samples(2);
    const bool keeps = !roundings_left(kept, tiny).empty();
    if (keeps == !roundings_left(flushed, tiny).empty()) {
      findings_.unknown("subnormals", keeps ? out_of_reach : mixed);
    } else {
      findings_.fact("subnormals", keeps ? "kept" : "flushed",
                     "products of two terms around 2^-126");
    }
    return true;
  }

  void explain_subnormals(std::vector<Emulated>& left, std::size_t terms) {
    const auto tiny = tiny_samples(terms);
    std::vector<Emulated> both = left;
    for (const Emulated& e : left) {
      both.push_back(e);
      both.back().flushes = true;
    }
    const auto rest = left_of(both, tiny);
    const bool kept = std::ranges::any_of(rest, [](const Emulated& e) { return !e.flushes; });
    const bool flushed = std::ranges::any_of(rest, &Emulated::flushes);
    if (kept == flushed) {
      return findings_.unknown("subnormals", kept ? out_of_reach : mixed);
    }
    findings_.fact("subnormals", kept ? "kept" : "flushed", "every bit of products around 2^-126");
    left = rest;
  }

  void explain_steps() {
    const auto steps = steps_that_explain(found_.trees);
    if (!steps) return findings_.unknown("mma", "no chain of steps explains the trees");
    auto left = candidates_in(*steps, subject_.input);
    for (unsigned more = 0; more < most_rounds && left.size() > 1; ++more) {
      Samples next = which(longest());
      next.seed += more;
      left = left_of(left, samples_of(subject_, next));
    }
    if (left.empty())
      return findings_.unknown("mma", "no grid and no number of kept bits makes the bits");
    found_.emulations = left;
    if (steps->parts) {
      return findings_.unknown("mma", fmt::format("FP32 adds up {}, which no card can say",
                                                  plumb::text_of(*steps->parts)));
    }
    const auto agree = [&](int Mma::*of) {
      return std::ranges::all_of(
          left, [&](const Emulated& e) { return *e.unit.*of == *left[0].unit.*of; });
    };
    const Mma& unit = *left[0].unit;
    if (!agree(&Mma::grid) || !agree(&Mma::kept)) {
      return findings_.unknown(
          "mma", fmt::format("{} pairs of grid and kept bits make the same bits", left.size()));
    }
    findings_.fact("accumulator", "mma", trees_text());
    findings_.fact("rounding", "toward_zero", "every bit of drawn products");
    findings_.fact("mma_" + std::string(subject_.input.name),
                   fmt::format("terms {} grid {} kept {}", unit.terms, unit.grid, unit.kept),
                   "every bit of drawn products; " + trees_text());
    if (unit.promoted_after > 0) {
      findings_.fact("promoted_after", std::to_string(unit.promoted_after), trees_text());
    }
    findings_.fact("slice_invariant", found_.slice_invariant ? "yes" : "no",
                   "products cut and repeated");
  }

  // The same products have other bits each time: are roundings drawn?
  void explain_chance() {
    found_.slice_invariant = false;
    if (!rounds_by_chance(subject_)) {
      return findings_.unknown("rounding",
                               "the same product has other bits each time, and not as stochastic "
                               "rounding has them");
    }
    findings_.fact("accumulator", "fp32", "sums of two");
    findings_.fact("rounding", "stochastic",
                   fmt::format("{} sums of two each, a quarter and five eighths of "
                               "a spacing between numbers",
                               coins));
    const auto orders = orders_that_explain(found_.trees);
    if (orders.empty()) {
      findings_.unknown("order_gemm", why_no_order(orders));
    } else {
      findings_.fact("order_gemm", plumb::text_of(orders[0]), trees_text());
    }
    findings_.fact("slice_invariant", "no", "the same product has other bits each time");
  }

  std::string bits_text(std::size_t terms) const {
    const std::size_t size = std::max(usual, wide());
    return fmt::format("every bit of drawn products, up to {} x {} x {}", size, terms, size);
  }
  std::string trees_text() const {
    return fmt::format("trees of sums of up to {} products, in products of {} x n x {}", longest(),
                       subject_.tile, subject_.tile);
  }

  const Subject& subject_;
  const CalibrateOptions& options_;
  Calibration found_;
  Findings findings_;
  std::string no_tree_;  // why none was found, not even of three products
};

}  // namespace

Calibration calibrate(const Subject& subject, const CalibrateOptions& options) {
  return Calibrator(subject, options)();
}

}  // namespace plumb::probe

#include "probe/calibrate.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "probe/functions.hpp"
#include "probe/masked.hpp"

namespace plumb::probe {
namespace {

constexpr std::size_t probed_lengths[] = {
    1,   2,   3,   4,   5,   6,    7,    8,    12,   15,   16,   17,   24,  31,
    32,  33,  48,  64,  96,  100,  128,  192,  200,  256,  320,  384,  385, 448,
    500, 512, 640, 768, 900, 1000, 1024, 1536, 2000, 2048, 3072, 4000, 4096};
constexpr std::size_t usual = 24;    // rows and columns of most products
constexpr unsigned most_rounds = 8;  // of samples that tell matrix units apart
constexpr std::size_t coins = 512;   // sums that show whether roundings are stochastic

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
      : subject_(subject), options_(options) {}

  Calibration operator()() {
    found_.card.id = subject_.name;
    found_.card.title =
        fmt::format("products of {} numbers by {:.100}", subject_.input.name, subject_.name);
    repeat();
    grow_trees();
    explain();
    explain_functions();
    options_.progress("holding its tolerances against products that no probe used");
    found_.validation =
        validate(subject_, found_.card, found_.emulations, longest(), wide(), options_.seed + 1000);
    validate_functions(subject_, found_.card, options_.arguments, options_.seed + 1000,
                       found_.validation);
    return std::move(found_);
  }

 private:
  void fact(std::string name, std::string value, const std::string& how) {
    found_.card.facts.push_back({std::move(name), std::move(value), Provenance::measured,
                                 fmt::format("{}: {}", options_.source, how)});
  }
  void unknown(std::string name, std::string why) {
    found_.unknown.push_back({std::move(name), std::move(why)});
  }
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

  void repeat() {
    options_.progress("asking for the same products again");
    const auto once = samples(64);
    std::vector<Operands> asked;
    for (const Sample& s : once) asked.push_back(s.operands);
    for (int again = 0; again < 3; ++again) {
      const std::vector<Tensor> found = subject_.multiply(asked);
      for (std::size_t i = 0; i < once.size(); ++i) {
        found_.repeats = found_.repeats && same_numbers(found[i], once[i].found);
      }
    }
    cut_up(once);
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
        if (n > 3) return;
        return unknown("order_gemm",
                       fmt::format("masked sums of {} products contradict each other", n));
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
      fact("order_gemm", plumb::text_of(order), trees_text() + "; " + bits_text(order.up_to));
    } else {
      if (!explain_pairs()) {
        return unknown("rounding", "no rounding of FP32 makes the bits of sums of two products");
      }
      unknown("order_gemm", orders.empty() ? "no order that has a name explains the trees"
                                           : fmt::format("{} explains products of {} x n x {}, and "
                                                         "not those of other shapes",
                                                         plumb::text_of(orders[0]), subject_.tile,
                                                         subject_.tile));
      fact("order_gemm", "any", "the order depends on the shape, or has no name");
    }
    fact("slice_invariant", found_.slice_invariant ? "yes" : "no", "products cut and repeated");
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
    fact("accumulator", "fp32", how);
    fact("rounding", std::string(name_of(left[0].order.rounding)), how);
    explain_subnormals(left, terms);
    const bool fused = std::ranges::any_of(left, &Emulated::fused);
    if (terms > 2) fact("fma", fused ? "as_written" : "any", how);
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
    fact("accumulator", "fp32", how);
    fact("rounding", std::string(name_of(left[0])), how);
    fact("fma", "any", "the order is not known");
    std::vector<Emulated> flushed = kept;
    for (Emulated& e : flushed) e.flushes = true;
    const auto tiny = tiny_samples(2);
    const bool keeps = !roundings_left(kept, tiny).empty();
    if (keeps == !roundings_left(flushed, tiny).empty()) {
      unknown("subnormals", keeps ? out_of_reach : mixed);
    } else {
      fact("subnormals", keeps ? "kept" : "flushed", "products of two terms around 2^-126");
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
      return unknown("subnormals", kept ? out_of_reach : mixed);
    }
    fact("subnormals", kept ? "kept" : "flushed", "every bit of products around 2^-126");
    left = rest;
  }

  void explain_steps() {
    const auto steps = steps_that_explain(found_.trees);
    if (!steps) return unknown("mma", "no chain of steps explains the trees");
    auto left = candidates_in(*steps, subject_.input);
    for (unsigned more = 0; more < most_rounds && left.size() > 1; ++more) {
      Samples next = which(longest());
      next.seed += more;
      left = left_of(left, samples_of(subject_, next));
    }
    if (left.empty()) return unknown("mma", "no grid and no number of kept bits makes the bits");
    found_.emulations = left;
    if (steps->parts) {
      return unknown("mma", fmt::format("FP32 adds up {}, which no card can say",
                                        plumb::text_of(*steps->parts)));
    }
    const auto agree = [&](int Mma::*of) {
      return std::ranges::all_of(
          left, [&](const Emulated& e) { return *e.unit.*of == *left[0].unit.*of; });
    };
    const Mma& unit = *left[0].unit;
    if (!agree(&Mma::grid) || !agree(&Mma::kept)) {
      return unknown("mma",
                     fmt::format("{} pairs of grid and kept bits make the same bits", left.size()));
    }
    fact("accumulator", "mma", trees_text());
    fact("rounding", "toward_zero", "every bit of drawn products");
    fact("mma_" + std::string(subject_.input.name),
         fmt::format("terms {} grid {} kept {}", unit.terms, unit.grid, unit.kept),
         "every bit of drawn products; " + trees_text());
    if (unit.promoted_after > 0) {
      fact("promoted_after", std::to_string(unit.promoted_after), trees_text());
    }
    fact("slice_invariant", found_.slice_invariant ? "yes" : "no", "products cut and repeated");
  }

  // The same products have other bits each time: are roundings drawn?
  void explain_chance() {
    found_.slice_invariant = false;
    if (!rounds_by_chance()) {
      return unknown("rounding",
                     "the same product has other bits each time, and not as stochastic "
                     "rounding has them");
    }
    fact("accumulator", "fp32", "sums of two");
    fact("rounding", "stochastic",
         fmt::format("{} sums of two each, a quarter and five eighths of "
                     "a spacing between numbers",
                     coins));
    const auto orders = orders_that_explain(found_.trees);
    if (!orders.empty()) fact("order_gemm", plumb::text_of(orders[0]), trees_text());
    fact("slice_invariant", "no", "the same product has other bits each time");
  }

  void explain_functions() {
    for (const KnownFunction& known : known_functions()) {
      const auto of = subject_.functions.find(known.name);
      if (of == subject_.functions.end()) continue;
      options_.progress(fmt::format("results of {}", known.name));
      const Arguments arguments = arguments_of(known, options_.arguments, options_.seed);
      const std::vector<float> results = of->second(arguments.first, arguments.second);
      if (results.empty()) continue;
      const FunctionErrors errors = errors_of(known, arguments, results);
      const auto claim = errors.claim();
      if (!claim) {
        unknown(known.fact,
                fmt::format("{}({}) is off by {:.3g} ulp", known.name, errors.x, errors.largest));
        continue;
      }
      fact(known.fact, fmt::format("{}", *claim),
           fmt::format("{} arguments, all of BF16 and FP16 among them; the largest error is {:.4f} "
                       "ulp at {}",
                       errors.inputs, errors.largest, errors.x));
    }
  }

  // Is 1 + share 2^-23 rounded up with that probability (five standard deviations)?
  bool rounds_up(float share) const {
    Tensor a(coins, 2), b(coins, 2, 1.0F);
    for (std::size_t row = 0; row < coins; ++row) {
      a(row, 0) = 1;
      a(row, 1) = share * 0x1p-11F;
      b(row, 1) = 0x1p-12F;
    }
    std::size_t up = 0;
    for (const float sum : sums_of(subject_, a, b)) {
      if (sum != 1 && sum != 1 + 0x1p-23F) return false;
      up += sum > 1 ? 1 : 0;
    }
    const double n = coins, p = share;
    return std::fabs(static_cast<double>(up) - n * p) < 5 * std::sqrt(n * p * (1 - p));
  }
  bool rounds_by_chance() const { return rounds_up(0.25F) && rounds_up(0.625F); }

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
};

}  // namespace

Calibration calibrate(const Subject& subject, const CalibrateOptions& options) {
  return Calibrator(subject, options)();
}

}  // namespace plumb::probe

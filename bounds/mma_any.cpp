#include "bounds/mma_any.hpp"

#include "bounds/proof/term.hpp"

namespace plumb::bounds {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// The products of one element.
struct Products {
  double exact = 0, lost = 0;  // their sum; what FP64 drops of it
  double size = 0;             // the sum of their magnitudes
  int last = -never;           // all are multiples of 2 to this
};

Products products_of(const double* a, const Reach* of_a, const double* b, const Reach* of_b,
                     std::size_t n) {
  Products all;
  for (std::size_t k = 0; k < n; ++k) {
    const double p = a[k] * b[k];
    if (p == 0) continue;
    add_to(all.exact, p, all.lost);
    all.size += std::fabs(p);
    all.last = std::min(all.last, of_a[k].last + of_b[k].last);
  }
  return all;
}

// Steps, and the sums that they make.
struct Counts {
  Counts(std::size_t n, std::size_t terms)
      : sums(std::max<std::size_t>(1, n / terms)), steps((2 * n + terms - 1) / terms + sums) {}
  std::size_t sums, steps;
};

}  // namespace

AnySteps in_any_steps(const double* a, const Reach* of_a, const double* b, const Reach* of_b,
                      std::size_t n, const Mma& unit) {
  const Products all = products_of(a, of_a, b, of_b, n);
  if (all.size == 0) return {0, 0};
  if (!std::isfinite(all.size)) return {all.exact, infinite};
  const Counts count(n, static_cast<std::size_t>(unit.terms));
  // The products that a grid 2^grid may cut.
  const auto cut_at = [&](int grid) {
    std::size_t cuts = 0;
    for (std::size_t k = 0; k < n; ++k) {
      cuts += a[k] * b[k] != 0 && of_a[k].last + of_b[k].last < grid ? 1 : 0;
    }
    return static_cast<double>(cuts);
  };
  const auto steps = static_cast<double>(count.steps), sums = static_cast<double>(count.sums);
  const auto lost_at = [&](int top) {
    const int of_sum = std::max(top, fp32.emin);
    const int grid = std::max(top, unit.zero.value_or(never)) - unit.grid;
    const int kept = of_sum - unit.kept, joined = of_sum - 23;
    double lost = 0;
    if (grid > all.last) {
      lost += term<"mma.any_grid">((cut_at(grid) + steps) * power_of_two(grid));
    }
    if (kept > all.last) {
      lost += term<"mma.any_kept">(steps * power_of_two(unit.nearest ? kept - 1 : kept));
    }
    if (joined > all.last) lost += term<"mma.any_joined">((sums - 1) * power_of_two(joined));
    return lost;
  };
  // Sums are as large as what they add up and what was lost of it, which depends on how large they are.
  int top = exponent_of(all.size * (1 + 0x1p-40));
  double lost = lost_at(top);
  while (all.size + lost >= power_of_two(top + 1)) {
    if (++top > fp32.emax) return {all.exact, infinite};
    lost = lost_at(top);
  }
  if (!(all.size + lost <= fp32.largest())) return {all.exact, infinite};
  return {all.exact, (lost + all.lost) * (1 + 0x1p-40)};
}

}  // namespace plumb::bounds

#include "bounds/mma_worst.hpp"

#include "bounds/proof/term.hpp"

namespace plumb::bounds {

void Worst::cut(double times, int exponent) {
  const double spacing = times > 0 ? power_of_two(exponent) : 0;
  error += times * spacing;
  energy += times * spacing * spacing;
}

void Worst::round(int exponent, double added) {
  const double half = term<"mma.nearest">(power_of_two(exponent - 1));
  error += half;
  if (std::fabs(added) < 8 * half) {
    drift += term<"mma.stagnation">(half);
  } else {
    energy += half * half;
  }
}

void Worst::has_bits(int bits) {
  const double least = std::fabs(exact) - error;
  last_ = std::max(last_, std::max(exponent_of(least), unit_.sum.emin) - bits);
}

void Worst::take(const Step& step) {
  if (std::isinf(error)) return;
  // AMD's units take products as FP32 numbers.
  const bool wide = unit_.kind == Mma::Kind::aligned || unit_.kind == Mma::Kind::exact;
  for (const Step::Addend& x : step.addends()) {
    if (!wide && std::fabs(x.value) > fp32.largest()) return overflow();
  }
  if (unit_.kind == Mma::Kind::paired) {
    take_in_pairs(step);
  } else if (unit_.kind == Mma::Kind::floored) {
    take_floored(step);
  } else {
    take_at_once(step);
  }
  if (!(std::fabs(exact) + error <= unit_.sum.largest())) overflow();
}

void Worst::take_at_once(const Step& step) {
  const bool exactly = unit_.kind == Mma::Kind::exact, nearest = exactly || unit_.nearest;
  // Zeros alone leave a sum as it is, unless the grid is coarser than what is kept of it.
  if (step.addends().empty() && (exactly || unit_.kept <= unit_.grid)) return;
  const int of_products = std::max(step.top, unit_.zero.value_or(never));
  const bool was_empty = empty();
  if (was_empty && step.top == never) return;
  // At most; at least that of the products.
  const int grid =
      exactly ? never : std::max(of_products, was_empty ? never : of_sum()) - unit_.grid;
  int cuts = !was_empty && last_ < grid ? 1 : 0;
  for (const Step::Addend& x : step.addends()) cuts += x.last < grid ? 1 : 0;
  cut(term<"mma.grid">(cuts), grid);
  add(step);
  const int finest = exactly ? never : of_products - unit_.grid;
  last_ = std::min(step.last_on(finest), was_empty ? -never : std::max(last_, finest));
  const int kept = of_sum() - unit_.kept;
  if (kept > last_ && nearest) round(kept, step.sum);
  if (kept > last_ && !nearest) cut(term<"mma.kept">(1), kept);
  has_bits(unit_.kept);
}

namespace {

// What FP32 loses of a sum that is known up to `off`, where it flushes subnormal numbers.
double lost_of(double sum, double off) {
  const double most = std::fabs(sum) + off;
  const bool may_flush = most > 0 && std::fabs(sum) - off < 0x1p-126;
  return term<"mma.pairs">(0x1p-24 * most) + term<"mma.flush">(may_flush ? 0x1p-126 : 0);
}

}  // namespace

void Worst::take_in_pairs(const Step& step) {
  if (step.addends().empty()) return;
  double pairs[2] = {}, flushed = 0;
  for (const Step::Addend& x : step.addends()) {
    const bool gone = x.of_subnormal || std::fabs(x.value) < 0x1p-126;
    (gone ? flushed : pairs[x.slot / 2]) += gone ? std::fabs(x.value) : x.value;
  }
  for (const double sum : {pairs[0], pairs[1], pairs[0] + pairs[1]}) {
    if (std::fabs(sum) > fp32.largest() * (1 - 0x1p-20)) return overflow();
  }
  double off = lost_of(pairs[0], 0) + lost_of(pairs[1], 0);
  if (unit_.terms > 2) off += lost_of(pairs[0] + pairs[1], off);
  add(step);
  error += off + term<"mma.flushed">(flushed);
  error += lost_of(exact, error);
}

void Worst::take_floored(const Step& step) {
  if (step.addends().empty()) return;
  const bool was_empty = empty();
  int tops[2] = {never, never}, last = -never;
  const auto group = [&](const Step::Addend& x) { return x.slot % unit_.groups; };
  for (const Step::Addend& x : step.addends()) tops[group(x)] = std::max(tops[group(x)], x.top);
  for (int g = 0; g < unit_.groups; ++g) {
    if (tops[g] == never) continue;
    const int grid = tops[g] - unit_.grid, common = step.top - unit_.grid;
    int cuts = 0, last_of_group = -never;
    for (const Step::Addend& x : step.addends()) {
      if (group(x) != g) continue;
      cuts += x.last < grid ? 1 : 0;
      last_of_group = std::min(last_of_group, std::max(x.last, grid));
    }
    cut(term<"mma.products_cut">(cuts), grid);
    if (last_of_group < common) cut(term<"mma.group">(1), common);
    last = std::min(last, std::max(last_of_group, common));
  }
  const int largest = std::max(step.top, of_sum());  // at most
  // What the products lose at 2^(E - kept - 1), they and the result lose together (theory.md T6).
  if (!was_empty && last_ < largest - unit_.grid) cut(term<"mma.sum">(1), largest - unit_.grid);
  add(step);
  const int finest = std::max(step.top, fp32.emin);
  last = std::max(last, finest - unit_.kept - 1);
  last_ = was_empty ? last : std::min(last, std::max(last_, finest - unit_.grid));
  if (of_sum() - unit_.kept > last_) cut(term<"mma.result">(1), of_sum() - unit_.kept);
  last_ = std::max(last_, fp32.emin - unit_.kept);
  if (of_sum() - 23 > last_) round(of_sum() - 23, step.sum);
  has_bits(23);
}

}  // namespace plumb::bounds

#include "bounds/cast_sums.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/mma.hpp"
#include "bounds/proof/grid.hpp"
#include "bounds/proof/term.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

std::string scale_format(const CastRule& rule) {
  switch (rule.scales) {
    case ScaleRule::nested:
    case ScaleRule::nested_reciprocal:
      return "e4m3fn";
    case ScaleRule::exact:
      return "fp32";
    default:
      return "e8m0";
  }
}

// The cards that have a unit for the formats, as "ada, b200, h100".
std::string cards_with(const Format& a, const Format& b) {
  std::string all;
  for (const Machine& m : all_machines()) {
    if (m.mma(a) && m.mma(b)) all += (all.empty() ? "" : ", ") + m.id;
  }
  return all;
}

Refusal refuse(const Machine& machine, const std::string& why) {
  return {Why::unsupported, "machine '" + machine.id + "': " + why};
}

Refusal no_unit(const Machine& machine, const Format& a, const Format& b) {
  const std::string both = std::string(a.name) + (a == b ? "" : " by " + std::string(b.name));
  const std::string cards = cards_with(a, b);
  return refuse(machine, "its card has no matrix unit for " + both + "; " +
                             (cards.empty() ? "no card has one yet" : "those of " + cards + " do") +
                             ", and the machine ieee takes any recipe");
}

// Of one element: its FP64 sum, the worst that each cause may add, and chance.
struct UnitSum {
  double sum = 0, unit = 0, scales = 0, promotion = 0;
  double energy = 0, drift = 0, bias = 0, variance = 0;
  double worst() const { return (unit + scales + promotion) * (1 + 0x1p-40); }
};

// Scaling and adding a chain's sum in FP32.
class Chains {
 public:
  explicit Chains(UnitSum& all) : all_(all) {}

  void add(double sum, double worst, double scale, bool exact, bool first) {
    const double part = scale * sum;
    all_.unit += term<"cast.unit">(scale * worst);
    if (!exact) scaled(std::fabs(part) + scale * worst);
    all_.sum += part;
    if (!first) added();
  }

 private:
  // The product of two scales, and that with the chain's sum.
  void scaled(double most) {
    const double both = term<"cast.scales">(0x1.000002p-23 * most);
    all_.scales += both;
    all_.energy += both * both / 2;
    all_.variance += most > 0 ? std::pow(spacing_at(most), 2) / 6 : 0;
  }
  void added() {
    const double most = std::fabs(all_.sum) + all_.worst();
    const double rounding = term<"cast.promotion">(0x1p-24 * most + 0x1p-150);
    all_.promotion += rounding;
    all_.energy += rounding * rounding;
    all_.variance += most > 0 ? std::pow(spacing_at(most), 2) / 12 : 0;
  }

  UnitSum& all_;
};

// The number of the block in which term k lies.
std::size_t block_of(const CastOperand& x, std::size_t k) {
  return static_cast<std::size_t>(std::ranges::upper_bound(x.begins, k) - x.begins.begin()) - 1;
}

Asked asked_of(const CastProductCall& call) {
  return call.mode == Mode::deterministic ? Asked::worst : Asked::all;
}

// The unit applies the scales, so that its sum is that of the numbers.
Matrix<UnitSum> sums_on_scaling_unit(const CastProductCall& call, const Mma& unit) {
  const SumErrors errors =
      mma_errors(view(call.a.codes), view(call.b.codes, true),
                 {view(call.a.scales), view(call.b.scales, true)}, unit, asked_of(call));
  Matrix<UnitSum> sums(call.a.codes.rows, call.b.codes.rows);
  for (std::size_t e = 0; e < sums.size(); ++e) {
    UnitSum& all = sums.values[e];
    all.sum = errors.sum.values[e];
    all.unit = term<"cast.scaling_unit">(errors.worst.values[e]);
    all.energy = errors.energy.values[e];
    all.drift = errors.drift.values[e];
    all.bias = errors.bias.values[e];
    all.variance = errors.variance.values[e];
  }
  return sums;
}

Matrix<UnitSum> sums_on_unit(const CastProductCall& call, const Mma& unit) {
  if (unit.block > 0) return sums_on_scaling_unit(call, unit);
  const std::vector<std::size_t> begins = chains_of(call);
  const bool exact = call.a.powers() && call.b.powers();
  Matrix<UnitSum> sums(call.a.codes.rows, call.b.codes.rows);
  for (std::size_t c = 0; c + 1 < begins.size(); ++c) {
    const std::size_t first = begins[c], last = begins[c + 1];
    const SumErrors chain =
        mma_errors(columns(view(call.a.codes), first, last),
                   rows(view(call.b.codes, true), first, last), unit, asked_of(call));
    const std::size_t of_a = block_of(call.a, first), of_b = block_of(call.b, first);
    for (std::size_t i = 0; i < sums.rows; ++i) {
      for (std::size_t j = 0; j < sums.cols; ++j) {
        const double scale = call.a.scales(i, of_a) * call.b.scales(j, of_b);
        UnitSum& all = sums(i, j);
        Chains(all).add(chain.sum(i, j), chain.worst(i, j), scale, exact, c == 0);
        all.energy += scale * scale * chain.energy(i, j);
        all.drift += scale * chain.drift(i, j);
        all.bias += scale * chain.bias(i, j);
        all.variance += scale * scale * chain.variance(i, j);
      }
    }
  }
  return sums;
}

double lambda_of(const CastProductCall& call, std::size_t elements) {
  return std::sqrt(2 * std::log(2 * static_cast<double>(elements) / call.delta));
}

// Are the scales codes, which a unit can take?
bool scaled_by_codes(const CastRule& rule) {
  return rule.in_blocks() && rule.scales != ScaleRule::exact;
}

// The unit of a card that scales these blocks, if it has one.
std::optional<Mma> scaling_unit(const Machine& machine, const CastRule& a, const CastRule& b) {
  for (const CastRule* rule : {&a, &b}) {
    if (!scaled_by_codes(*rule) || is_nested(rule->scales)) return {};
  }
  const std::optional<Mma> unit = machine.mma_scaling(a.format, b.format);
  const auto fits = [&](const CastRule& rule) {
    return rule.along == static_cast<std::size_t>(unit->block);
  };
  return unit && fits(a) && fits(b) ? unit : std::nullopt;
}

Outcome<Mma> scaling_unit_for(const Machine& machine, const CastProductCall& call) {
  const CastRule &a = call.a.rule, &b = call.b.rule;
  if (call.how.parts != 1) return refuse(machine, "only a whole product without bias is described");
  std::optional<Mma> unit = scaling_unit(machine, a, b);
  if (!unit) {
    std::string others;
    for (const Machine& m : all_machines()) {
      if (scaling_unit(m, a, b)) others += (others.empty() ? "" : ", ") + m.id;
    }
    const CastRule& rule = scaled_by_codes(a) ? a : b;
    return refuse(machine,
                  "its card has no facts of a unit that scales " + std::string(rule.format.name) +
                      " in blocks of " + std::to_string(rule.along) + " by " + scale_format(rule) +
                      (others.empty() ? ", nor has any other" : "; those of " + others + " have") +
                      "; take the machine ieee, which scales in FP32");
  }
  if (call.promotion % static_cast<std::size_t>(unit->terms) != 0) {
    return refuse(machine, "its unit takes " + std::to_string(unit->terms) +
                               " terms at once, and the recipe promotes after " +
                               std::to_string(call.promotion) + "; choose a multiple");
  }
  unit->promoted_after = static_cast<int>(call.promotion);
  return *unit;
}

}  // namespace

std::vector<std::size_t> chains_of(const CastProductCall& call) {
  std::vector<std::size_t> begins = call.a.begins;
  begins.insert(begins.end(), call.b.begins.begin(), call.b.begins.end());
  const std::size_t n = call.a.input.cols, every = call.promotion;
  for (std::size_t k = every; every > 0 && k < n; k += every) begins.push_back(k);
  std::ranges::sort(begins);
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  return begins;
}

Outcome<Mma> unit_for(const Machine& machine, const CastProductCall& call) {
  const CastRule &a = call.a.rule, &b = call.b.rule;
  if (scaled_by_codes(a) || scaled_by_codes(b)) return scaling_unit_for(machine, call);
  std::optional<Mma> unit = machine.mma(a.format), second = machine.mma(b.format);
  const bool alike = a.format == b.format;
  if (!unit || !second || (!alike && a.format.bits != b.format.bits)) {
    return no_unit(machine, a.format, b.format);
  }
  if (!alike) {
    unit = machine.mma_of_two(a.format, b.format);
    if (!unit) {
      return refuse(machine, "its card has two units for " + std::string(a.format.name) + " and " +
                                 std::string(b.format.name) +
                                 " that differ, and none for both; take the machine ieee");
    }
  }
  if (call.mode != Mode::deterministic && !unit->foretold()) {
    return refuse(
        machine, "of its matrix unit only the worst case is derived; ask for --mode deterministic");
  }
  if (call.how.parts != 1) return refuse(machine, "only a whole product without bias is described");
  const std::vector<std::size_t> begins = chains_of(call);
  for (std::size_t c = 1; c + 1 < begins.size(); ++c) {
    if ((begins[c] - begins[c - 1]) % static_cast<std::size_t>(unit->terms) == 0) continue;
    return refuse(machine, "its unit takes " + std::to_string(unit->terms) +
                               " terms at once, and a chain of the recipe has " +
                               std::to_string(begins[c] - begins[c - 1]) +
                               "; choose blocks and promotion of multiples, or the machine ieee");
  }
  return *unit;
}

CastSums cast_sums_on(const Mma& unit, const CastProductCall& call) {
  const Matrix<UnitSum> sums = sums_on_unit(call, unit);
  const bool likely =
      call.mode == Mode::probabilistic && !repeats(call.a.codes) && !repeats(call.b.codes);
  const double lambda = call.mode == Mode::probabilistic ? lambda_of(call, sums.size()) : 0;
  const Matrix<double> zeros(sums.rows, sums.cols);
  CastSums all{zeros, zeros, zeros, {}, {}};
  for (std::size_t e = 0; e < sums.size(); ++e) {
    const UnitSum& x = sums.values[e];
    const double chance = std::fabs(x.bias) + x.drift + lambda * std::sqrt(x.energy);
    all.worst.values[e] = x.worst();
    all.off.values[e] = likely ? std::min(x.worst(), chance) : x.worst();
    all.bias.values[e] = x.bias;
    if (call.mode == Mode::moments) all.off.values[e] = std::sqrt(x.variance);
  }
  if (!call.explained) return all;
  const UnitSum& x = sums.values[*call.explained];
  const double off = all.off.values[*call.explained];
  if (call.mode != Mode::deterministic && off != x.worst()) {
    all.terms = {{"matrix unit", "|bias| + lambda sqrt(energy) of cuts and FP32 roundings", off}};
    if (call.mode == Mode::moments) all.terms[0].formula = "deviation of cuts and FP32 roundings";
    return all;
  }
  const char* scaled = unit.block > 0 ? ", of scaled codes" : ", times the scales";
  all.terms = {{"matrix unit", words_of(unit) + scaled, x.unit}};
  if (x.scales > 0)
    all.terms.push_back({"scales", "2 u |a chain's sum|, scaled in FP32", x.scales});
  if (x.promotion > 0) {
    all.terms.push_back({"promotion", "u |sum so far| at each addition of a chain", x.promotion});
  }
  return all;
}

}  // namespace plumb::bounds

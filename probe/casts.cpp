#include "probe/casts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "number/encoding.hpp"

namespace plumb::probe {
namespace {

enum class Rule { ties_to_even, ties_away, toward_zero, away, up, down };
constexpr std::array rules{Rule::ties_to_even, Rule::ties_away, Rule::toward_zero,
                           Rule::away,         Rule::up,        Rule::down};
constexpr std::array rule_words{"to nearest, ties to even",
                                "to nearest, ties away from zero",
                                "toward zero",
                                "away from zero",
                                "up",
                                "down"};
constexpr double infinite = std::numeric_limits<double>::infinity();

// The neighbours of a number of whatever size, in units of their distance.
struct Between {
  double unit, low, share;  // |x| = (low + share) unit
};
Between between(double x, const Format& to) {
  const double unit = ulp(x, to), size = std::fabs(x) / unit, low = std::floor(size);
  return {unit, low, size - low};
}

double rounded(double x, const Format& to, Rule rule) {
  const auto [unit, low, share] = between(x, to);
  const bool odd = std::fmod(low, 2) == 1;
  bool larger = false;
  switch (rule) {
    case Rule::ties_to_even:
      larger = share > 0.5 || (share == 0.5 && odd);
      break;
    case Rule::ties_away:
      larger = share >= 0.5;
      break;
    case Rule::toward_zero:
      break;
    case Rule::away:
      larger = share > 0;
      break;
    case Rule::up:
      larger = share > 0 && x > 0;
      break;
    case Rule::down:
      larger = share > 0 && x < 0;
      break;
  }
  return std::copysign((low + (larger ? 1 : 0)) * unit, x);
}

// Numbers between neighbours of the format, of both signs; normal ones, or those below them.
std::vector<float> arguments(const Format& to, bool normal) {
  std::vector<float> all;
  const auto add = [&](double x) {
    all.push_back(static_cast<float>(x));
    all.push_back(static_cast<float>(-x));
  };
  const std::uint32_t codes = 1U << (to.bits - 1);
  for (std::uint32_t code = 0; code < codes; ++code) {
    const double x = decode(code, to), unit = std::isfinite(x) ? ulp(x, to) : 0;
    if (!std::isfinite(x) || x + unit > to.largest()) continue;
    if ((x >= to.smallest_normal()) != normal) continue;
    for (const double share : {0.0, 0.25, 0.5, 0.75}) add(x + share * unit);
    const auto half = static_cast<float>(x + unit / 2);
    add(std::nextafter(half, 0.0F));
    add(std::nextafter(half, std::numeric_limits<float>::infinity()));
  }
  return all;
}

bool all_by(const std::vector<float>& x, const std::vector<float>& y, const Format& to, Rule rule) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = rounded(static_cast<double>(x[i]), to, rule);
    if (static_cast<double>(y[i]) != expected) return false;
  }
  return true;
}

// Is each number one of its neighbours, the larger one as often as it is near (five deviations)?
bool all_by_chance(const std::vector<float>& x, const std::vector<float>& y, const Format& to) {
  double expected = 0, variance = 0, larger = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [unit, low, share] = between(static_cast<double>(x[i]), to);
    const double up = std::fabs(static_cast<double>(y[i])) / unit - low;
    if (up != 0 && (up != 1 || share == 0)) return false;
    larger += up;
    expected += share;
    variance += share * (1 - share);
  }
  return std::fabs(larger - expected) < 5 * std::sqrt(variance);
}

std::string name_of_result(double x, const Format& to) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return "infinity";
  return std::fabs(x) == to.largest() ? "the largest number" : fmt::format("{}", std::fabs(x));
}

// Numbers, and what the cast makes of them.
struct Asked {
  std::vector<float> x, y;
};

// What all of these become; "this or that" where they do not agree.
std::string become(const Asked& asked, const Format& to) {
  std::vector<std::string> names;
  for (const float y : asked.y) {
    const std::string name = name_of_result(static_cast<double>(y), to);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " or ") + name;
  return text;
}

std::string words_of_subnormals(const Asked& asked, const Format& to, Rule rule) {
  const auto& [x, y] = asked;
  if (all_by(x, y, to, rule)) return "kept";
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = rounded(static_cast<double>(x[i]), to, rule);
    const bool normal = std::fabs(expected) >= to.smallest_normal();
    const bool flushed = y[i] == 0 || (normal && static_cast<double>(y[i]) == expected);
    if (!flushed) return "neither kept nor flushed";
  }
  return "flushed";
}

std::string words_of_rounding(const Function& cast, const Asked& normal, const Asked& subnormal,
                              const Format& to) {
  for (std::size_t r = 0; r < rules.size(); ++r) {
    if (all_by(normal.x, normal.y, to, rules[r])) {
      return fmt::format("{}; subnormals {}", rule_words[r],
                         words_of_subnormals(subnormal, to, rules[r]));
    }
  }
  const bool drawn = all_by_chance(normal.x, normal.y, to) && normal.y != cast(normal.x, {});
  return drawn ? "by chance, as near as a neighbour is" : "in no way that is known here";
}

// All of them in one question; false where the subject has no such cast.
bool ask(const Function& cast, std::span<Asked> all) {
  std::vector<float> x;
  for (const Asked& part : all) x.insert(x.end(), part.x.begin(), part.x.end());
  const std::vector<float> y = cast(x, {});
  auto at = y.begin();
  for (Asked& part : all) {
    if (y.empty()) return false;
    const auto end = at + static_cast<std::ptrdiff_t>(part.x.size());
    part.y.assign(at, end);
    at = end;
  }
  return true;
}

// Finite numbers that no rounding takes to the largest one but that toward zero.
std::vector<float> beyond(const Format& to) {
  const double most = std::numeric_limits<float>::max();
  std::vector<float> all;
  for (const double x : {to.largest() + ulp(to.largest(), to), 3 * to.largest(), most}) {
    if (x > most) continue;
    all.push_back(static_cast<float>(x));
    all.push_back(static_cast<float>(-x));
  }
  return all;
}

}  // namespace

const std::vector<Format>& cast_formats() {
  static const std::vector<Format> all{bf16, fp16, e4m3fn, e5m2};
  return all;
}

std::string words_of_cast(const Function& cast, const Format& to) {
  const auto infinity = static_cast<float>(infinite);
  std::array<Asked, 5> all{Asked{arguments(to, true), {}}, Asked{arguments(to, false), {}},
                           Asked{beyond(to), {}}, Asked{{infinity, -infinity}, {}},
                           Asked{{std::numeric_limits<float>::quiet_NaN()}, {}}};
  if (!ask(cast, all)) return "";
  return fmt::format("{}; beyond the largest number {}; infinity {}; NaN {}",
                     words_of_rounding(cast, all[0], all[1], to), become(all[2], to),
                     become(all[3], to), become(all[4], to));
}

void find_casts(const Subject& subject, const CalibrateOptions& options, Findings& findings) {
  for (const Format& to : cast_formats()) {
    const std::string name(to.name);
    const auto of = subject.functions.find("cast_" + name);
    if (of == subject.functions.end()) continue;
    options.progress("casts to " + name);
    const std::string words = words_of_cast(of->second, to);
    if (!words.empty()) findings.observed("casts to " + name, words);
  }
}

}  // namespace plumb::probe

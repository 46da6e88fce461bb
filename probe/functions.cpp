#include "probe/functions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "number/encoding.hpp"
#include "probe/casts.hpp"

namespace plumb::probe {
namespace {

constexpr double truth_error = 0x1p-26;  // of an ulp of FP32: four ulps of FP64

bool is_normal(double x) {
  const double size = std::fabs(x);
  return size >= 0x1p-126 && size <= 0x1.fffffep127;
}

// A number of FP32 by its code, or one between -16 and 16.
float by_chance(std::mt19937& random) {
  if (random() % 2 == 0) return std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  return static_cast<float>(std::uniform_real_distribution<double>(-16, 16)(random));
}

std::vector<float> all_short_numbers() {
  std::vector<float> all;
  for (const Format& format : {bf16, fp16}) {
    for (std::uint32_t code = 0; code < 0x10000; ++code) {
      all.push_back(static_cast<float>(decode(code, format)));
    }
  }
  return all;
}

}  // namespace

const std::vector<KnownFunction>& known_functions() {
  static const std::vector<KnownFunction> all{
      {"exp", "exp_ulp", false, [](double x, double) { return std::exp(x); }},
      {"log", "log_ulp", false, [](double x, double) { return std::log(x); }},
      {"erf", "erf_ulp", false, [](double x, double) { return std::erf(x); }},
      {"tanh", "tanh_ulp", false, [](double x, double) { return std::tanh(x); }},
      {"sqrt", "sqrt_ulp", false, [](double x, double) { return std::sqrt(x); }},
      {"divide", "divide_ulp", true, [](double x, double y) { return x / y; }}};
  return all;
}

std::vector<std::string> names_of_functions() {
  std::vector<std::string> names;
  for (const KnownFunction& known : known_functions()) names.emplace_back(known.name);
  for (const Format& format : cast_formats()) names.push_back("cast_" + std::string(format.name));
  return names;
}

Arguments arguments_of(const KnownFunction& function, std::size_t wanted, unsigned seed) {
  std::mt19937 random(seed);
  Arguments all;
  const auto add = [&](float x, float y) {
    const bool usual = is_normal(x) && (!function.two || is_normal(y));
    if (!usual || !is_normal(function.exact(x, y))) return false;
    all.first.push_back(x);
    if (function.two) all.second.push_back(y);
    return true;
  };
  for (const float x : all_short_numbers()) add(x, function.two ? by_chance(random) : 0);
  for (std::size_t n = 0; n < wanted;) n += add(by_chance(random), by_chance(random)) ? 1 : 0;
  return all;
}

std::optional<double> FunctionErrors::claim() const {
  if (!(largest <= 1000)) return {};
  if (largest <= 0.5 + truth_error) return 0.5;
  return std::ceil(4 * largest) / 4;
}

std::size_t FunctionErrors::beyond(double claimed) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      ulps, [&](float each) { return !(static_cast<double>(each) <= claimed + truth_error); }));
}

FunctionErrors errors_of(const KnownFunction& function, const Arguments& arguments,
                         const std::vector<float>& results) {
  FunctionErrors errors;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const float x = arguments.first[i], y = function.two ? arguments.second[i] : 0;
    const double exact = function.exact(x, y);
    const double off = std::fabs(static_cast<double>(results[i]) - exact) / ulp(exact, fp32);
    const double size = std::isfinite(off) ? off : std::numeric_limits<double>::infinity();
    errors.ulps.push_back(static_cast<float>(size));
    ++errors.inputs;
    if (errors.inputs > 1 && size <= errors.largest) continue;
    errors.largest = size;
    errors.x = x;
    errors.y = y;
  }
  return errors;
}

void find_functions(const Subject& subject, const CalibrateOptions& options, Findings& findings) {
  for (const KnownFunction& known : known_functions()) {
    const auto of = subject.functions.find(known.name);
    if (of == subject.functions.end()) continue;
    options.progress(fmt::format("results of {}", known.name));
    const Arguments arguments = arguments_of(known, options.arguments, options.seed);
    const std::vector<float> results = of->second(arguments.first, arguments.second);
    if (results.empty()) continue;
    const FunctionErrors errors = errors_of(known, arguments, results);
    if (const auto claim = errors.claim()) {
      findings.fact(known.fact, fmt::format("{}", *claim),
                    fmt::format("{} arguments, all of BF16 and FP16 among them; the largest error "
                                "is {:.4f} ulp at {}",
                                errors.inputs, errors.largest, errors.x));
    } else {
      findings.unknown(known.fact, fmt::format("{}({}) is off by {:.3g} ulp", known.name, errors.x,
                                               errors.largest));
    }
  }
}

}  // namespace plumb::probe

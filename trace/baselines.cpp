#include "trace/baselines.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "number/outcome.hpp"
#include "trace/finding.hpp"

namespace plumb::trace {
namespace {

constexpr double flat_tolerance = 0.0829;  // 4 * 1.03^33 * 2^-7 [Megatron-LM 74bec5be]

double over(double error, double tolerance) {
  if (error == 0) return 0;
  return tolerance > 0 ? error / tolerance : infinite;
}

// Returns the whole number that a text starts with.
std::optional<int> leading_number(std::string_view text) {
  int n = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
  return read.ec == std::errc() ? std::optional(n) : std::nullopt;
}

int layers_of(const Manifest& manifest) {
  const auto found = manifest.settings.find("layers");
  if (found == manifest.settings.end()) {
    throw Failure(
        "the rule depth-law grows with the model's depth, and the manifest's settings do not say "
        "their 'layers'; add them (to must_agree of a trace of another program), or choose the rule "
        "flat");
  }
  if (const auto layers = leading_number(found->second)) return *layers;
  throw Failure("a manifest says layers = '" + found->second +
                "', which is no number; trace again or leave the rule depth-law out");
}

// 4 1.03^(L+1-l) eps with eps of BF16; tensors outside the layers get the most permissive, l = 0.
double depth_law(const std::string& id, const Manifest& manifest) {
  const std::string_view name = id;
  const std::size_t at = name.find("layers.");
  const double layer = at == name.npos ? 0 : leading_number(name.substr(at + 7)).value_or(-1) + 1.0;
  return 4 * std::pow(1.03, layers_of(manifest) + 1.0 - layer) * 0x1p-7;
}

}  // namespace

Baseline baseline(const std::string& rule, const std::string& id, const Pair& seen, double margin,
                  const Manifest& manifest) {
  if (rule == "assert-close") return {seen.close, true, "worst element against 1.6e-2 |r| + 1e-5"};
  const double error = seen.difference.relative();
  double tolerance = flat_tolerance;
  if (rule == "depth-law") tolerance = depth_law(id, manifest);
  if (rule == "perturbation") {
    if (!seen.perturbed) return {0, false, ""};
    tolerance = margin * seen.perturbed->difference.relative();
  }
  char detail[96];
  std::snprintf(detail, sizeof detail, "relative difference %.3g, tolerance %.3g", error,
                tolerance);
  return {over(error, tolerance), tolerance <= 0.5, detail};
}

}  // namespace plumb::trace

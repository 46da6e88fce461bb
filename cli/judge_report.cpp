#include "cli/judge_report.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "cli/colour.hpp"
#include "cli/columns.hpp"
#include "trace/judge/explain.hpp"

namespace plumb::cli {
namespace {

using nlohmann::json;

struct Bin {
  const char* name;
  double to;
};
constexpr std::array known_bins{Bin{"to 1/1024", 0x1p-10}, Bin{"to 1/128", 0x1p-7},
                                Bin{"to 1/16", 0x1p-4},    Bin{"to 1/4", 0x1p-2},
                                Bin{"to 1/2", 0x1p-1},     Bin{"to 1", 1}};
constexpr std::array quantiles{0.5, 0.9, 0.99};

// A number of a document; what JSON has no number for, as text.
json number(double x) { return std::isfinite(x) ? json(x) : json(fmt::format("{}", x)); }

std::string bar(double share) {
  return std::string(static_cast<std::size_t>(std::ceil(share * 40)), '#');
}

// Shares of the elements by error over bound.
std::vector<std::pair<std::string, std::size_t>> bins_of(const Judgement& j) {
  std::vector<std::pair<std::string, std::size_t>> bins{{"exact", j.equal()}};
  double from = 0;
  for (const auto& [name, to] : known_bins) {
    bins.emplace_back(name, j.between(from, to));
    from = to;
  }
  bins.emplace_back("outside", j.outside());
  return bins;
}

void tell_histogram(const Judgement& j, std::string_view limit) {
  fmt::print(
      "  error / {}: half of the elements up to {:.3g}, 90 % to {:.3g}, 99 % to {:.3g}, "
      "the largest {:.3g}\n",
      limit, j.quantile(0.5), j.quantile(0.9), j.quantile(0.99), j.worst().ratio);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, n] : bins_of(j)) {
    const double share = static_cast<double>(n) / static_cast<double>(j.elements());
    rows.push_back({name, std::to_string(n), bar(share)});
  }
  fmt::print("{}", in_columns({{}, {"", true}, {}}, rows, 4));
}

void tell_fits(const Judgement& j, std::string_view limit) {
  fmt::print("  allclose(found, exact) that accepts all that the {} accepts, and how much more:\n",
             limit);
  std::vector<std::vector<std::string>> rows;
  for (const Fit& fit : j.fits()) {
    rows.push_back({fmt::format("{:.3g}", fit.rtol), fmt::format("{:.3g}", fit.atol),
                    fmt::format("{:.3g}", fit.at_median), fmt::format("{:.3g}", fit.at_most)});
  }
  fmt::print("{}", in_columns({{"rtol", true},
                               {"atol", true},
                               {"times that at the median", true},
                               {"at 99 % of elements", true}},
                              rows, 4));
}

json json_of_output(const JudgedOutput& output) {
  const Judgement& j = output.judgement;
  const Compared& w = j.worst();
  json all{{"name", output.operand.name},
           {"file", output.operand.tensor->where()},
           {"shape", output.operand.tensor->shape()},
           {"format", output.format.name},
           {"elements", j.elements()},
           {"outside", j.outside()},
           {"not_finite", j.not_finite()}};
  if (j.elements() == 0) return all;
  json terms = json::array(), histogram = json::array(), fits = json::array(), at = json::object();
  for (const Term& t : output.terms) {
    terms.push_back({{"name", t.name}, {"formula", t.formula}, {"largest", t.largest}});
  }
  for (const auto& [name, n] : bins_of(j)) histogram.push_back({{"bin", name}, {"elements", n}});
  for (const double q : quantiles) at[fmt::format("{}", q)] = number(j.quantile(q));
  for (const Fit& fit : j.fits()) {
    fits.push_back({{"rtol", fit.rtol},
                    {"atol", number(fit.atol)},
                    {"times_bound_at_median", number(fit.at_median)},
                    {"times_bound_at_99_percent", number(fit.at_most)}});
  }
  all["worst"] = {{"place", output.operand.place(w.element)},
                  {"element", w.element},
                  {"found", number(w.found)},
                  {"value", number(w.value)},
                  {"bound", number(w.bound)},
                  {"bias", number(w.bias)},
                  {"ratio", number(w.ratio)},
                  {"terms", terms}};
  all["histogram"] = histogram;
  all["quantiles"] = at;
  all["allclose"] = fits;
  return all;
}

}  // namespace

void tell(const JudgedTensors& judged, const JudgeOptions& asked) {
  fmt::print("{}", head_of(judged, asked));
  say("{}", verdict_of(judged));
  for (const JudgedOutput& output : judged.outputs) {
    const Judgement& j = output.judgement;
    fmt::print("{}", line_of(output));
    if (j.elements() == 0) continue;
    fmt::print("{}", worst_of(output, asked.mode));
    const std::string_view limit = asked.mode == Mode::moments ? "limit" : "bound";
    tell_histogram(j, limit);
    tell_fits(j, limit);
  }
}

json json_of(const JudgedTensors& judged, const JudgeOptions& asked) {
  json outputs = json::array();
  for (const JudgedOutput& output : judged.outputs) outputs.push_back(json_of_output(output));
  json all{{"exit_code", judged.exit_code()},
           {"operation", asked.operation->id},
           {"machine", asked.machine->id},
           {"mode", name_of(asked.mode)},
           {"assumes", judged.sums},
           {"attributes", judged.attributes},
           {"rows", judged.rows},
           {"of_rows", judged.of_rows},
           {"outputs", outputs},
           {"not_judged", judged.not_given}};
  if (asked.mode != Mode::deterministic) all["delta"] = asked.delta;
  if (judged.rows < judged.of_rows) all["seed"] = asked.seed;
  return all;
}

}  // namespace plumb::cli

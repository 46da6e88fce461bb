#include "experiments/costs.hpp"

#include <array>
#include <cmath>
#include <map>

#include "trace/levels.hpp"

namespace plumb::experiments {

std::string_view name_of(CostKind kind) {
  constexpr std::array names = {"harmless", "visible", "late", "silent", "alarming"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<std::string> columns_of_costs() {
  return {"model", "recipe", "layout", "bug", "step", "loss", "right_loss"};
}

static CostKind kind_of_cost(bool costs, std::optional<std::size_t> tells, std::size_t points) {
  if (!costs) return tells ? CostKind::alarming : CostKind::harmless;
  if (!tells) return CostKind::silent;
  return *tells < points / 2 ? CostKind::visible : CostKind::late;
}

// Each once.
static std::vector<Learned> with_own_bits(const std::vector<Learned>& runs) {
  std::vector<Learned> distinct;
  for (const Learned& run : runs) {
    if (std::ranges::find(distinct, run) == distinct.end()) distinct.push_back(run);
  }
  return distinct;
}

// Mean and standard deviation.
static std::pair<double, double> moments_of(const std::vector<Learned>& runs) {
  double mean = 0, squares = 0;
  for (const Learned& run : runs) mean += run.end / static_cast<double>(runs.size());
  for (const Learned& run : runs) squares += (run.end - mean) * (run.end - mean);
  return {mean, std::sqrt(squares / static_cast<double>(runs.size() - 1))};
}

// A person looks at the end of a curve, and not at its last point alone.
static std::optional<std::size_t> told_from(const Learned& run,
                                            const std::vector<Learned>& healthy) {
  std::vector<CurveOf> curves;
  for (const Learned& other : healthy) curves.push_back(other.reported);
  const auto from = seen_from(run.reported, band_of(curves), 1);
  const std::size_t points = run.reported.size();
  return from && *from <= points - points / 10 ? from : std::nullopt;
}

std::optional<Cost> cost_of(const Learned& run, const std::vector<Learned>& all) {
  const std::vector<Learned> healthy = with_own_bits(all);
  if (healthy.size() < 2) return {};
  const auto [mean, deviation] = moments_of(healthy);
  const auto n = static_cast<double>(healthy.size());
  const double most = student_quantile(0.01, n - 1);
  Cost cost;
  cost.healthy = healthy.size();
  cost.loss = run.end - mean;
  cost.tolerance = most * deviation * std::sqrt(1 + 1 / n);
  cost.tells = told_from(run, healthy);
  const bool costs = !(cost.loss <= cost.tolerance);  // a loss that is no number costs everything
  cost.kind = kind_of_cost(costs, cost.tells, run.reported.size());
  return cost;
}

namespace {

using ModelAndRecipe = std::pair<std::string, std::string>;
using BugAndLayout = std::pair<std::string, std::string>;
using Learners = std::map<BugAndLayout, Learned>;

struct Curves {
  std::vector<int> steps;
  std::map<ModelAndRecipe, Learners> runs;
};

Curves curves_of(const Table& rows) {
  Curves all;
  for (const Table::Row& row : rows.rows()) {
    Learned& run = all.runs[{row[0], row[1]}][{row[3], row[2]}];
    const std::string& loss = row[rows.column("loss")];
    if (loss == "-") continue;
    run.reported.push_back(std::stod(loss));
    const std::string& end = row[rows.column("right_loss")];
    if (end != "-") run.end = std::stod(end);
    if (run.reported.size() > all.steps.size()) {
      all.steps.push_back(std::stoi(row[rows.column("step")]));
    }
  }
  return all;
}

// What a run is held against. A healthy one has others with its own bits, which know nothing of it.
std::vector<Learned> healthy_ones(const Learners& runs, const Learned& but) {
  std::vector<Learned> healthy;
  for (const auto& [of, run] : runs) {
    if (of.first == healthy_run && run != but) healthy.push_back(run);
  }
  return healthy;
}

}  // namespace

Table rates_of_costs(const Table& rows) {
  Table out({"bug", "model", "recipe", "layout", "healthy", "end", "above_healthy", "tolerance",
             "tells_from_step", "kind"},
            4);
  const Curves all = curves_of(rows);
  for (const auto& [model, runs] : all.runs) {
    for (const auto& [of, run] : runs) {
      if (run.reported.empty()) {
        out.add({of.first, model.first, model.second, of.second, "-", "-", "-", "-", "-",
                 "cannot go on"});
        continue;
      }
      const std::optional<Cost> cost = cost_of(run, healthy_ones(runs, run));
      if (!cost) continue;
      out.add({of.first, model.first, model.second, of.second, std::to_string(cost->healthy),
               cell(run.end), cell(cost->loss), cell(cost->tolerance),
               cost->tells ? std::to_string(all.steps[*cost->tells]) : "never",
               std::string(name_of(cost->kind))});
    }
  }
  return out;
}

}  // namespace plumb::experiments

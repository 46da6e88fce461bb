#include "experiments/costs.hpp"

#include <array>
#include <cmath>
#include <map>

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

Cost cost_of(const Learned& run, const std::vector<Learned>& healthy) {
  std::vector<CurveOf> curves;
  CurveOf ends;
  for (const Learned& other : healthy) {
    curves.push_back(other.reported);
    ends.push_back(other.end);
  }
  const auto [least, most] = std::ranges::minmax(ends);
  Cost cost;
  cost.loss = run.end - most;
  cost.scatter = most - least;
  cost.tells = seen_from(run.reported, band_of(curves), 1);
  const bool costs = !(cost.loss <= cost.scatter);  // a loss that is no number costs everything
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
    run.reported.push_back(std::stod(row[rows.column("loss")]));
    const std::string& end = row[rows.column("right_loss")];
    if (end != "-") run.end = std::stod(end);
    if (run.reported.size() > all.steps.size()) {
      all.steps.push_back(std::stoi(row[rows.column("step")]));
    }
  }
  return all;
}

std::vector<Learned> healthy_ones(const Learners& runs, const BugAndLayout& but) {
  std::vector<Learned> healthy;
  for (const auto& [of, run] : runs) {
    if (of.first == healthy_run && of != but) healthy.push_back(run);
  }
  return healthy;
}

}  // namespace

Table rates_of_costs(const Table& rows) {
  Table out({"bug", "model", "recipe", "layout", "healthy", "end", "above_worst_healthy",
             "healthy_scatter", "tells_from_step", "kind"},
            4);
  const Curves all = curves_of(rows);
  for (const auto& [model, runs] : all.runs) {
    for (const auto& [of, run] : runs) {
      const std::vector<Learned> healthy = healthy_ones(runs, of);
      if (healthy.size() < 2) continue;  // rows are still being made
      const Cost cost = cost_of(run, healthy);
      out.add({of.first, model.first, model.second, of.second, std::to_string(healthy.size()),
               cell(run.end), cell(cost.loss), cell(cost.scatter),
               cost.tells ? std::to_string(all.steps[*cost.tells]) : "never",
               std::string(name_of(cost.kind))});
    }
  }
  return out;
}

}  // namespace plumb::experiments

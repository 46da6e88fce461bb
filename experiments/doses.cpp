#include "experiments/doses.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "experiments/equal_alarms.hpp"
#include "experiments/faults.hpp"
#include "experiments/said.hpp"

namespace plumb::experiments {

const std::vector<std::string> rules_of_sizes{"perturbation", "depth-law", "flat", "assert-close"};
std::vector<std::string> columns_of_doses() {
  return {"fault", "family", "recipe",       "seed",      "size", "found",       "ratio",
          "twins", "replay", "perturbation", "depth-law", "flat", "assert-close"};
}

std::optional<double> least_seen(const BySize& runs) {
  std::optional<double> least;
  for (auto run = runs.rbegin(); run != runs.rend() && run->second.accuses; ++run) {
    least = run->first;
  }
  return least;
}

double area(const std::vector<Ranked>& broken, const std::vector<Ranked>& healthy) {
  const auto rank = [](const Ranked& s) { return std::pair(s.accuses, s.ratio); };
  double above = 0;
  for (const Ranked& b : broken) {
    for (const Ranked& h : healthy) {
      above += rank(b) > rank(h) ? 1 : rank(b) == rank(h) ? 0.5 : 0;
    }
  }
  return above / (static_cast<double>(broken.size()) * static_cast<double>(healthy.size()));
}

std::optional<double> middle(std::vector<std::optional<double>> sizes) {
  // What is not seen at all lies above every size.
  std::ranges::sort(sizes, std::less(), [](const auto& s) { return s.value_or(INFINITY); });
  const std::size_t n = sizes.size();
  if (n == 0 || !sizes[n / 2]) return {};
  return n % 2 == 1 ? *sizes[n / 2] : std::sqrt(*sizes[n / 2 - 1] * *sizes[n / 2]);
}

namespace {

// All runs of one fault, by seed, or the healthy ones, of one model in one recipe.
using Batches = std::map<std::string, BySize>;
using ModelOfRows = std::pair<std::string, std::string>;  // family, recipe

bool is_of_sizes(const std::string& rule) {
  return std::ranges::find(rules_of_sizes, rule) != rules_of_sizes.end();
}

// What `rule` says in a row: the default rules and each of them alone by their own verdicts, the
// rules of sizes as at an infinite margin.
Ranked said_in(const Table& rows, const Table::Row& row, const std::string& rule) {
  const auto number = [&](const std::string& name) { return std::stod(row[rows.column(name)]); };
  if (is_of_sizes(rule)) return {false, number(rule)};
  const bool alone = rule != default_rules;
  return {number(alone ? rule : "found") == 1, alone ? 0 : number("ratio")};
}

std::map<ModelOfRows, std::map<std::string, Batches>> by_model(const Table& rows,
                                                               const std::string& rule) {
  std::map<ModelOfRows, std::map<std::string, Batches>> of;
  for (const Table::Row& row : rows.rows()) {
    if (row[rows.column("found")] == "-") continue;  // no fault of that size exists
    of[{row[rows.column("family")], row[rows.column("recipe")]}][row[rows.column("fault")]]
      [row[rows.column("seed")]][std::stod(row[rows.column("size")])] = said_in(rows, row, rule);
  }
  return of;
}

std::vector<Ranked> all_of(const Batches& batches) {
  std::vector<Ranked> all;
  for (const auto& [seed, runs] : batches) {
    for (const auto& [size, run] : runs) all.push_back(run);
  }
  return all;
}

std::size_t accused(const std::vector<Ranked>& healthy) {
  return static_cast<std::size_t>(std::ranges::count_if(healthy, &Ranked::accuses));
}

// The least margin at which no more than `allowed` of these runs are accused.
double least_margin(const std::vector<Ranked>& healthy, std::size_t allowed) {
  std::vector<Judgement> as_judged(healthy.size());
  for (std::size_t i = 0; i < healthy.size(); ++i) as_judged[i].healthy = healthy[i].ratio;
  return margin_for(as_judged, allowed);
}

void accuse_above(Batches& batches, double margin) {
  for (auto& [seed, runs] : batches) {
    for (auto& [size, run] : runs) run.accuses = run.ratio > margin;
  }
}

// What no margin changes, and what the given one says.
void add_rate(Table& out, const ModelOfRows& model, const std::string& fault,
              const std::string& rule, const std::string& at, const std::string& margin,
              const Batches& broken, const std::vector<Ranked>& healthy) {
  std::vector<std::optional<double>> sizes, exist;
  for (const auto& [seed, runs] : broken) {
    sizes.push_back(least_seen(runs));
    exist.push_back(runs.begin()->first);
  }
  const auto found = middle(sizes);
  const Fault& of = find_fault(fault);
  out.add(
      {fault, std::string(of.tensor), std::string(of.kind), model.first, model.second, rule, at,
       margin, std::to_string(healthy.size()), std::to_string(accused(healthy)),
       std::to_string(sizes.size()),
       std::to_string(std::ranges::count_if(sizes, [](const auto& s) { return s.has_value(); })),
       found ? cell(*found) : "-", cell(*middle(exist)), cell(area(all_of(broken), healthy))});
}

void add_rates(Table& out, const ModelOfRows& model, const std::string& rule,
               std::map<std::string, Batches> faults, std::size_t allowed) {
  const bool of_sizes = is_of_sizes(rule);
  const std::vector<Ranked> ranks = all_of(faults[no_fault]);
  std::vector<std::pair<std::string, double>> ways = {{"as given", given_margin(rule)}};
  if (of_sizes) ways.emplace_back("our false alarms", least_margin(ranks, allowed));
  for (const auto& [at, margin] : ways) {
    for (auto& [fault, batches] : faults) {
      if (of_sizes) accuse_above(batches, margin);
    }
    const std::vector<Ranked> healthy = all_of(faults[no_fault]);
    for (const auto& [fault, batches] : faults) {
      if (fault == no_fault) continue;
      add_rate(out, model, fault, rule, at, cell(margin), batches, healthy);
    }
  }
}

}  // namespace

Table rates_of_doses(const Table& rows) {
  Table out({"fault", "tensor", "kind", "family", "recipe", "rule", "at", "margin", "healthy",
             "healthy_accused", "batches", "seen_in", "smallest", "smallest_tried", "area"},
            7);
  const auto ours = by_model(rows, default_rules);
  std::vector<std::string> rules{default_rules, "twins", "replay"};
  rules.insert(rules.end(), rules_of_sizes.begin(), rules_of_sizes.end());
  for (const std::string& rule : rules) {
    for (const auto& [model, faults] : by_model(rows, rule)) {
      const auto healthy = ours.at(model).find(no_fault);
      if (healthy == ours.at(model).end()) continue;  // rows are still being made
      add_rates(out, model, rule, faults, accused(all_of(healthy->second)));
    }
  }
  return out;
}

}  // namespace plumb::experiments

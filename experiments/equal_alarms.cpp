#include "experiments/equal_alarms.hpp"

#include <algorithm>
#include <functional>

namespace plumb::experiments {

const std::vector<std::string> columns_of_judgements = {"reached",        "changed",
                                                        "structure",      "detected",
                                                        "blamed",         "blamed_right",
                                                        "module_right",   "false_alarm",
                                                        "healthy_ratio",  "broken_ratio",
                                                        "healthy_finite", "broken_finite",
                                                        "ratio_before",   "ratio_where_it_bites"};

double given_margin(const std::string& rule) {
  return rule == "perturbation" ? CheckOptions().margin : 1;
}

Table::Row cells_of(const std::string& rule, const Trial& t) {
  const Said said = said_by(rule, t);
  const Standing healthy = standing(t.healthy, t.bites_at), broken = standing(t.broken, t.bites_at);
  Table::Row row = {yes(t.reached),
                    yes(t.changed),
                    yes(said.structure),
                    yes(!said.broken.empty()),
                    said.blamed.empty() ? "-" : said.blamed,
                    yes(said.blamed == t.bites_at),
                    yes(module_of(said.blamed) == module_of(t.bites_at)),
                    yes(said.false_alarm)};
  for (const double ratio : {healthy.largest, broken.largest, healthy.finite, broken.finite,
                             broken.before, broken.there}) {
    row.push_back(rule == structure_alone ? "-" : cell(given_margin(rule) * ratio));
  }
  return row;
}

std::set<Table::Row> blamed_by_structure(const Table& rows, std::size_t keys) {
  const std::size_t of_rule = rows.column("rule"), right = rows.column("blamed_right");
  std::set<Table::Row> blames;
  for (const Table::Row& row : rows.rows()) {
    if (row[of_rule] == structure_alone && row[right] == "1") {
      blames.insert({row.begin(), row.begin() + static_cast<std::ptrdiff_t>(keys)});
    }
  }
  return blames;
}

Judgement judgement_of(const Table& rows, const Table::Row& row, const std::set<Table::Row>& blames,
                       std::size_t keys) {
  const auto is = [&](const char* name) { return row[rows.column(name)] == "1"; };
  const auto number = [&](const char* name) { return std::stod(row[rows.column(name)]); };
  Judgement o;
  o.structure = is("structure");
  o.detected = is("detected");
  o.blamed = is("blamed_right");
  o.accused = is("false_alarm");
  o.structure_blames =
      blames.contains({row.begin(), row.begin() + static_cast<std::ptrdiff_t>(keys)});
  o.healthy = number("healthy_ratio");
  o.broken = number("broken_ratio");
  o.before = number("ratio_before");
  o.there = number("ratio_where_it_bites");
  return o;
}

Judgement at_margin(Judgement o, double margin) {
  o.detected = o.broken > margin;
  o.blamed = o.there > margin && o.before <= margin;
  o.accused = o.healthy > margin;
  return o;
}

std::size_t accused_of(const std::vector<Judgement>& all) {
  return static_cast<std::size_t>(std::ranges::count_if(all, &Judgement::accused));
}

double margin_for(const std::vector<Judgement>& all, std::size_t allowed) {
  std::vector<double> ratios;
  for (const Judgement& o : all) ratios.push_back(o.healthy);
  std::ranges::sort(ratios, std::greater());
  return allowed < ratios.size() ? ratios[allowed] : 0;
}

}  // namespace plumb::experiments

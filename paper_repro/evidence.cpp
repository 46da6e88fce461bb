#include "paper_repro/evidence.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <span>
#include <sstream>

#include "experiments/experiment.hpp"
#include "number/outcome.hpp"

namespace plumb::paper_repro {
namespace {

Rows rows_of(Table table) {
  const auto kept = std::make_shared<const Table>(std::move(table));
  Rows rows;
  for (std::size_t at = 0; at < kept->rows().size(); ++at) rows.emplace_back(kept, at);
  return rows;
}

}  // namespace

// Embedded: names without ending, and texts.
std::span<const std::pair<std::string_view, std::string_view>> committed_rows();
std::span<const std::pair<std::string_view, std::string_view>> committed_provenance();

const std::string& Row::operator[](const std::string& column) const {
  const std::vector<std::string>& names = table_->columns();
  if (std::ranges::find(names, column) == names.end()) {
    throw Failure("these rows have no column '" + column +
                  "'; make them again with this version of plumb");
  }
  return table_->rows()[at_][table_->column(column)];
}

double Row::number(const std::string& column) const {
  const std::string& text = (*this)[column];
  double x = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), x);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return x;
  throw Failure("column '" + column + "' holds '" + text + "' where a number was expected");
}

Rows where(const Rows& rows,
           std::initializer_list<std::pair<const char*, std::string_view>> cells) {
  Rows chosen;
  for (const Row& row : rows) {
    if (std::ranges::all_of(cells, [&](const auto& c) { return row.is(c.first, c.second); })) {
      chosen.push_back(row);
    }
  }
  if (!chosen.empty()) return chosen;
  std::string what = "rows with";
  for (const auto& [column, value] : cells) {
    what += " " + std::string(column) + " = " + std::string(value);
  }
  throw NotMeasured{what};
}

std::vector<std::string> values_of(const Rows& rows, const std::string& column) {
  std::vector<std::string> values;
  for (const Row& row : rows) {
    if (std::ranges::find(values, row[column]) == values.end()) values.push_back(row[column]);
  }
  return values;
}

const Rows& Evidence::rows(const std::string& question) const {
  const auto found = known_.find(question);
  if (found != known_.end()) return found->second;
  const std::optional<std::string> text = texts_(question + ".csv");
  Rows rows;
  if (text && !text->empty()) rows = rows_of(table_of(*text, question + ".csv in " + place_));
  if (rows.empty()) throw NotMeasured{"rows of " + question};
  return known_.emplace(question, std::move(rows)).first->second;
}

std::size_t Evidence::count(const std::string& question) const {
  try {
    return rows(question).size();
  } catch (const NotMeasured&) {
    return 0;
  }
}

Rows Evidence::rates(const std::string& question) const {
  (void)rows(question);  // there are some
  const Experiment& experiment = find_experiment(question);
  Table table(experiment.columns, experiment.keys);
  table.read(*texts_(question + ".csv"), question + ".csv in " + place_);
  return rows_of(experiment.rates(table));
}

std::map<std::string, std::string> Evidence::provenance(const std::string& question) const {
  const std::optional<std::string> text = texts_(question + ".json");
  return text ? provenance_of(*text) : std::map<std::string, std::string>{};
}

Evidence committed_evidence() {
  return {[](const std::string& file) -> std::optional<std::string> {
            const bool rows = file.ends_with(".csv");
            const std::string name = file.substr(0, file.rfind('.'));
            for (const auto& [of, text] : rows ? committed_rows() : committed_provenance()) {
              if (of == name) return std::string(text);
            }
            return {};
          },
          "experiments/results"};
}

Evidence evidence_in(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw Failure(folder.string() +
                  " is no folder; give --rows the folder that plumb experiment -o wrote");
  }
  return {[folder](const std::string& file) -> std::optional<std::string> {
            std::ifstream in(folder / file);
            if (!in) return {};
            std::ostringstream text;
            if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
            return text.str();
          },
          folder.string(), folder.string()};
}

}  // namespace plumb::paper_repro

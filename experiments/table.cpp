#include "experiments/table.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "bounds/outcome.hpp"

namespace plumb {
namespace {

// Cells hold ids, numbers and plain words: a comma inside becomes a semicolon.
std::string plain(std::string cell) {
  std::replace(cell.begin(), cell.end(), ',', ';');
  return cell;
}

std::vector<std::string> plain(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = plain(std::move(cell));
  return cells;
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

std::string joined(const std::vector<std::string>& cells) {
  return fmt::format("{}", fmt::join(cells, ","));
}

}  // namespace

bool Table::settled(const std::vector<std::string>& key) const {
  return known_.contains(plain(key)) ||
         (wanted_ && !wanted_(fmt::format("{}", fmt::join(key, " "))));
}

void Table::add(const std::vector<std::string>& cells) {
  if (cells.size() != columns_.size()) {
    throw std::invalid_argument(
        fmt::format("a row of {} cells for a table of {} columns", cells.size(), columns_.size()));
  }
  std::vector<std::string> row = plain(cells);
  known_.insert({row.begin(), row.begin() + static_cast<std::ptrdiff_t>(keys_)});
  rows_.push_back(std::move(row));
  if (!file_.empty()) save();
}

std::size_t Table::column(const std::string& name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end()) throw std::invalid_argument("no column '" + name + "'");
  return static_cast<std::size_t>(found - columns_.begin());
}

void Table::keep_in(const std::filesystem::path& csv) {
  if (std::filesystem::is_directory(csv)) {
    throw Failure(csv.string() + " is a folder, results are a file; move it away");
  }
  std::ifstream in(csv);
  std::string line;
  if (in && std::getline(in, line)) {
    if (split(line) != columns_) {
      throw Failure(csv.string() + " has other columns than this experiment; move it away");
    }
    while (std::getline(in, line)) {
      const auto cells = split(line);
      if (cells.size() == columns_.size()) add(cells);
    }
  }
  file_ = csv;
  if (csv.has_parent_path()) std::filesystem::create_directories(csv.parent_path());
  save();
}

void Table::save() const {
  const std::string partial = file_.string() + ".partial-" + std::to_string(getpid());  // ours
  std::ofstream out(partial);
  out << joined(columns_) << "\n";
  for (const auto& row : rows_) out << joined(row) << "\n";
  out.close();
  if (!out)
    throw Failure("cannot write " + file_.string() + "; choose a place that can be written");
  std::filesystem::rename(partial, file_);
}

void write_provenance(const std::filesystem::path& json,
                      const std::map<std::string, std::string>& facts) {
  std::ofstream out(json);
  out << nlohmann::json(facts).dump(1) << "\n";
  out.close();
  if (!out) throw Failure("cannot write " + json.string() + "; choose a place that can be written");
}

std::string cell(double x) { return fmt::format("{:.4g}", x); }

}  // namespace plumb

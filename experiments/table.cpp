#include "experiments/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "number/outcome.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::experiments {
namespace {

// A layout's commas stand in the file as semicolons. A cell that has semicolons itself, quotes or
// an end of line is quoted (RFC 4180), so that every cell is read as it was written.
std::string written(std::string cell) {
  if (cell.find_first_of(";\"\n\r") == cell.npos) {
    std::replace(cell.begin(), cell.end(), ',', ';');
    return cell;
  }
  std::string quoted = "\"";
  for (const char c : cell) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

std::string line_of(const Table::Row& row) {
  std::vector<std::string> cells;
  for (const std::string& cell : row) cells.push_back(written(cell));
  return fmt::format("{}\n", fmt::join(cells, ","));
}

// One cell, from `at` to behind it.
std::string read_cell(std::string_view text, std::size_t& at) {
  std::string cell;
  if (at >= text.size() || text[at] != '"') {
    const std::size_t end = std::min(text.find_first_of(",\n", at), text.size());
    cell = text.substr(at, end - at);
    at = end;
    if (cell.ends_with('\r')) cell.pop_back();
    std::replace(cell.begin(), cell.end(), ';', ',');
    return cell;
  }
  for (++at; at < text.size(); ++at) {
    const bool quote = text[at] == '"';
    if (quote && (at + 1 >= text.size() || text[at + 1] != '"')) break;
    if (quote) ++at;
    cell += text[at];
  }
  at = std::min(at + 1, text.size());
  return cell;
}

std::vector<Table::Row> rows_of(std::string_view text) {
  std::vector<Table::Row> rows;
  for (std::size_t at = 0; at < text.size();) {
    Table::Row row{read_cell(text, at)};
    while (at < text.size() && text[at] == ',') row.push_back(read_cell(text, ++at));
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
    const bool blank = row.size() == 1 && row[0].empty();
    if (!blank) rows.push_back(std::move(row));
  }
  return rows;
}

// A table ends with an end of line and has no zero bytes, unless a crash took part of it.
void refuse_cut(std::string_view csv, const std::string& name) {
  if (csv.find('\0') != csv.npos) {
    throw Failure(name + " has zero bytes, as a crash leaves them; remove it, and make it again");
  }
  if (csv.empty() || csv.back() == '\n') return;
  throw Failure(name +
                " ends in the middle of its last row; remove what is left of the row, or end the "
                "line if it is whole");
}

}  // namespace

bool Table::wanted(const Row& key) const {
  return !wanted_ || wanted_(fmt::format("{}", fmt::join(key, " ")));
}

bool Table::settled(const Row& key) const {
  if (asks_ && asked_once_.insert(key).second) asked_.push_back(key);
  return asks_ || known_.contains(key) || !wanted(key);
}

Table::Row Table::key_of(const Row& row) const {
  return {row.begin(), row.begin() + static_cast<std::ptrdiff_t>(keys_)};
}

void Table::put(const Row& row) {
  if (row.size() != columns_.size()) {
    throw std::invalid_argument(
        fmt::format("a row of {} cells for a table of {} columns", row.size(), columns_.size()));
  }
  const auto [place, is_new] = known_.emplace(key_of(row), rows_.size());
  if (is_new) {
    rows_.push_back(row);
  } else {
    rows_[place->second] = row;
  }
}

void Table::add_group(const std::vector<Row>& group) {
  for (const Row& row : group) put(row);
  is_saved_ = false;
  if (std::chrono::steady_clock::now() - saved_at_ >= pause_) save();
  if (told_) told_(group);
}

void Table::sort_like(const std::vector<Row>& keys) {
  std::map<Row, std::size_t> places;
  for (const Row& key : keys) places.emplace(key, places.size());
  std::vector<std::pair<std::size_t, Row>> sorted;  // by the place of the group
  for (const Row& row : rows_) sorted.emplace_back(keys.size(), row);
  for (std::size_t r = 0, first = 0; r < rows_.size(); ++r) {
    const auto last = places.find(key_of(rows_[r]));
    if (last == places.end()) continue;
    for (; first <= r; ++first) sorted[first].first = last->second;
  }
  std::ranges::stable_sort(sorted, {}, &std::pair<std::size_t, Row>::first);
  rows_.clear();
  known_.clear();
  for (const auto& [place, row] : sorted) put(row);
  is_saved_ = false;
}

void Table::save() {
  if (file_.empty() || is_saved_) return;
  write(file_);
  is_saved_ = true;
  saved_at_ = std::chrono::steady_clock::now();
}

std::size_t Table::column(const std::string& name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end()) throw std::invalid_argument("no column '" + name + "'");
  return static_cast<std::size_t>(found - columns_.begin());
}

void Table::read(std::string_view csv, const std::string& name) {
  refuse_cut(csv, name);
  const std::vector<Row> rows = rows_of(csv);
  if (rows.empty()) return;
  if (rows.front() != columns_) {
    throw Failure(name + " has other columns than this experiment; move it away");
  }
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (rows[r].size() != columns_.size()) {
      throw Failure(
          fmt::format("row {} of {} has {} cells, its table {} columns; mend or remove it", r, name,
                      rows[r].size(), columns_.size()));
    }
    const Row key = key_of(rows[r]);
    const auto found = known_.find(key);
    if (found != known_.end() && rows_[found->second] != rows[r]) {
      throw Failure(fmt::format("{} has two rows '{}' that differ; remove one of them", name,
                                fmt::join(key, " ")));
    }
    put(rows[r]);
  }
}

void Table::keep_in(const std::filesystem::path& csv, std::chrono::steady_clock::duration pause) {
  if (std::filesystem::is_directory(csv)) {
    throw Failure(csv.string() + " is a folder, results are a file; move it away");
  }
  make_folders(csv.parent_path());
  lock_ = std::make_shared<const FileLock>(csv.string() + ".lock", csv.string());
  std::ifstream in(csv);
  std::ostringstream text;
  if (in && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  read(text.str(), csv.string());
  file_ = csv;
  pause_ = pause;
  is_saved_ = false;  // the file may not be there yet
  save();
}

std::string Table::text() const {
  std::string text = line_of(columns_);
  for (const Row& row : rows_) text += line_of(row);
  return text;
}

void Table::write(const std::filesystem::path& csv) const { write_whole(csv, text()); }

Table table_of(std::string_view csv, const std::string& name) {
  const std::vector<Table::Row> heading = rows_of(csv.substr(0, csv.find('\n')));
  if (heading.empty()) throw Failure(name + " names no columns in its first line");
  Table table(heading.front(), heading.front().size());
  table.read(csv, name);
  return table;
}

void write_provenance(const std::filesystem::path& json,
                      const std::map<std::string, std::string>& facts) {
  write_whole(json, nlohmann::json(facts).dump(1) + "\n");
}

std::map<std::string, std::string> provenance_of(std::string_view json) {
  std::map<std::string, std::string> facts;
  const nlohmann::json read = nlohmann::json::parse(json, nullptr, false);
  if (!read.is_object()) return facts;
  for (const auto& [name, value] : read.items()) {
    if (value.is_string()) facts.emplace(name, value.get<std::string>());
  }
  return facts;
}

std::string cell(double x) { return fmt::format("{:.4g}", x); }

Table counted(const Table& rows, const std::vector<std::string>& keys, const std::string& all,
              const std::vector<std::string>& columns, std::vector<std::string> names) {
  std::vector<std::string> head = keys;
  head.push_back(all);
  if (names.empty()) names = columns;
  head.insert(head.end(), names.begin(), names.end());
  std::vector<Table::Row> order;
  std::map<Table::Row, std::vector<std::size_t>> counts;
  for (const Table::Row& row : rows.rows()) {
    Table::Row key;
    for (const std::string& name : keys) key.push_back(row[rows.column(name)]);
    if (!counts.contains(key)) order.push_back(key);
    std::vector<std::size_t>& n = counts[key];
    n.resize(1 + columns.size());
    ++n[0];
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string& text = row[rows.column(columns[i])];
      n[1 + i] += text != "0" && text != "-";
    }
  }
  Table out(std::move(head), keys.size());
  for (Table::Row row : order) {
    const std::vector<std::size_t>& n = counts[row];
    std::ranges::transform(n, std::back_inserter(row), [](auto x) { return std::to_string(x); });
    out.add(row);
  }
  return out;
}

}  // namespace plumb::experiments

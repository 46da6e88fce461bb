// experiments/table.hpp: rows of results with their provenance: a CSV file and a JSON file beside
// it.
//
// TESTED   tests/experiments/table_test.cpp
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace plumb {

class Table {
 public:
  Table(std::vector<std::string> columns, std::size_t keys)
      : columns_(std::move(columns)), keys_(keys) {}

  // Has a row that begins with these cells (as many as there are keys) been made already, or is it
  // not asked for?
  bool settled(const std::vector<std::string>& key) const;
  // From now on only rows are asked for whose key, its cells with blanks between, is wanted.
  void only(std::function<bool(const std::string&)> wanted) { wanted_ = std::move(wanted); }
  // Throws std::invalid_argument unless there is one cell per column. Saves at once where a file is
  // set, so that nothing is lost when a run is stopped.
  void add(const std::vector<std::string>& cells);

  const std::vector<std::vector<std::string>>& rows() const { return rows_; }
  const std::vector<std::string>& columns() const { return columns_; }
  // Index of a column. Throws std::invalid_argument if there is none of that name.
  std::size_t column(const std::string& name) const;

  // Reads the rows of an earlier run, if the file exists, and saves every row added to it.
  // Throws Failure if it has other columns.
  void keep_in(const std::filesystem::path& csv);

 private:
  void save() const;

  std::vector<std::string> columns_;
  std::size_t keys_;
  std::vector<std::vector<std::string>> rows_;
  std::set<std::vector<std::string>> known_;
  std::function<bool(const std::string&)> wanted_;  // empty: all
  std::filesystem::path file_;
};

// Command, commit, flags, device, seeds: what makes a row worth believing.
void write_provenance(const std::filesystem::path& json,
                      const std::map<std::string, std::string>& facts);

std::string cell(double x);  // four significant digits

}  // namespace plumb

// experiments/table.hpp: rows of results with their provenance: a CSV file and a JSON file beside
// it. One process writes a table at a time; rows that are made together are written together.
//
// TESTED   tests/experiments/table_test.cpp
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/sees.hpp"
#include "trace/store/file_lock.hpp"

namespace plumb::experiments {

class Table {
 public:
  using Row = std::vector<std::string>;

  Table(std::vector<std::string> columns, std::size_t keys)
      : columns_(std::move(columns)), keys_(keys) {}

  // Has a row that begins with these cells (as many as there are keys) been made already, or is it
  // not asked for?
  bool settled(const Row& key) const;
  // From now on only rows are asked for whose key, its cells with blanks between, is wanted.
  void only(std::function<bool(const std::string&)> wanted) { wanted_ = std::move(wanted); }
  // From now on no row is asked for; what would have been, wanted or not, is in asked().
  void only_ask() { asks_ = true; }
  const std::set<Row>& asked() const { return asked_; }
  bool wanted(const Row& key) const;
  // Throws std::invalid_argument unless there is one cell per column. Saves at once where a file is
  // set, so that nothing is lost when a run is stopped. A row whose key is there takes its place.
  void add(const Row& cells) { add_group({cells}); }
  // Rows that are made together and looked up by the last: the file has all of them or none.
  void add_group(const std::vector<Row>& group);

  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<std::string>& columns() const { return columns_; }
  // Index of a column. Throws std::invalid_argument if there is none of that name.
  std::size_t column(const std::string& name) const;

  // Reads rows; `name` is said of text that has other columns or is no table. Throws Failure.
  void read(std::string_view csv, const std::string& name);
  // Reads the rows of an earlier run, if the file exists, and saves every row added to it.
  // Throws Failure if it has other columns or another process writes it.
  void keep_in(const std::filesystem::path& csv);
  // Writes these rows in the place of what the file had.
  void write(const std::filesystem::path& csv) const;

 private:
  void put(const Row& row);

  std::vector<std::string> columns_;
  std::size_t keys_;
  std::vector<Row> rows_;
  std::map<Row, std::size_t> known_;                // where the row of a key lies
  std::function<bool(const std::string&)> wanted_;  // empty: all
  bool asks_ = false;
  mutable std::set<Row> asked_;
  std::filesystem::path file_;
  std::shared_ptr<const FileLock> lock_;
};

// The table of a text whose first line names its columns; all of them are keys. Throws Failure as
// Table::read does.
Table table_of(std::string_view csv, const std::string& name);

// Command, commit, flags, device, seeds: what makes a row worth believing.
void write_provenance(const std::filesystem::path& json,
                      const std::map<std::string, std::string>& facts);

// What such a text says; nothing of one that is no such document.
std::map<std::string, std::string> provenance_of(std::string_view json);

std::string cell(double x);  // four significant digits

}  // namespace plumb::experiments

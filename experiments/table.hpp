// experiments/table.hpp: rows of results with their provenance: a CSV file and a JSON file beside
// it. One process writes a table at a time; rows that are made together are written together.
//
// CLAIM    What was saved no crash takes away, and a file never has half a row: it is replaced as a
//          whole. Rows that were added since are made again by the run that goes on.
// COSTS    A save writes the whole file and waits for the disk; so there is at most one a second
//          while rows are added, and one at the end.
// TESTED   tests/experiments/table_test.cpp, tests/experiments/crash_test.cpp
#pragma once

#include <chrono>
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
  // From now on no row is asked for; what would have been, wanted or not, is in asked(), each once,
  // in the order in which it was first.
  void only_ask() { asks_ = true; }
  const std::vector<Row>& asked() const { return asked_; }
  bool wanted(const Row& key) const;
  // Throws std::invalid_argument unless there is one cell per column. Where a file is set and the
  // last save is long enough ago, saves. A row whose key is there takes its place.
  void add(const Row& cells) { add_group({cells}); }
  // Rows that are made together and looked up by the last: the file has all of them or none.
  void add_group(const std::vector<Row>& group);
  // From now on each group that is added is told to `told`, too.
  void tell_of_groups(std::function<void(const std::vector<Row>&)> told) {
    told_ = std::move(told);
  }
  // Puts groups in the order in which their last keys stand in `keys`; rows of no such key go last.
  void sort_like(const std::vector<Row>& keys);

  // A table of the same columns without rows and without a file.
  Table empty_copy() const { return {columns_, keys_}; }
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<std::string>& columns() const { return columns_; }
  // Index of a column. Throws std::invalid_argument if there is none of that name.
  std::size_t column(const std::string& name) const;

  // Reads rows; `name` is said of text that has other columns, was cut or is no table. Throws
  // Failure.
  void read(std::string_view csv, const std::string& name);
  // Reads the rows of an earlier run, if the file exists; from now on rows are saved there, not
  // oftener than `pause` allows, and those since by save(). Throws Failure if the file has other
  // columns or another process writes it.
  void keep_in(const std::filesystem::path& csv,
               std::chrono::steady_clock::duration pause = std::chrono::seconds(1));
  // Writes to the file what was added since the last save; nothing where there is no file.
  void save();
  // Writes these rows in the place of what the file had.
  void write(const std::filesystem::path& csv) const;
  std::string text() const;  // of the file

 private:
  void put(const Row& row);
  Row key_of(const Row& row) const;

  std::vector<std::string> columns_;
  std::size_t keys_;
  std::vector<Row> rows_;
  std::map<Row, std::size_t> known_;                // where the row of a key lies
  std::function<bool(const std::string&)> wanted_;  // empty: all
  bool asks_ = false;
  mutable std::vector<Row> asked_;
  mutable std::set<Row> asked_once_;
  std::function<void(const std::vector<Row>&)> told_;  // may be empty
  std::filesystem::path file_;
  std::chrono::steady_clock::duration pause_{};
  std::chrono::steady_clock::time_point saved_at_;
  bool is_saved_ = true;
  std::shared_ptr<const FileLock> lock_;
};

// Rows with the same cells in `keys` as one: these, how many there are (a column of the name `all`), and
// in how many each of the columns is neither 0 nor "-". Columns are named as `names` says, by default as
// they are.
Table counted(const Table& rows, const std::vector<std::string>& keys, const std::string& all,
              const std::vector<std::string>& columns, std::vector<std::string> names = {});

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

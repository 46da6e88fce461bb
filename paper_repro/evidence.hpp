// paper_repro/evidence.hpp: rows of results, by the names of their columns, and where they came
// from. Claims are judged by nothing else.
//
// TESTED   tests/paper_repro/claims_test.cpp
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/table.hpp"
#include "paper_repro/sees.hpp"

namespace plumb::paper_repro {

// Thrown where rows are lacking: which.
struct NotMeasured {
  std::string what;
};

class Row {
 public:
  Row(std::shared_ptr<const Table> table, std::size_t at) : table_(std::move(table)), at_(at) {}

  // The cell of a column. Throws Failure if the table has no such column.
  const std::string& operator[](const std::string& column) const;
  // Throws Failure if the cell is no number. "1" is true.
  double number(const std::string& column) const;
  bool is(const std::string& column, std::string_view value) const {
    return (*this)[column] == value;
  }
  bool yes(const std::string& column) const { return is(column, "1"); }

 private:
  std::shared_ptr<const Table> table_;
  std::size_t at_;
};

using Rows = std::vector<Row>;
// Those rows whose cells are these. Throws NotMeasured if there are none.
Rows where(const Rows& rows, std::initializer_list<std::pair<const char*, std::string_view>> cells);
// The different cells of a column, in the order in which they come first.
std::vector<std::string> values_of(const Rows& rows, const std::string& column);

class Evidence {
 public:
  using Texts = std::function<std::optional<std::string>(const std::string& file)>;
  // `texts` returns a file's text, as "detection-rate.csv", or nothing; `place` is said of it. Rows
  // that it lacks can be made in `folder`.
  Evidence(Texts texts, std::string place, std::string folder = "DIR")
      : texts_(std::move(texts)), place_(std::move(place)), folder_(std::move(folder)) {}

  // The rows of one question. Throws NotMeasured if there are none, Failure if they cannot be read.
  const Rows& rows(const std::string& question) const;
  // The rates that the experiment of that name makes of them.
  Rows rates(const std::string& question) const;
  // What is said of how they were made ("command", "commit", "device"), where it is said.
  std::map<std::string, std::string> provenance(const std::string& question) const;
  // How many rows there are of a question.
  std::size_t count(const std::string& question) const;
  const std::string& place() const { return place_; }
  const std::string& folder() const { return folder_; }
  std::optional<std::string> text(const std::string& file) const { return texts_(file); }

 private:
  Texts texts_;
  std::string place_, folder_;
  mutable std::map<std::string, Rows> known_;
};

// The rows that the repository holds, as they were when the program was built.
Evidence committed_evidence();
// The rows of a folder, as `plumb experiment ... -o FOLDER` writes them. Throws Failure if there is
// no such folder.
Evidence evidence_in(const std::filesystem::path& folder);

}  // namespace plumb::paper_repro

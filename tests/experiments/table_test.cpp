// Do rows survive a stop, and are they made only once?
#include "experiments/table.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "bounds/outcome.hpp"

namespace plumb {
namespace {

class TableOnDisk : public testing::Test {
 protected:
  TableOnDisk()
      : folder_(std::filesystem::temp_directory_path() /
                ("plumb-table-" + std::to_string(getpid()))) {}
  ~TableOnDisk() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(TableOnDisk, GoesOnWhereItStopped) {
  {
    Table first({"bug", "layout", "found"}, 2);
    first.keep_in(folder_ / "x.csv");
    first.add({"a", "dp2,tp2", "1"});
  }
  Table second({"bug", "layout", "found"}, 2);
  second.keep_in(folder_ / "x.csv");
  EXPECT_EQ(second.rows().size(), 1U);
  EXPECT_TRUE(second.settled({"a", "dp2,tp2"})) << "as the experiment asks, comma and all";
  EXPECT_FALSE(second.settled({"b", "dp2,tp2"}));
}

TEST_F(TableOnDisk, MakesOnlyWhatIsAskedFor) {
  Table table({"bug", "layout", "found"}, 2);
  table.only([](const std::string& key) { return key.find("a dp2,tp2") != key.npos; });
  EXPECT_FALSE(table.settled({"a", "dp2,tp2"}));
  EXPECT_TRUE(table.settled({"a", "tp2"}));
  table.add({"a", "dp2,tp2", "1"});
  EXPECT_TRUE(table.settled({"a", "dp2,tp2"}));
}

TEST_F(TableOnDisk, WritesOverNothingThatIsNotItsOwn) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "x.csv.partial") << "precious";
  Table table({"a"}, 1);
  table.keep_in(folder_ / "x.csv");
  std::string word;
  std::ifstream(folder_ / "x.csv.partial") >> word;
  EXPECT_EQ(word, "precious");
}

TEST_F(TableOnDisk, RefusesRowsOfAnotherShapeAndFilesOfAnotherTable) {
  Table table({"a", "b"}, 1);
  EXPECT_THROW(table.add({"1"}), std::invalid_argument);
  table.keep_in(folder_ / "x.csv");
  Table other({"a", "c"}, 1);
  EXPECT_THROW(other.keep_in(folder_ / "x.csv"), Failure);
}

}  // namespace
}  // namespace plumb

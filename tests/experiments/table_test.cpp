// Do rows survive a stop, and are they made only once?
#include "experiments/table.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "number/outcome.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "trace/store/disk.hpp"

namespace plumb::table_test {
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
    first.save();
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

TEST_F(TableOnDisk, ReadsEveryCellAsItWasWritten) {
  const std::string pieces = ",;\"\n\r a1";
  std::mt19937 random(3);
  const DiskRecording unsynced([](const DiskStep&) {});  // which would take seconds
  for (int round = 0; round < effort(200); ++round) {
    std::vector<Table::Row> written;
    for (int r = 0; r < 4; ++r) {
      Table::Row row{std::to_string(r)};
      for (int c = 0; c < 3; ++c) {
        row.emplace_back();
        for (auto n = random() % 6; n > 0; --n) row.back() += pieces[random() % pieces.size()];
      }
      written.push_back(row);
    }
    const auto file = folder_ / ("x" + std::to_string(round) + ".csv");
    Table first({"key", "a", "b", "c"}, 1);
    first.keep_in(file);
    first.add_group(written);
    first.save();
    Table second({"key", "a", "b", "c"}, 1);
    std::ifstream in(file);
    second.read(std::string((std::istreambuf_iterator<char>(in)), {}), "x");
    ASSERT_EQ(second.rows(), written);
  }
}

// As files of earlier versions have them: a killed run left the first rows of a group.
TEST_F(TableOnDisk, MendsAGroupThatWasLeftHalfAndKeepsOneOfEqualRows) {
  Table table({"bug", "rule", "found"}, 2);
  table.read("bug,rule,found\na,twins;replay,1\na,flat,0\na,flat,0\n", "x");
  EXPECT_EQ(table.rows().size(), 2U);
  EXPECT_FALSE(table.settled({"a", "last"}));
  const std::vector<Table::Row> group{
      {"a", "twins,replay", "2"}, {"a", "flat", "0"}, {"a", "last", "1"}};
  table.add_group(group);
  EXPECT_EQ(table.rows(), group);
}

TEST_F(TableOnDisk, HasOneWriter) {
  Table first({"a"}, 1), second({"a"}, 1), other({"a"}, 1);
  first.keep_in(folder_ / "x.csv");
  EXPECT_THROW(second.keep_in(folder_ / "x.csv"), Failure);
  other.keep_in(folder_ / "y.csv");
}

TEST_F(TableOnDisk, RefusesRowsThatWereCutAndRowsThatContradict) {
  Table table({"a", "b"}, 1);
  EXPECT_THROW(table.read("a,b\n1,2\n3\n", "x"), Failure);
  EXPECT_THROW(table.read("a,b\n1,2\n1,3\n", "x"), Failure);
}

TEST_F(TableOnDisk, RefusesWhatACrashMayHaveTakenPartOf) {
  const std::string zeros("a,b\n1,2\0\0\n", 10);
  for (const std::string& text : {std::string("a,b\n1,2.5\n2,2"), zeros}) {
    Table table({"a", "b"}, 1);
    EXPECT_THROW(table.read(text, "x"), Failure) << "the last may have been 2.5: " << text;
    EXPECT_TRUE(table.rows().empty());
  }
}

TEST_F(TableOnDisk, SavesWhenItsPauseIsOverAndWhenItIsAskedTo) {
  const auto saved = [&] {
    std::ifstream in(folder_ / "x.csv");
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  Table table({"a"}, 1);
  table.keep_in(folder_ / "x.csv", std::chrono::hours(1));
  EXPECT_EQ(saved(), "a\n");
  table.add({"1"});
  EXPECT_EQ(saved(), "a\n");
  table.save();
  EXPECT_EQ(saved(), "a\n1\n");
  Table other({"a"}, 1);
  other.keep_in(folder_ / "y.csv", std::chrono::seconds(0));
  other.add({"1"});
  EXPECT_EQ(std::filesystem::file_size(folder_ / "y.csv"), 4U);
}

TEST_F(TableOnDisk, RefusesRowsOfAnotherShapeAndFilesOfAnotherTable) {
  Table table({"a", "b"}, 1);
  EXPECT_THROW(table.add({"1"}), std::invalid_argument);
  table.keep_in(folder_ / "x.csv");
  Table other({"a", "c"}, 1);
  EXPECT_THROW(other.keep_in(folder_ / "x.csv"), Failure);
}

TEST(Table, CountsRowsThatShareCells) {
  Table rows({"bug", "seed", "found", "left"}, 2);
  for (const Table::Row& row :
       {Table::Row{"b", "1", "1", "-"}, {"a", "1", "0", "3"}, {"b", "2", "1", "0"}}) {
    rows.add(row);
  }
  const Table counts =
      counted(rows, {"bug"}, "runs", {"found", "left"}, {"found", "with_some_left"});
  EXPECT_EQ(counts.columns(), (Table::Row{"bug", "runs", "found", "with_some_left"}));
  EXPECT_EQ(counts.rows(), (std::vector<Table::Row>{{"b", "2", "2", "0"}, {"a", "1", "0", "1"}}));
}

}  // namespace
}  // namespace plumb::table_test

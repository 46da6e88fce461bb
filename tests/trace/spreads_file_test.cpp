// Do stored spreads come back as they were, and is every other file refused in one sentence?
#include "trace/store/spreads_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::spreads_file_test {
namespace {

namespace fs = std::filesystem;

class SpreadsFile : public testing::Test {
 protected:
  SpreadsFile() : file_(fs::temp_directory_path() / ("plumb-spreads-" + std::to_string(getpid()))) {
    Learnt::OfTensor tensor{};
    tensor[0] = {0.1 + 0x1p-50, 7};
    spreads_.of.settings = {{"family", "gpt"}, {"recipe", "fp8-current"}, {"seed", "1"}};
    spreads_.of.step = 3;
    spreads_.batches = 25;
    spreads_.twins = 8;
    spreads_.learnt = Learnt({{"head/out", tensor}});
    fs::remove(file_);
  }
  ~SpreadsFile() override { fs::remove(file_); }

  fs::path file_;
  StoredSpreads spreads_;
};

TEST_F(SpreadsFile, BringsEveryBitBack) {
  write_spreads(spreads_, file_);
  const StoredSpreads back = read_spreads(file_);
  EXPECT_EQ(back.of.settings, spreads_.of.settings);
  EXPECT_EQ(back.of.step, 3);
  EXPECT_EQ(back.batches, 25);
  EXPECT_EQ(back.twins, 8);
  EXPECT_EQ(back.learnt.variance("m4/head/out", Statistic::norm), (0.1 + 0x1p-50) / 7);
  EXPECT_FALSE(back.learnt.variance("head/out", Statistic::row));
}

TEST_F(SpreadsFile, IsNeverOverwritten) {
  write_spreads(spreads_, file_);
  EXPECT_THROW(write_spreads(spreads_, file_), Failure);
}

TEST_F(SpreadsFile, RefusesEverythingElse) {
  EXPECT_THROW(read_spreads(file_), Failure);
  EXPECT_THROW(read_spreads(fs::temp_directory_path()), Failure);
  for (const char* text :
       {"", "[]", "{}", R"({"schema":"plumb-spreads/2"})", R"({"schema":"plumb-spreads/1"})",
        R"({"schema":"plumb-spreads/1","settings":{},"step":1,"batches":2,"twins":2,)"
        R"("tensors":{"a":[[1,1]]}})",
        R"({"schema":"plumb-spreads/1","settings":{},"step":1,"batches":2,"twins":2,)"
        R"("tensors":{"a":[[-1,1],[1,1],[1,1],[1,1],[1,1]]}})"}) {
    std::ofstream(file_) << text;
    EXPECT_THROW(read_spreads(file_), Failure) << text;
  }
}

TEST_F(SpreadsFile, AreOfOneModelRecipeAndLayout) {
  Manifest candidate;
  candidate.settings = {{"family", "gpt"}, {"recipe", "fp8-current"}, {"seed", "2"}};
  EXPECT_NO_THROW(refuse_other_run(spreads_, candidate));
  candidate.settings["recipe"] = "bf16";
  EXPECT_THROW(refuse_other_run(spreads_, candidate), Failure);
  candidate.settings.erase("recipe");
  EXPECT_THROW(refuse_other_run(spreads_, candidate), Failure);
}

}  // namespace
}  // namespace plumb::spreads_file_test

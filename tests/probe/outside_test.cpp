// Are libraries and commands of others subjects like any, and is a wrong one refused in one sentence?
#include "probe/outside.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "number/outcome.hpp"
#include "probe/calibrate.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::outside_test {
namespace {

namespace fs = std::filesystem;

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

const std::vector<Operands> one_product{{Tensor(2, 3, 2.0F), Tensor(3, 4, 0.5F)}};

class Script : public testing::Test {
 protected:
  // A command that runs this body with its two files as $1 and $2.
  std::string command(const std::string& body) {
    file_ = fs::temp_directory_path() / ("plumb-command-" + std::to_string(getpid()) + ".sh");
    std::ofstream(file_) << body << '\n';
    return "sh '" + file_.string() + "'";
  }
  void TearDown() override { fs::remove(file_); }

 private:
  fs::path file_;
};

TEST(Outside, ThePlugInOfTheExampleIsProbed) {
  const Subject subject = subject_in_library(PLUMB_EXAMPLE_PLUG_IN);
  EXPECT_EQ(subject.name, "four_lanes");
  const Tensor c = subject.multiply(one_product)[0];
  EXPECT_EQ(c.values.front(), 3);
  CalibrateOptions options;
  options.longest = 100;
  const Calibration found = calibrate(subject, options);
  EXPECT_EQ(found.card.fact("order_gemm")->value, "lanes 4 pairwise up to 100");
  EXPECT_EQ(found.card.fact("rounding")->value, "nearest_even");
  EXPECT_EQ(found.card.fact("fma")->value, "any");
  EXPECT_EQ(found.card.fact("order_column_sum")->value, "sequential up to 100");
  EXPECT_EQ(found.card.fact("order_softmax")->value, "lanes 4 pairwise up to 100");
  EXPECT_EQ(found.validation.equal, 1);
  EXPECT_TRUE(found.validation.holds());
}

TEST(Outside, TheCommandOfTheExampleHasSumsAndCasts) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "no numpy here: install python3-numpy";
  }
  Subject subject = subject_of_command(
      "/usr/bin/python3 " PLUMB_SOURCE_DIR "/examples/plug_in/products.py numpy", fp32);
  const std::vector<Tensor> asked{Tensor(3, 2, 1.5F), Tensor(2, 4, 0.5F)};
  const auto columns = subject.tables["column_sum"](asked);
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns[0], Tensor(2, 1, 4.5F));
  EXPECT_EQ(columns[1], Tensor(4, 1, 1.0F));
  EXPECT_EQ(subject.tables["row_sum"](asked)[1], Tensor(2, 1, 2.0F));
  EXPECT_EQ(subject.tables["softmax"](asked)[1], Tensor(2, 4, 0.25F));
  EXPECT_EQ(subject.functions["cast_fp16"]({1 + 0x1p-12F}, {}), std::vector<float>{1});
  EXPECT_TRUE(subject.functions["cast_e5m2"]({1}, {}).empty());
}

// One that loads a large library is started once.
TEST(Outside, TheCommandOfTheExampleStays) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "no numpy here: install python3-numpy";
  }
  const std::string words = "echo $$ >>'" + std::string(testing::TempDir()) + "plumb-started-" +
                            std::to_string(getpid()) +
                            "'; exec /usr/bin/python3 " PLUMB_SOURCE_DIR
                            "/examples/plug_in/products.py numpy";
  const fs::path started = testing::TempDir() + "plumb-started-" + std::to_string(getpid());
  {
    Subject subject = subject_of_command(words, fp32, true);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(subject.multiply(one_product)[0].values.front(), 3);
    EXPECT_EQ(subject.tables["row_sum"]({Tensor(2, 4, 0.5F)})[0], Tensor(2, 1, 2.0F));
  }
  std::ifstream in(started);
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(in), {}, '\n'), 1);
  fs::remove(started);
}

TEST_F(Script, ThatShouldStayAndEndsIsRefused) {
  const Subject subject = subject_of_command(command("read -r line; exit 3"), fp32, true);
  EXPECT_NE(
      refusal([&] { (void)subject.multiply(one_product); }).find("ended with 3; it is told IN"),
      std::string::npos);
}

// A command that has no such tables is a subject without them.
TEST_F(Script, ThatWritesNoTableHasNone) {
  const Subject subject = subject_of_command(command("cp \"$1\" \"$2\""), fp32);
  EXPECT_TRUE(subject.tables.at("softmax")({Tensor(1, 2)}).empty());
}

TEST(Outside, LibrariesThatOfferNothingAreRefused) {
  EXPECT_NE(refusal([] { (void)subject_in_library("nowhere.so"); }).find("cannot open"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              (void)subject_in_library("/lib/x86_64-linux-gnu/libm.so.6");
            }).find("has no plumb_subject_of_library()"),
            std::string::npos);
}

TEST_F(Script, ThatCopiesItsInputIsRefused) {
  const Subject subject = subject_of_command(command("cp \"$1\" \"$2\""), fp32);
  EXPECT_EQ(refusal([&] { (void)subject.multiply(one_product); }),
            "the command wrote no tensor c.0; each product or table has one");
}

TEST_F(Script, ThatFailsIsRefused) {
  const Subject subject = subject_of_command(command("exit 3"), fp32);
  EXPECT_NE(refusal([&] { (void)subject.multiply(one_product); }).find("ended with 3"),
            std::string::npos);
}

TEST_F(Script, ThatWritesAnotherShapeIsRefused) {
  // A file whose c.0 is one number: eight bytes of length, a header, four bytes.
  const std::string header = R"({"c.0":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}})";
  const fs::path ready = fs::temp_directory_path() / ("plumb-c0-" + std::to_string(getpid()));
  std::ofstream(ready, std::ios::binary)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header << std::string(4, '\0');
  const Subject subject = subject_of_command(command("cp '" + ready.string() + "' \"$2\""), fp32);
  EXPECT_EQ(refusal([&] { (void)subject.multiply(one_product); }),
            "the command wrote c.0 as 1 x 1; the product is 2 x 4");
  fs::remove(ready);
}

}  // namespace
}  // namespace plumb::probe::outside_test

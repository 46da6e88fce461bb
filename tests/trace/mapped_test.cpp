// Are numbers in a mapped file those that their codes mean?
#include "trace/store/mapped.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <numeric>

#include "number/encoding.hpp"
#include "number/outcome.hpp"
#include "tests/support/tensors.hpp"
#include "trace/merge.hpp"

namespace plumb::mapped_test {
namespace {

namespace fs = std::filesystem;

class MappedNumbers : public testing::Test {
 protected:
  MappedNumbers()
      : file_(fs::temp_directory_path() / ("plumb-mapped-" + std::to_string(getpid()))) {}
  ~MappedNumbers() override { fs::remove(file_); }

  // From the byte `place` on.
  Mapped mapped(const std::string& bytes, Stored stored, std::size_t place = 0) {
    fs::remove(file_);
    write_bytes(file_, std::string(place, 'x') + bytes);
    return {std::make_shared<const MappedFile>(file_), place, stored};
  }

  fs::path file_;
};

// Every code, at any place.
template <class Code>
void has_codes_of(const Mapped& numbers, const Format& format, std::size_t n) {
  for (const std::size_t first : {std::size_t(0), std::size_t(3)}) {
    std::vector<float> room(n - first);
    const float* x = numbers.at(first, room.size(), room.data());
    for (std::size_t e = 0; e < room.size(); ++e) {
      const auto truth = static_cast<float>(decode(static_cast<std::uint32_t>(first + e), format));
      ASSERT_EQ(std::isnan(x[e]), std::isnan(truth)) << format.name << " code " << first + e;
      ASSERT_EQ(std::signbit(x[e]), std::signbit(truth)) << format.name << " code " << first + e;
      if (std::isnan(truth)) continue;
      ASSERT_EQ(x[e], truth) << format.name << " code " << first + e;
    }
  }
}

TEST_F(MappedNumbers, AreThoseOfTheirCodes) {
  std::vector<std::uint16_t> codes(65536);
  std::iota(codes.begin(), codes.end(), 0);
  for (const std::size_t place : {0U, 1U}) {
    has_codes_of<std::uint16_t>(mapped(bytes_of(codes), Stored::bf16, place), bf16, codes.size());
    has_codes_of<std::uint16_t>(mapped(bytes_of(codes), Stored::f16, place), fp16, codes.size());
  }
  std::vector<std::uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 0);
  has_codes_of<std::uint8_t>(mapped(bytes_of(bytes), Stored::e4m3), e4m3fn, bytes.size());
  has_codes_of<std::uint8_t>(mapped(bytes_of(bytes), Stored::e5m2), e5m2, bytes.size());
}

TEST_F(MappedNumbers, OfWiderTypesAreRounded) {
  const std::vector<float> all{1, -0.0F, 3.5F, 1e30F};
  for (const std::size_t place : {0U, 4U, 7U}) {
    std::vector<float> room(all.size());
    const Mapped numbers = mapped(bytes_of(all), Stored::f32, place);
    const float* x = numbers.at(0, all.size(), room.data());
    EXPECT_TRUE(std::equal(all.begin(), all.end(), x)) << place;
  }
  std::vector<double> wide(1300, 0.1);
  wide[700] = 1e-50;
  std::vector<float> room(wide.size());
  const float* x = mapped(bytes_of(wide), Stored::f64).at(0, wide.size(), room.data());
  for (std::size_t e = 0; e < wide.size(); ++e) ASSERT_EQ(x[e], static_cast<float>(wide[e])) << e;
  const std::vector<std::int64_t> whole{std::int64_t(1) << 40, -2};
  x = mapped(bytes_of(whole), Stored::i64).at(0, 2, room.data());
  EXPECT_EQ(x[0], 0x1p40F);
  EXPECT_EQ(x[1], -2);
}

TEST_F(MappedNumbers, OfAFileThatCannotBeMappedAreRefused) {
  EXPECT_THROW(MappedFile(file_ / "nowhere"), Failure);
}

// The first halves of these bytes are alike: four zeros of BF16, and two of FP32.
TEST_F(MappedNumbers, OfAnotherFormatAreHeldAgainstNumbersAndNotAgainstBytes) {
  const Mapped zeros = mapped(std::string(8, '\0'), Stored::bf16);
  const Placement all = whole(1, 4);
  for (const bool same : {true, false}) {
    Trace trace;
    trace.ranks.resize(2);
    trace.ranks[0].shards["x"] = {all, {}, bf16, InFile{1, 4, zeros}};
    trace.ranks[1].shards["x"] = {all, Tensor(1, 4), bf16};
    if (!same) trace.ranks[1].shards["x"].values(0, 3) = 5;
    EXPECT_EQ(merge(trace).findings.empty(), same);
  }
}

}  // namespace
}  // namespace plumb::mapped_test

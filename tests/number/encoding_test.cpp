// Do codes mean what the standards say? Against themselves, and against ml_dtypes (data/codes.txt,
// written by data/codes.py).
#include "number/encoding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "number/outcome.hpp"
#include "number/rounding.hpp"
#include "tests/support/printing.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::encoding_test {
namespace {

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// The words of the line "FORMAT WHAT ..." of the data.
std::vector<std::string> line_of(std::string_view format, const std::string& what) {
  std::ifstream file(std::string(PLUMB_SOURCE_DIR) + "/tests/number/data/codes.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, kind;
    words >> name >> kind;
    if (name != format || kind != what) continue;
    std::vector<std::string> rest;
    for (std::string word; words >> word;) rest.push_back(word);
    return rest;
  }
  return {};
}

class Codes : public testing::TestWithParam<Format> {};

TEST_P(Codes, LeadToTheirNumberAndBack) {
  const Format format = GetParam();
  for (std::uint32_t code = 0; code < 1U << format.bits; ++code) {
    const double x = decode(code, format);
    ASSERT_TRUE(same(round_to(x, format), x)) << code;
    if (std::isnan(x)) continue;
    ASSERT_EQ(encode(x, format), code) << x;
  }
}

class MlDtypes : public testing::TestWithParam<Format> {};

TEST_P(MlDtypes, GivesEveryCodeTheSameNumber) {
  const Format format = GetParam();
  const std::vector<std::string> values = line_of(format.name, "decode");
  ASSERT_EQ(values.size(), 1U << format.bits);
  for (std::uint32_t code = 0; code < values.size(); ++code) {
    ASSERT_TRUE(same(decode(code, format), std::strtod(values[code].c_str(), nullptr))) << code;
  }
}

TEST_P(MlDtypes, RoundsEveryBf16NumberToTheSame) {
  const Format format = GetParam();
  std::map<std::uint32_t, std::uint32_t> runs;
  for (const std::string& run : line_of(format.name, "cast")) {
    runs[static_cast<std::uint32_t>(std::stoul(run))] =
        static_cast<std::uint32_t>(std::stoul(run.substr(run.find(':') + 1)));
  }
  ASSERT_FALSE(runs.empty());
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const double x = decode(code, bf16);
    const double rounded = round_to(x, format);
    // Not specified: NaN where a format has none; ml_dtypes rounds scales below 2^-126 up.
    if (std::isnan(x) && format.overflow == Overflow::to_largest) continue;
    if (format.zeros == Zeros::none && code > 0 && code < 128) continue;
    const double theirs = decode(std::prev(runs.upper_bound(code))->second, format);
    ASSERT_TRUE(same(rounded, theirs) || (std::isnan(rounded) && std::isnan(theirs)))
        << x << ": " << rounded << " " << theirs;
  }
}

std::string name_of(const testing::TestParamInfo<Format>& parameter) {
  return std::string(parameter.param.name);
}

const auto small = testing::Values(e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e3m2, e2m3, e2m1, e8m0);
INSTANTIATE_TEST_SUITE_P(Of, Codes, testing::Values(fp16, bf16), name_of);
INSTANTIATE_TEST_SUITE_P(OfSmall, Codes, small, name_of);
INSTANTIATE_TEST_SUITE_P(Of, MlDtypes, small, name_of);

TEST(Encoding, RefusesWhatItCannotHold) {
  EXPECT_THROW(encode(1.1, e4m3fn), Failure);
  EXPECT_THROW(encode(500, e4m3fn), Failure);
  EXPECT_THROW(encode(std::nan(""), e2m1), Failure);
  EXPECT_THROW(encode(-1, e8m0), Failure);
  EXPECT_THROW(encode(1, fp32), Failure);
  EXPECT_THROW(decode(0, tf32), Failure);
}

}  // namespace
}  // namespace plumb::encoding_test

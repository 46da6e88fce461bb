// Are numbers in memory read bit by bit, in each format and with any strides?
#include "trace/judge/given.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "number/encoding.hpp"
#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::given_test {
namespace {

template <class T>
std::vector<double> read(const std::vector<T>& x, const char* format,
                         std::vector<std::size_t> shape, std::vector<std::ptrdiff_t> strides = {},
                         std::size_t at = 0) {
  TensorInMemory tensor(x.data() + at, *find_stored(format), std::move(shape), std::move(strides),
                        "inputs[0]");
  std::vector<double> all(tensor.size());
  tensor.read(0, all);
  return all;
}

TEST(GivenInMemory, EveryCodeOfEveryShortFormatIsTheNumberThatItStandsFor) {
  std::size_t formats = 0;
  for (const Format& format : all_formats) {
    if (format.bits > 16) continue;
    const std::string name(format.name);
    const std::size_t codes = std::size_t(1) << format.bits;
    std::vector<double> found;
    if (format.bits == 16) {
      std::vector<std::uint16_t> bytes(codes);
      for (std::size_t c = 0; c < codes; ++c) bytes[c] = static_cast<std::uint16_t>(c);
      found = read(bytes, name.c_str(), {codes});
    } else {
      std::vector<std::uint8_t> bytes(256);
      for (std::size_t c = 0; c < 256; ++c) bytes[c] = static_cast<std::uint8_t>(c);
      found = read(bytes, name.c_str(), {256});
    }
    for (std::size_t c = 0; c < found.size(); ++c) {
      const double number =
          c < codes ? decode(static_cast<std::uint32_t>(c), format) : std::nan("");
      EXPECT_TRUE(found[c] == number || (std::isnan(found[c]) && std::isnan(number)))
          << name << " " << c;
    }
    EXPECT_EQ(format_of(*find_stored(name)), format);
    ++formats;
  }
  EXPECT_EQ(formats, 10U);
}

TEST(GivenInMemory, IndicesGoTheirStrides) {
  std::vector<float> x(60);
  for (std::size_t e = 0; e < x.size(); ++e) x[e] = static_cast<float>(e);
  using V = std::vector<double>;
  EXPECT_EQ(read(x, "fp32", {2, 3}), (V{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read(x, "fp32", {2, 3}, {1, 2}), (V{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(read(x, "fp32", {2, 3}, {10, 2}, 5), (V{5, 7, 9, 15, 17, 19}));
  EXPECT_EQ(read(x, "fp32", {2, 3}, {-10, -1}, 30), (V{30, 29, 28, 20, 19, 18}));
  EXPECT_EQ(read(x, "fp32", {2, 2, 2}, {20, 1, 5}), (V{0, 5, 1, 6, 20, 25, 21, 26}));
  EXPECT_EQ(read(x, "fp32", {3, 2}, {0, 7}), (V{0, 7, 0, 7, 0, 7}));
  EXPECT_EQ(read(x, "fp32", {}), (V{0}));
  EXPECT_EQ(read(x, "fp32", {0, 3}), V{});
  // A piece of it, that begins within a row.
  TensorInMemory across(x.data(), Stored::f32, {3, 4}, {1, 3}, "x");
  V piece(5);
  across.read(6, piece);
  EXPECT_EQ(piece, (V{7, 10, 2, 5, 8}));
}

TEST(GivenInMemory, RefusesInOneSentence) {
  const auto said = [](const auto& f) {
    try {
      (void)f();
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  const std::vector<double> wide{1, 2, 0.1, 3};
  EXPECT_EQ(said([&] {
              return read(wide, "fp64", {2, 2});
            }),
            "[1, 0] of inputs[0] is 0.1, which FP32 does not have; cast it as the kernel does, and "
            "give that");
  EXPECT_EQ(said([&] { return read(wide, "fp64", {2, 2}, {1, 2}); }).substr(0, 6), "[0, 1]");
  EXPECT_NE(said([&] {
              return read(wide, "fp64", {2, 2}, {1});
            }).find("and 1 strides"),
            std::string::npos);
  EXPECT_NE(said([&] {
              return read(wide, "fp64", {std::size_t(1) << 40, std::size_t(1) << 40});
            }).find("which no memory holds"),
            std::string::npos);
  EXPECT_EQ(find_stored("float32"), std::nullopt);
}

}  // namespace
}  // namespace plumb::given_test

// Can every operation be asked for by shape, and does it then answer?
#include "bounds/examples/shaped.hpp"

#include <gtest/gtest.h>

#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::shaped_test {
namespace {

TEST(Shaped, EveryOperationHasAShapeAndATolerance) {
  const auto known = shaped_operations();
  ASSERT_EQ(known.size(), all_operations().size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    EXPECT_EQ(known[i], all_operations()[i]->id);
    const std::string small = known[i] == "gemm" ? "3x40x2" : "4x6";
    const Example e = shaped_example(known[i], small, bf16);
    ASSERT_TRUE(tolerance_of(e)) << known[i] << ": " << tolerance_of(e).error().detail;
    Comparison seen;
    judge(e, evaluation_of(e), seen);
    EXPECT_EQ(seen.violations, 0U) << known[i];
    EXPECT_GT(seen.elements, 0U) << known[i];
    EXPECT_FALSE(usual_shape(known[i]).empty());
  }
}

TEST(Shaped, RefusesInASentence) {
  for (const auto& [op, shape] : {std::pair{"gemm", "3x4"},
                                  {"gemm", "3x4x"},
                                  {"gemm", "0x1x1"},
                                  {"gemm", "9999999x9999999x9999999"},
                                  {"batched_gemm", "9999x9999"},
                                  {"softmax", "4"},
                                  {"softmax", "4x-1"},
                                  {"softmax", "99999x99999"},
                                  {"rope", "4x8"},
                                  {"pack_heads", "4x8"},
                                  {"attention", "100000x6"},
                                  {"swiglu", "4x3"},
                                  {"tan", "4x4"}}) {
    EXPECT_THROW(shaped_example(op, shape, bf16), Failure) << op << " " << shape;
  }
}

}  // namespace
}  // namespace plumb::shaped_test

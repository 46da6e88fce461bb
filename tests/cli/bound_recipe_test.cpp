// Does `plumb bound` answer for the recipe's unit and casts, of real layers' shapes too, or refuse by name?
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::bound_recipe_test {
namespace {

nlohmann::json row_of(const std::string& arguments) {
  const Said said = plumb("bound --json " + arguments);
  EXPECT_EQ(said.code, 0) << arguments << "\n" << said.out;
  if (said.code != 0) return {};
  return nlohmann::json::parse(said.out)["bounds"][0];
}

double given_codes(const std::string& arguments) {
  return row_of(arguments).value("largest_bound_given_codes", 0.0);
}

TEST(BoundRecipe, HasTwoNumbersAndTermsThatAddUpToTheWhole) {
  for (const std::string of :
       {"fp8-block --machine h100", "fp8-current --machine ada", "fp8-delayed --machine b200",
        "tf32 --machine h100", "mxfp8", "mxfp8 --machine b200", "nvfp4 --machine ieee-sequential",
        "nvfp4 --product dgrad"}) {
    const auto row = row_of("gemm 16x512x16 --recipe " + of);
    ASSERT_TRUE(row.contains("largest_bound_given_codes")) << row;
    double sum = 0, casts = 0;
    for (const auto& term : row["terms"]) {
      sum += term["largest"].get<double>();
      if (term["name"] == "casts") casts = term["largest"];
    }
    const double whole = row["largest_bound"];
    EXPECT_NEAR(sum, whole, 1e-9 * whole) << of;
    EXPECT_GT(casts, 0) << of;
    EXPECT_LT(row["largest_bound_given_codes"], whole) << of;
    EXPECT_FALSE(row.contains("sampled"));
    const bool by_chance = of.find("dgrad") != std::string::npos;
    EXPECT_EQ(row["casts"], by_chance ? "worst_case" : "exact") << of;
  }
  const std::string out =
      plumb("bound gemm 8x256x8 --recipe fp8-block --machine h100 --explain").out;
  for (const char* words : {"of the product given the codes: off by at most",
                            "of the whole cast-and-multiply: off by at most", "matrix unit",
                            "promotion", "casts", "chains of 128 terms added in FP32"}) {
    EXPECT_NE(out.find(words), std::string::npos) << words << "\n" << out;
  }
}

// H100 sums FP8 to 13 bits, B200 to 23; promotion makes up for it; E5M2 by E4M3 is one product.
TEST(BoundRecipe, IsOfTheUnitThatMultipliesItsCodes) {
  const std::string gemm = "gemm 16x4096x16 --recipe ";
  const double h100 = given_codes(gemm + "fp8-current --machine h100 --product wgrad");
  EXPECT_GT(h100, 100 * given_codes(gemm + "fp8-current --machine b200 --product wgrad"));
  EXPECT_GT(given_codes(gemm + "fp8-current --machine h100"),
            2 * given_codes(gemm + "fp8-block --machine h100"));
  EXPECT_NE(given_codes(gemm + "fp8-current --machine h100 --product dgrad"), 0);
  const auto bf16 = row_of("gemm 16x4096x16 --machine h100");
  EXPECT_GT(h100, bf16["largest_bound"].get<double>());
  for (const std::string mode : {"probabilistic", "moments"}) {
    EXPECT_GT(given_codes(gemm + "fp8-block --machine h100 --mode " + mode), 0);
  }
}

TEST(BoundRecipe, IsRefusedByNameWhereTheCardHasNoSuchUnit) {
  const std::string gemm = "bound gemm 16x64x16 --recipe ";
  refused(gemm + "fp8-block --machine a100",
          "those of ada, b200, h100-libraries, h100, rtx-blackwell do");
  refused(gemm + "mxfp8 --machine h100",
          "those of b200, rtx-blackwell have; take the machine ieee");
  refused(gemm + "nvfp4 --machine b200", "nor has any other; take the machine ieee");
  refused(gemm + "tf32 --machine v100",
          "those of a100, ada, b200, h100-libraries, h100, mi300, rtx-blackwell do");
  refused(gemm + "nvfp4 --product wgrad --mode moments", "take --mode deterministic");
  refused(gemm + "fp8-block --machine h100 --parts 2", "only a whole product");
  refused(gemm + "fp8-block --product sideways", "known: fprop, dgrad, wgrad");
  refused("bound softmax 4x64 --product wgrad", "--product is of gemm");
}

// A sample of the result, and the same one each time.
TEST(BoundRecipe, AnswersForTheShapesOfRealLayers) {
  for (const std::string of :
       {"1x28672x8192 --recipe fp8-block --machine h100",
        "4096x4096x4096 --recipe fp8-current --machine h100", "4096x4096x4096 --machine h100"}) {
    const auto row = row_of("gemm " + of);
    EXPECT_GT(row.value("sampled", 0), 500) << of;
    EXPECT_GT(row.value("elements", 0), row.value("sampled", 0)) << of;
    EXPECT_GT(row.value("largest_bound", 0.0), 0) << of;
  }
  const std::string small = "bound gemm 4096x64x4096 --recipe nvfp4 ";
  const Said said = plumb(small);
  EXPECT_NE(said.out.find("of a sample of"), std::string::npos) << said.out;
  EXPECT_EQ(plumb(small).out, said.out);
  refused("bound gemm 4x9999999x4 --recipe fp8-block",
          "9999999 terms in a sum is beyond the 4194304");
}

}  // namespace
}  // namespace plumb::bound_recipe_test

// Is the library what its header says: its layout, its symbols, its words for operations?
//
// Where a test of the layout fails, programs that were compiled before would read other fields: raise
// PLUMB_ABI, and say so in CHANGELOG.md.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "bounds/operation.hpp"
#include "tests/c/calling.hpp"
#include "tests/cli/program.hpp"

namespace plumb::abi_test {
namespace {

TEST(CAbi, LayoutIsThatOfItsVersion) {
  ASSERT_EQ(PLUMB_ABI, 1);
  if (sizeof(void*) != 8) GTEST_SKIP() << "sizes are those of 64 bits";
  EXPECT_EQ(sizeof(plumb_tensor), 184U);
  EXPECT_EQ(offsetof(plumb_tensor, shape), 32U);
  EXPECT_EQ(offsetof(plumb_tensor, value), 160U);
  EXPECT_EQ(sizeof(plumb_attribute), 16U);
  EXPECT_EQ(sizeof(plumb_call), 112U);
  EXPECT_EQ(offsetof(plumb_call, machine), 56U);
  EXPECT_EQ(offsetof(plumb_call, delta), 88U);
  EXPECT_EQ(sizeof(plumb_term), 24U);
  EXPECT_EQ(sizeof(plumb_output), 104U);
  EXPECT_EQ(offsetof(plumb_output, worst_ratio), 48U);
  EXPECT_EQ(sizeof(plumb_result), 160U);
  EXPECT_EQ(offsetof(plumb_result, worst_ratio), 48U);
  EXPECT_EQ(offsetof(plumb_result, term), 88U);
  EXPECT_EQ(offsetof(plumb_result, explanation), 128U);
}

// All functions of the header, and nothing of the rooms or of the libraries in it.
TEST(CAbi, ExportsItsHeaderAlone) {
  std::ifstream in(PLUMB_SOURCE_DIR "/c/plumb.h");
  const std::string header((std::istreambuf_iterator<char>(in)), {});
  std::set<std::string> declared, exported;
  const std::regex function("PLUMB_API [^;]*?(plumb_[a-z_]+)\\(");
  for (std::sregex_iterator f(header.begin(), header.end(), function), end; f != end; ++f) {
    declared.insert((*f)[1]);
  }
  const auto library = std::filesystem::path(PLUMB_PROGRAM).parent_path() / "c/libplumb.so";
  FILE* pipe = popen(("nm -D --defined-only " + library.string()).c_str(), "r");
  char address[64], kind[8], name[256];
  while (fscanf(pipe, "%63s %7s %255s", address, kind, name) == 3) exported.insert(name);
  ASSERT_EQ(pclose(pipe), 0);
  EXPECT_GE(declared.size(), 9U);
  EXPECT_EQ(exported, declared);
}

TEST(CAbi, SignaturesNameAllThatASchemaHas) {
  EXPECT_STREQ(
      plumb_signature("gemm"),
      "gemm: A (M, K) or, with transpose_a, (K, M), B (K, N) or, with transpose_b, (N, K), "
      "[bias (N, 1)] -> C (M, N); transpose_a = 0, transpose_b = 0, [chain]");
  EXPECT_STREQ(plumb_signature("layernorm"),
               "layernorm: x (T, D), w (D, 1), b (D, 1) -> y (T, D); eps, [one_pass], [welford]");
  EXPECT_STREQ(plumb_signature("sum"), "sum: x_1, x_2 ... (N, M) -> y (N, M)");
  EXPECT_STREQ(
      plumb_signature("grouped_gemm"),
      "grouped_gemm: A (T k, K), ids (T, k), B_1, B_2 ... (K, F) or, with transpose_b, (F, K) "
      "by experts, [bias_1, bias_2 ... (F, 1) by experts] -> C (T k, F); experts, "
      "transpose_b = 0, [chain]");
  std::set<std::string> all;
  for (const Operation* operation : all_operations()) {
    const std::string said = plumb_signature(std::string(operation->id).c_str());
    const auto names = [&](std::string_view word) {
      EXPECT_NE(said.find(word), said.npos) << said << " has no " << word;
    };
    for (const Operand& x : operation->schema.inputs) names(x.name);
    for (const Operand& y : operation->schema.outputs) names(y.name);
    for (const Attribute& a : operation->schema.attributes) names(a.name);
    all.insert(said);
  }
  EXPECT_EQ(all.size(), all_operations().size());
  EXPECT_EQ(plumb_signature("sofmax"), nullptr);
  EXPECT_STREQ(plumb_last_error(), "unknown operation 'sofmax'; did you mean softmax?");
  EXPECT_EQ(plumb_signature(nullptr), nullptr);
}

}  // namespace
}  // namespace plumb::abi_test

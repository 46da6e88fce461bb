// Are tensors found by the rules that a page can say, and do blocks, drawn rows and a whole call give
// one verdict?
#include "trace/judge/judge.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>

#include "bounds/examples/example.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/tensors.hpp"
#include "trace/judge/pieces.hpp"

namespace plumb::judge_test {
namespace {

namespace fs = std::filesystem;

class JudgeFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("plumb-judge-files-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path at(const std::string& name) const { return folder_ / name; }
  fs::path written(const std::string& name, const std::vector<Written>& tensors) const {
    write_bytes(at(name), safetensors(tensors));
    return at(name);
  }
  // Inputs in files of their schema's names, and outputs as the evaluation makes them.
  JudgeOptions files_of(const Example& e) const {
    const Schema& schema = e.operation().schema;
    const auto tensor = [](std::string_view name, const auto& m) {
      return f32(std::string(name), {m.rows, m.cols}, {m.values.begin(), m.values.end()});
    };
    std::vector<Written> inputs, outputs;
    for (std::size_t i = 0; i < e.inputs.size(); ++i) {
      inputs.push_back(tensor((schema.inputs.begin() + i)->name, converted<float>(e.inputs[i])));
    }
    const auto made = evaluation_of(e);
    for (std::size_t o = 0; o < made.size(); ++o) {
      outputs.push_back(tensor((schema.outputs.begin() + o)->name, made[o]));
    }
    JudgeOptions options{&e.operation(), find_machine("ieee")};
    options.inputs = {{"", written("in.safetensors", inputs)}};
    options.outputs = {{"", written("out.safetensors", outputs)}};
    options.attributes = e.attributes;
    return options;
  }
  static void expect_failure(const JudgeOptions& options, const std::string& because) {
    try {
      (void)judge_tensors(options);
      ADD_FAILURE() << "was judged; expected: " << because;
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find(because), std::string::npos) << failure.what();
    }
  }
  fs::path folder_;
};

// Every operation whose inputs have one name each, in FP32: what it promises is within its bounds.
TEST_F(JudgeFiles, WhatAnOperationPromisesPasses) {
  std::size_t judged = 0;
  for (const Operation* operation : all_operations()) {
    const auto one = [](const Operand& x) {
      return x.presence == Presence::once || x.presence == Presence::given ||
             x.presence == Presence::optional;
    };
    const Schema& schema = operation->schema;
    if (!std::ranges::all_of(schema.inputs, one) || !std::ranges::all_of(schema.outputs, one))
      continue;
    Draw draw("plain", 3);
    Example e = example_of(operation->id, draw);
    e.how = {};
    if (operation->traits.scales_output || operation->sums == SumOrder::own) continue;
    const JudgedTensors verdict = judge_tensors(files_of(e));
    EXPECT_EQ(verdict.exit_code(), 0) << operation->id;
    ++judged;
  }
  EXPECT_GE(judged, 40U);
}

TEST_F(JudgeFiles, BlocksOfRowsAndAllRowsHaveOneVerdict) {
  const std::size_t rows = 300, cols = 1500;  // several blocks
  Example e{"softmax", {Matrix<double>(rows, cols)}, {}, {}};
  for (std::size_t k = 0; k < e.inputs[0].size(); ++k) {
    e.inputs[0].values[k] = static_cast<double>(k * 2654435761U % 1000) / 256;
  }
  JudgeOptions options = files_of(e);
  const JudgedTensors all = judge_tensors(options);
  EXPECT_EQ(all.exit_code(), 0);
  EXPECT_EQ(all.outputs[0].judgement.elements(), rows * cols);
  const auto values = value_of(e);
  const ToleranceCall call{{&e.inputs[0]}, e.attributes, e.how, Mode::deterministic, 0, values};
  ToleranceCall any = call;
  any.sums = {SumsIn::Way::any, {}};
  const auto tolerance = e.operation().tolerance(any);
  double worst = 0;
  const auto made = evaluation_of(e);
  for (std::size_t k = 0; k < made[0].size(); ++k) {
    worst = std::max(
        worst, std::fabs(made[0].values[k] - values[0].values[k]) / tolerance->bound[0].values[k]);
  }
  EXPECT_NEAR(all.outputs[0].judgement.worst().ratio, worst, 1e-9 * worst);
  double sum = 0;
  for (const Term& term : all.outputs[0].terms) sum += term.largest;
  const Compared& w = all.outputs[0].judgement.worst();
  EXPECT_NEAR(sum, w.bound, 1e-9 * w.bound);
  EXPECT_NEAR(tolerance->bound[0].values[w.element], w.bound, 1e-9 * w.bound);
  options.rows = 7;
  const JudgedTensors few = judge_tensors(options);
  EXPECT_EQ(few.outputs[0].judgement.elements(), 7 * cols);
  EXPECT_LE(few.outputs[0].judgement.worst().ratio, worst * (1 + 1e-9));
}

// Each block's bound by chance is that of the whole.
TEST_F(JudgeFiles, BlocksShareTheLevel) {
  Draw draw("plain", 5);
  Example e{"gemm",
            {draw.matrix(900, 512), draw.matrix(512, 300)},
            {{"transpose_a", 0}, {"transpose_b", 0}},
            {}};
  JudgeOptions options = files_of(e);
  options.mode = Mode::probabilistic;
  options.delta = 1e-3;
  const JudgedTensors all = judge_tensors(options);
  const auto values = value_of(e);
  ToleranceCall call{{&e.inputs[0], &e.inputs[1]}, e.attributes, e.how, options.mode, 1e-3, values};
  call.sums.way = SumsIn::Way::any;  // as the card ieee says
  const auto whole = e.operation().tolerance(call);
  const Compared& w = all.outputs[0].judgement.worst();
  EXPECT_NEAR(whole->bound[0].values[w.element], w.bound, 1e-9 * w.bound);
}

TEST_F(JudgeFiles, DrawnRowsAreSomeOfAllInTheirOrder) {
  const auto rows = drawn_rows(64, 4096, 1);
  ASSERT_EQ(rows.size(), 64U);
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_LT(rows[i - 1], rows[i]);
  EXPECT_LT(rows.back(), 4096U);
  EXPECT_NE(drawn_rows(64, 4096, 2), rows);
  std::vector<int> times(10);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    for (const std::size_t row : drawn_rows(3, 10, seed)) ++times[row];
  }
  for (const int n : times) EXPECT_NEAR(n, 300, 75);
}

TEST_F(JudgeFiles, OutputsThatNoFileHasAreNamed) {
  Draw draw("plain", 1);
  Example e = example_of("layernorm_wgrad", draw);
  e.how = {};
  JudgeOptions options = files_of(e);
  const auto made = evaluation_of(e);
  options.outputs = {
      {"", written("db.safetensors",
                   {f32("db", {made[1].rows}, {made[1].values.begin(), made[1].values.end()})})}};
  const JudgedTensors verdict = judge_tensors(options);
  EXPECT_EQ(verdict.exit_code(), 0);
  EXPECT_EQ(verdict.not_given, std::vector<std::string>{"dw"});
}

// Each output has the bound of its own format.
TEST_F(JudgeFiles, OutputsOfTwoFormatsHaveTheirOwnBounds) {
  Draw draw("plain", 1);
  Example e = example_of("layernorm_wgrad", draw);
  e.how = {};
  JudgeOptions options = files_of(e);
  const auto made = evaluation_of(e);
  const std::vector<float> dw(made[0].values.begin(), made[0].values.end());
  const std::vector<float> db(made[1].values.begin(), made[1].values.end());
  options.outputs = {{"", written("y.safetensors", {bf16_tensor("dw", {dw.size()}, dw),
                                                    f32("db", {db.size()}, db)})}};
  const JudgedTensors verdict = judge_tensors(options);
  EXPECT_EQ(verdict.exit_code(), 0);
  EXPECT_EQ(verdict.outputs[0].format, bf16);
  EXPECT_EQ(verdict.outputs[1].format, fp32);
  options.outputs = {{"", written("y.safetensors", {f32("dw", {dw.size()}, dw),
                                                    bf16_tensor("db", {db.size()}, db)})}};
  EXPECT_EQ(judge_tensors(options).exit_code(), 0);
}

TEST_F(JudgeFiles, InputsThatRepeatAreNumbered) {
  const fs::path in =
      written("x.safetensors",
              {f32("x_1", {1, 2}, {1, 2}), f32("x_2", {1, 2}, {3, 4}), f32("x_3", {1, 2}, {5, 6})});
  const fs::path out = written("y.safetensors", {f32("y", {1, 2}, {9, 12})});
  JudgeOptions options{find_operation("sum"), find_machine("ieee")};
  options.inputs = {{"", in}};
  options.outputs = {{"", out}};
  EXPECT_EQ(judge_tensors(options).exit_code(), 0);
  options.outputs = {{"", written("z.safetensors", {f32("y", {1, 2}, {9, 13})})}};
  EXPECT_EQ(judge_tensors(options).exit_code(), 1);
}

TEST_F(JudgeFiles, RowsThatDependOnEachOtherAreNotDrawn) {
  Draw draw("plain", 1);
  Example e = example_of("column_sum", draw);
  e.how = {};
  JudgeOptions options = files_of(e);
  options.rows = 1;
  expect_failure(options, "depend on each other");
}

TEST_F(JudgeFiles, AMatrixUnitMultipliesOneFormat) {
  JudgeOptions options{find_operation("gemm"), find_machine("h100")};
  options.outputs = {{"", written("c.safetensors", {f32("C", {1, 1}, {2})})}};
  options.inputs = {
      {"", written("in.safetensors", {bf16_tensor("A", {1, 1}, {1}),
                                      {"B", "F16", {1, 1}, bytes_of<std::uint16_t>({0x4000})}})}};
  expect_failure(options, "multiplies numbers of one format");
  options.inputs = {
      {"", written("in.safetensors", {f32("A", {1, 1}, {1.0F}), f32("B", {1, 1}, {2})})}};
  expect_failure(options, "no matrix unit for fp32");
  options.input = &bf16;
  EXPECT_EQ(judge_tensors(options).exit_code(), 0);
  options.inputs = {
      {"", written("in.safetensors", {f32("A", {1, 1}, {1.001F}), f32("B", {1, 1}, {2})})}};
  expect_failure(options, "no number of bf16");
}

}  // namespace
}  // namespace plumb::judge_test

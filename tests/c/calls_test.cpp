// Does the library refuse what a C program may get wrong, in one sentence that speaks of the call?
#include <cmath>
#include <limits>

#include "tests/c/calling.hpp"
#include "tests/cli/judging.hpp"

namespace plumb::calls_test {
namespace {

class Calls : public Judging {
 protected:
  const Floats32 x_ = numbers(64, 14), p_ = softmax(x_, 8);
  Calling softmax_call() const {
    Calling calling("softmax");
    return calling.in(tensor_of(x_, {8, 8})).out(tensor_of(p_, {8, 8}));
  }
};

TEST_F(Calls, PassWhereAllIsSaid) {
  Calling calling = softmax_call();
  EXPECT_EQ(plumb_judge(nullptr, nullptr), PLUMB_TROUBLE);
  EXPECT_EQ(plumb_judge(calling(), nullptr), PLUMB_PASS);
  EXPECT_STREQ(plumb_last_error(), "");  // that of the last function
  calling = softmax_call();
  calling.inputs[0].name = "x";
  calling.outputs[0].name = "p";
  EXPECT_EQ(plumb_judge(calling(), nullptr), PLUMB_PASS);
}

TEST_F(Calls, AreRefusedWhereAPointerIsNull) {
  plumb_result r{};
  EXPECT_EQ(plumb_judge(nullptr, &r), PLUMB_TROUBLE);
  EXPECT_STREQ(r.explanation, "the call is NULL; describe one");
  plumb_free(&r);
  plumb_free(nullptr);
  EXPECT_EQ(plumb_shape(nullptr, 0, nullptr, nullptr), PLUMB_TROUBLE);
  Calling calling = softmax_call();
  calling.call.operation = nullptr;
  expect_trouble(calling, "the call has no operation");
  calling = softmax_call();
  calling.inputs[0].data = nullptr;
  expect_trouble(calling, "inputs[0] is 8 x 8 numbers at the address NULL");
  calling = softmax_call();
  calling.outputs[0].data = nullptr;
  expect_trouble(calling, "outputs[0] is 8 x 8 numbers at the address NULL");
  calling = softmax_call();
  calling.inputs[0].format = nullptr;
  expect_trouble(calling, "inputs[0] has no format; name one of fp64, fp32");
  calling = softmax_call().set(nullptr, 1);
  expect_trouble(calling, "an attribute of the call has no name");
  calling = softmax_call();
  plumb_call call = *calling();
  call.inputs = nullptr;
  EXPECT_EQ(plumb_judge(&call, nullptr), PLUMB_TROUBLE);
  EXPECT_STREQ(plumb_last_error(), "the call has 1 inputs at the address NULL; say where they are");
}

TEST_F(Calls, AreRefusedByNamesThatNobodyKnows) {
  Calling calling("sotfmax");
  expect_trouble(calling, "unknown operation 'sotfmax'; did you mean softmax?");
  calling = softmax_call();
  calling.call.machine = "h200";
  expect_trouble(calling, "unknown machine 'h200'");
  calling.call.machine = "nowhere.json";
  expect_trouble(calling, "machine card 'nowhere.json' does not exist");
  calling = softmax_call();
  calling.call.mode = "likely";
  expect_trouble(calling, "unknown mode 'likely'");
  calling = softmax_call();
  calling.call.format = "bf15";
  expect_trouble(calling, "unknown format 'bf15'; did you mean bf16?");
  calling = softmax_call();
  calling.inputs[0].format = "float32";
  expect_trouble(calling, "inputs[0]: unknown format 'float32'");
  calling.inputs[0].format = "tf32";
  expect_trouble(calling, "inputs[0] is of tf32, which lies in fp32");
  calling = softmax_call();
  calling.inputs[0].name = "logits";
  expect_trouble(calling, "softmax has no 'logits'; it has x");
  calling = softmax_call().set("eps", 1);
  expect_trouble(calling, "no attribute 'eps'");
  calling = Calling("layernorm");
  expect_trouble(calling, "layernorm needs the attribute eps; say it: attribute eps=...");
  calling.set("eps", 1e-5).set("eps", 1e-6);
  expect_trouble(calling, "the attribute eps stands in the call twice");
}

TEST_F(Calls, AreRefusedByShapes) {
  Calling calling = softmax_call();
  calling.outputs[0].shape[0] = 4;
  expect_trouble(calling,
                 "the output 'p' (outputs[0]) is 4 x 8, and softmax of these inputs makes");
  calling = softmax_call();
  calling.inputs[0].dimensions = 9;
  expect_trouble(calling, "inputs[0] says that it has 9 dimensions");
  calling = softmax_call();
  calling.inputs[0].shape[0] = std::numeric_limits<std::size_t>::max() / 8;
  expect_trouble(calling, "which no memory holds");
  calling = Calling("gemm").in(tensor_of(x_, {8, 8})).in(tensor_of(x_, {4, 16}));
  calling.out(tensor_of(x_, {8, 8}));
  expect_trouble(calling, "gemm: input 'B' is 4 x 16");
  calling = softmax_call();
  calling.in(tensor_of(x_, {8, 8}));
  expect_trouble(calling, "nothing asks for a tensor of inputs[1]: softmax has x");
  calling = Calling("softmax").out(tensor_of(p_, {8, 8}));
  expect_trouble(calling, "no tensor is 'x' of softmax");
  calling = Calling("softmax").in(tensor_of(x_, {8, 8}));
  expect_trouble(calling, "no tensor is 'p' of softmax");
  calling = softmax_call();
  calling.call.rows = 2;
  EXPECT_EQ(plumb_judge(calling(), nullptr), PLUMB_PASS);
  calling = Calling("column_sum").in(tensor_of(x_, {8, 8})).out(tensor_of(x_, {8}));
  calling.call.rows = 2;
  expect_trouble(calling, "depend on each other here, so that none can be judged by themselves");
}

TEST_F(Calls, AreRefusedByNumbersThatBoundsAreNotFor) {
  Floats32 x = x_;
  x[20] = std::nanf("");
  Calling calling = softmax_call();
  calling.inputs[0].data = x.data();
  expect_trouble(calling, "[2, 4] of the input 'x' (inputs[0]) is nan");
  std::vector<double> wide(64, 0.5);
  wide[9] = 0.1;
  calling = softmax_call();
  calling.inputs[0] = tensor_of(wide.data(), "fp64", {8, 8});
  expect_trouble(calling, "[1, 1] of inputs[0] is 0.1, which FP32 does not have");
  calling = softmax_call();
  calling.call.format = "bf16";
  Found found(calling);
  EXPECT_EQ(found.code, PLUMB_TROUBLE);
  EXPECT_NE(std::string(found->explanation)
                .find("which is no number of bf16; name its format with "
                      "the call's format"),
            std::string::npos)
      << found->explanation;
  for (const double delta : {-1.0, 1.0, std::nan("")}) {
    calling = softmax_call();
    calling.call.delta = delta;
    expect_trouble(calling, "a probability is between 0 and 1");
  }
  calling = softmax_call();
  calling.call.delta = 1e-3;
  expect_trouble(calling, "change the mode or leave delta out");
  calling = softmax_call();
  calling.call.seed = 2;
  expect_trouble(calling, "seed draws its rows");
  calling = softmax_call();
  calling.call.input_format = "bf16";
  expect_trouble(calling, "is of a product's inputs, and softmax is none");
  calling = softmax_call();
  calling.call.machine = "h100";
  expect_trouble(calling, "change the machine, the mode or the inputs");
}

// The field's defaults are those that the header says.
TEST_F(Calls, HaveTheDefaultsOfTheHeader) {
  Calling calling = softmax_call(), same = softmax_call();
  calling.call.machine = nullptr;
  same.call.machine = "libraries";
  same.call.mode = "deterministic";
  same.call.format = "fp32";
  const Found one(calling), other(same);
  EXPECT_EQ(one->bound, other->bound);
  EXPECT_STREQ(one->explanation, other->explanation);
  EXPECT_NE(std::string(one->explanation).find("softmax on libraries, deterministic"),
            std::string::npos);
  calling.call.mode = same.call.mode = "probabilistic";
  same.call.delta = 1e-9;
  const Found likely(calling), same_chance(same);
  EXPECT_EQ(likely->bound, same_chance->bound);
  EXPECT_LE(likely->bound, one->bound);
}

TEST_F(Calls, AskForShapesAndNames) {
  Calling calling("gemm");
  calling.in(tensor_of(nullptr, "bf16", {3, 4, 16})).in(tensor_of(nullptr, "bf16", {16, 5}));
  std::size_t rows = 0, columns = 0;
  EXPECT_EQ(plumb_shape(calling(), 0, &rows, &columns), PLUMB_PASS) << plumb_last_error();
  EXPECT_EQ(rows, 12U);
  EXPECT_EQ(columns, 5U);
  EXPECT_EQ(plumb_shape(calling(), 1, &rows, &columns), PLUMB_NOTHING);
  calling.set("transpose_a", 1);
  EXPECT_EQ(plumb_shape(calling(), 0, &rows, &columns), PLUMB_TROUBLE);
  std::string operations, machines;
  for (std::size_t i = 0; plumb_operation(i) != nullptr; ++i) {
    operations += std::string(plumb_operation(i)) + " ";
  }
  for (std::size_t i = 0; plumb_machine(i) != nullptr; ++i) {
    machines += std::string(plumb_machine(i)) + " ";
  }
  EXPECT_NE(operations.find("gemm "), std::string::npos);
  EXPECT_NE(machines.find("libraries "), std::string::npos);
  EXPECT_EQ(plumb_abi(), unsigned(PLUMB_ABI));
}

TEST_F(Calls, TakeTheCardOfAFileAndReadItAgain) {
  const std::string file = at("mine.json");
  const auto card = [](const std::string& order) {
    return R"({"title": "mine", "facts": [
      {"name": "accumulator", "value": "fp32", "provenance": "assumed", "source": "me"},
      {"name": "rounding", "value": "nearest_even", "provenance": "assumed", "source": "me"},
      {"name": "order", "value": ")" +
           order + R"(", "provenance": "assumed", "source": "me"}]})";
  };
  Calling calling = softmax_call();
  calling.call.machine = file.c_str();
  write_bytes(file, card("pairwise"));
  EXPECT_NE(std::string(Found(calling)->assumes).find("pairwise"), std::string::npos);
  write_bytes(file, card("sequential"));
  EXPECT_NE(std::string(Found(calling)->assumes).find("sequential"), std::string::npos);
  write_bytes(file, card("some"));
  expect_trouble(calling, "facts[2] (order).value is 'some'");
}

}  // namespace
}  // namespace plumb::calls_test

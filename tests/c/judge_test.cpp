// Do C programs get the verdicts and bounds that plumb judge gives of files, of numbers in any format
// and with any strides? Is each planted mistake found, and no sound kernel accused?
#include <cmath>
#include <limits>

#include "bounds/examples/example.hpp"
#include "number/encoding.hpp"
#include "number/rounding.hpp"
#include "tests/c/calling.hpp"
#include "tests/cli/judging.hpp"
#include "trace/store/tensor_file.hpp"

namespace plumb::judge_test {
namespace {

class InC : public Judging {};

Floats32 short_numbers_of(Floats32 x) {
  for (float& v : x) v = from_bf16(to_bf16(v));
  return x;
}

struct Product {
  std::size_t m = 6, k = 1024, n = 10, block = 128;
  Floats32 a = short_numbers_of(numbers(m * k, 3)), b = short_numbers_of(numbers(k * n, 4));
  // Element (2, 7) takes its third block of K twice, and the fourth never, if there is a bug.
  Floats32 made(bool bug) const {
    Floats32 c(m * n);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const auto term = [&](std::size_t l) { return a[i * k + l] * b[l * n + j]; };
        c[i * n + j] = in_lanes(k, [&](std::size_t l) {
          return bug && i == 2 && j == 7 && l / block == 3 ? term(l - block) : term(l);
        });
      }
    }
    return c;
  }
};

template <class T>
std::vector<T> values_of(const std::string& file, const std::string& name) {
  TensorFile in(file);
  const StoredTensor& tensor = in.tensors().at(name);
  std::vector<T> all(tensor.size);
  std::ifstream bytes(file, std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(tensor.at));
  bytes.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(8 * all.size()));
  return all;
}

TEST_F(InC, AForgottenKeyOf4096IsFoundAndTheSoundSoftmaxPasses) {
  const Floats32 x = numbers(8 * 4096, 1);
  const auto row = x.begin() + 5 * 4096;
  const auto heaviest = static_cast<std::size_t>(std::max_element(row, row + 4096) - row);
  const Floats32 sound = softmax(x, 4096), heavy = softmax(x, 4096, 5, heaviest),
                 any = softmax(x, 4096, 5, 17);
  const auto judged = [&](const Floats32& p, const char* machine) {
    Calling calling("softmax", machine);
    calling.in(tensor_of(x, {2, 4, 4096})).out(tensor_of(p, {2, 4, 4096}));
    const Found found(calling);
    EXPECT_EQ(found->code, found.code);
    EXPECT_EQ(found->elements, 8U * 4096);
    if (found.code == PLUMB_FAIL) {
      EXPECT_EQ(found->worst_element / 4096, 5U);
      EXPECT_LE(found->outside, 4096U);
      EXPECT_GT(found->worst_ratio, 1);
      EXPECT_NE(std::string(found->explanation).find("worst: p[1, 1, "), std::string::npos);
      EXPECT_NE(std::string(found->explanation).find("on " + std::string(machine)),
                std::string::npos);
      EXPECT_STREQ(found->term, "sums");
    }
    return found.code;
  };
  EXPECT_EQ(judged(sound, "libraries"), PLUMB_PASS);
  EXPECT_EQ(judged(sound, "ieee"), PLUMB_PASS);
  EXPECT_EQ(judged(heavy, "ieee"), PLUMB_FAIL);
  EXPECT_EQ(judged(sound, "ieee-pairwise"), PLUMB_PASS);
  EXPECT_EQ(judged(any, "ieee-pairwise"), PLUMB_FAIL);
}

TEST_F(InC, AWrongBlockOfAProductIsFoundInEachFormat) {
  const Product p;
  const Floats32 sound = p.made(false), wrong = p.made(true);
  std::vector<std::uint16_t> a, b;
  for (const float v : p.a) a.push_back(to_bf16(v));
  for (const float v : p.b) b.push_back(to_bf16(v));
  for (const bool short_output : {false, true}) {
    for (const bool bug : {false, true}) {
      const Floats32& c = bug ? wrong : sound;
      std::vector<std::uint16_t> codes;
      for (const float v : c) codes.push_back(to_bf16(v));
      Calling calling("gemm", "libraries");
      calling.in(tensor_of(a.data(), "bf16", {p.m, p.k}))
          .in(tensor_of(b.data(), "bf16", {p.k, p.n}));
      calling.out(short_output ? tensor_of(codes.data(), "bf16", {p.m, p.n})
                               : tensor_of(c, {p.m, p.n}));
      const Found found(calling);
      EXPECT_EQ(found.code, bug ? PLUMB_FAIL : PLUMB_PASS) << found->explanation;
      EXPECT_EQ(found->outside, bug ? 1U : 0U);
      ASSERT_EQ(found->output_count, 1U);
      EXPECT_STREQ(found->outputs[0].format, short_output ? "bf16" : "fp32");
      EXPECT_GT(found->outputs[0].term_count, 0U);
      if (!bug) continue;
      EXPECT_EQ(found->worst_element, 2 * p.n + 7);
      EXPECT_EQ(found->found,
                static_cast<double>(short_output ? from_bf16(codes[2 * p.n + 7]) : c[2 * p.n + 7]));
      EXPECT_NEAR(found->worst_ratio, std::fabs(found->found - found->value) / found->bound,
                  1e-12 * found->worst_ratio);
      double sum = 0;
      for (std::size_t t = 0; t < found->outputs[0].term_count; ++t) {
        sum += found->outputs[0].terms[t].size;
      }
      EXPECT_NEAR(sum, found->bound, 1e-9 * sum);
    }
  }
}

TEST_F(InC, AnEpsilonOutsideOfTheRootIsFound) {
  Floats32 x = numbers(16 * 256, 5);
  for (float& v : x) v *= 0.05F;
  const Floats32 w = numbers(256, 6), b = numbers(256, 7);
  for (const bool inside : {true, false}) {
    const Floats32 y = layer_norm(x, w, b, 1e-5F, inside);
    Calling calling("layernorm", "libraries");
    calling.in(tensor_of(b, {256}, "b")).in(tensor_of(x, {16, 256})).in(tensor_of(w, {256}));
    calling.out(tensor_of(y, {16, 256})).set("eps", static_cast<double>(1e-5F));
    EXPECT_EQ(Found(calling).code, inside ? PLUMB_PASS : PLUMB_FAIL);
  }
}

TEST_F(InC, AStaleScaleOfACastIsFound) {
  const Floats32 x = numbers(4 * 64, 8), s{256};
  for (const float divisor : {256.0F, 128.0F}) {
    Floats32 y;
    for (const float v : x) {
      y.push_back(static_cast<float>(round_to(static_cast<double>(v) * 256, e4m3fn)) / divisor);
    }
    Calling calling("quantize", "libraries");
    calling.in(tensor_of(x, {4, 64})).in(tensor_of(s, {})).out(tensor_of(y, {4, 64}));
    calling.call.format = "e4m3fn";
    const Found found(calling);
    EXPECT_EQ(found.code, divisor == 256 ? PLUMB_PASS : PLUMB_FAIL);
    EXPECT_GE(found->outside, divisor == 256 ? 0U : 250U);
  }
}

// The arrays of a call hold the bits that the program writes, and so do plumb_bound's.
TEST_F(InC, BoundsAreThoseThatTheProgramWrites) {
  const Product p;
  const Floats32 c = p.made(false);
  write("ab.safetensors", {f32("A", {p.m, p.k}, p.a), f32("B", {p.k, p.n}, p.b)});
  write("c.safetensors", {bf16_tensor("C", {p.m, p.n}, c)});
  std::vector<std::uint16_t> codes;
  for (const float v : c) codes.push_back(to_bf16(v));
  int turn = 0;
  for (const std::string mode : {"deterministic", "probabilistic", "moments"}) {
    const std::string machine = mode == "moments" ? "ieee-blocked128" : "libraries";
    const std::string file = at("bounds-" + std::to_string(turn++) + ".safetensors");
    said("gemm", "ab.safetensors", "c.safetensors", 0,
         "--machine " + machine + " --mode " + mode + " --bounds " + file);
    const std::size_t size = p.m * p.n;
    for (const auto function : {plumb_judge, plumb_bound}) {
      std::vector<double> value(size), bound(size), bias(size);
      Calling calling("gemm", machine.c_str());
      calling.call.mode = mode.c_str();
      calling.in(tensor_of(p.a, {p.m, p.k})).in(tensor_of(p.b, {p.k, p.n}));
      calling.out(tensor_of(function == plumb_judge ? codes.data() : nullptr, "bf16", {p.m, p.n}));
      calling.outputs[0].value = value.data();
      calling.outputs[0].bound = bound.data();
      calling.outputs[0].bias = bias.data();
      plumb_result r{};
      ASSERT_EQ(function(calling(), &r), PLUMB_PASS) << plumb_last_error();
      EXPECT_EQ(value, values_of<double>(file, "C.value"));
      EXPECT_EQ(bound, values_of<double>(file, "C.bound"));
      if (mode == "moments") {
        EXPECT_EQ(bias, values_of<double>(file, "C.bias"));
      } else {
        EXPECT_TRUE(std::isnan(bias[0]));
      }
      if (function == plumb_bound) {
        EXPECT_EQ(r.bound, *std::ranges::max_element(bound));
        EXPECT_EQ(r.bound, bound[r.worst_element]);
        EXPECT_EQ(r.value, value[r.worst_element]);
        EXPECT_EQ(r.elements, 0U);
      }
      plumb_free(&r);
    }
  }
}

// Transposed, in columns of a wider matrix, backwards, and one row for all.
TEST_F(InC, StridesAreAnyThatMemoryHas) {
  const Product p;
  const Floats32 c = p.made(false), wrong = p.made(true);
  Floats32 across(p.k * p.m), wide(p.k * (p.n + 3), NAN), backwards(c.rbegin(), c.rend());
  for (std::size_t i = 0; i < p.m; ++i) {
    for (std::size_t l = 0; l < p.k; ++l) across[l * p.m + i] = p.a[i * p.k + l];
  }
  for (std::size_t l = 0; l < p.k; ++l) {
    for (std::size_t j = 0; j < p.n; ++j) wide[l * (p.n + 3) + j + 2] = p.b[l * p.n + j];
  }
  const auto step = static_cast<std::ptrdiff_t>(p.n);
  Calling calling("gemm");
  calling.in(tensor_of(across, {p.m, p.k})).in(tensor_of(wide.data() + 2, "fp32", {p.k, p.n}));
  calling.out(tensor_of(backwards.data() + backwards.size() - 1, "fp32", {p.m, p.n}));
  calling.inputs[0].strides[0] = 1;
  calling.inputs[0].strides[1] = static_cast<std::ptrdiff_t>(p.m);
  calling.inputs[1].strides[0] = step + 3;
  calling.inputs[1].strides[1] = 1;
  calling.outputs[0].strides[0] = -step;
  calling.outputs[0].strides[1] = -1;
  Calling packed("gemm");
  packed.in(tensor_of(p.a, {p.m, p.k})).in(tensor_of(p.b, {p.k, p.n}));
  packed.out(tensor_of(c, {p.m, p.n}));
  const Found strided(calling), plain(packed);
  EXPECT_EQ(strided.code, PLUMB_PASS) << strided->explanation;
  EXPECT_EQ(strided->bound, plain->bound);
  EXPECT_EQ(strided->worst_element, plain->worst_element);
  EXPECT_EQ(strided->worst_ratio, plain->worst_ratio);
  const Floats32 wrong_backwards(wrong.rbegin(), wrong.rend());
  calling.outputs[0].data = wrong_backwards.data() + wrong.size() - 1;
  const Found found(calling);
  EXPECT_EQ(found.code, PLUMB_FAIL);
  EXPECT_EQ(found->worst_element, 2 * p.n + 7);
  // A row that stands for all of them.
  const Floats32 row = numbers(8, 3), q = softmax(row, 8);
  Calling one("softmax");
  one.in(tensor_of(row, {5, 8})).out(tensor_of(q, {5, 8}));
  one.inputs[0].strides[1] = one.outputs[0].strides[1] = 1;
  const Found broadcast(one);
  EXPECT_EQ(broadcast.code, PLUMB_PASS);
  EXPECT_EQ(broadcast->elements, 40U);
}

TEST_F(InC, RowsAreDrawnAsTheProgramDraws) {
  const Floats32 x = numbers(64 * 16, 4);
  Floats32 p = softmax(x, 16);
  std::vector<double> value(p.size()), bound(p.size());
  Calling calling("softmax");
  calling.in(tensor_of(x, {64, 16})).out(tensor_of(p, {64, 16}));
  calling.outputs[0].value = value.data();
  calling.outputs[0].bound = bound.data();
  calling.call.rows = 5;
  calling.call.seed = 3;
  const Found found(calling);
  EXPECT_EQ(found.code, PLUMB_PASS);
  EXPECT_EQ(found->rows, 5U);
  EXPECT_EQ(found->of_rows, 64U);
  EXPECT_EQ(found->elements, 5U * 16);
  write("x.safetensors", {f32("x", {64, 16}, x)});
  write("p.safetensors", {f32("p", {64, 16}, p)});
  const std::string file = at("drawn.safetensors");
  said("softmax", "x.safetensors", "p.safetensors", 0, "--rows 5 --seed 3 --bounds " + file);
  const auto rows = values_of<std::int64_t>(file, "rows");
  ASSERT_EQ(rows.size(), 5U);
  const auto drawn = values_of<double>(file, "p.bound");
  std::size_t next = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    const bool judged = next < rows.size() && static_cast<std::size_t>(rows[next]) == i;
    for (std::size_t j = 0; j < 16; ++j) {
      EXPECT_EQ(std::isnan(value[i * 16 + j]), !judged);
      EXPECT_TRUE(!judged || bound[i * 16 + j] == drawn[next * 16 + j]);
    }
    next += judged ? 1 : 0;
  }
  EXPECT_EQ(next, 5U);
}

// Of two outputs the worse counts, and a number that is none before all.
TEST_F(InC, TheWorstOfSeveralOutputsIsNamed) {
  Draw draw("plain", 1);
  Example e = example_of("layernorm_wgrad", draw);
  e.how = {};
  const auto made = evaluation_of(e);
  std::vector<Floats32> inputs;
  for (const auto& x : e.inputs) {
    const auto narrow = converted<float>(x);
    inputs.emplace_back(narrow.values.begin(), narrow.values.end());
  }
  Floats32 dw(made[0].values.begin(), made[0].values.end()),
      db(made[1].values.begin(), made[1].values.end());
  Calling calling("layernorm_wgrad");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    calling.in(tensor_of(inputs[i], {e.inputs[i].rows, e.inputs[i].cols}));
  }
  calling.out(tensor_of(db, {db.size()}, "db")).out(tensor_of(dw, {dw.size()}, "dw"));
  for (const auto& [name, value] : e.attributes) calling.set(name.c_str(), value);
  const auto worst = [&](int code) {
    const Found found(calling);
    EXPECT_EQ(found.code, code) << found->explanation;
    return std::string(found->outputs[found->worst_output].name);
  };
  worst(PLUMB_PASS);
  const float kept = dw[1];
  dw[1] += 100;
  EXPECT_EQ(worst(PLUMB_FAIL), "dw");
  db[1] += 100;
  dw[0] = NAN;
  EXPECT_EQ(worst(PLUMB_FAIL), "dw");
  db[0] = NAN;  // the first of two is named
  EXPECT_EQ(worst(PLUMB_FAIL), "db");
  dw[0] = dw[1] = kept;
  EXPECT_EQ(worst(PLUMB_FAIL), "db");
  EXPECT_STREQ(Found(calling)->outputs[1].name, "dw");  // in the order of the call
  // One that is left out is named.
  calling.outputs.erase(calling.outputs.begin());
  const Found found(calling);
  EXPECT_NE(std::string(found->explanation).find("not judged: the output db, which was not given"),
            std::string::npos);
}

TEST_F(InC, NothingIsNoVerdict) {
  Calling calling("softmax");
  calling.in(tensor_of(nullptr, "fp32", {0, 8})).out(tensor_of(nullptr, "fp32", {0, 8}));
  const Found found(calling);
  EXPECT_EQ(found.code, PLUMB_NOTHING);
  EXPECT_NE(std::string(found->explanation).find("INCONCLUSIVE"), std::string::npos);
  EXPECT_EQ(found->term, nullptr);
}

}  // namespace
}  // namespace plumb::judge_test

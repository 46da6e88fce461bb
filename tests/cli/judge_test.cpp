// Does plumb judge find what is wrong with a kernel, name the element, and accept the sound kernel,
// whatever order it adds in? The kernels here are plain C++ that shares nothing with the project.
#include <cmath>

#include "tests/cli/judging.hpp"

namespace plumb::judge_test {
namespace {

class Judge : public Judging {};

TEST_F(Judge, FindsAForgottenKeyOfASoftmaxAndAcceptsTheSoundOne) {
  const Floats32 x = numbers(8 * 4096, 1);
  const std::vector<std::size_t> shape{2, 4, 4096};
  write("x.safetensors", {f32("logits", shape, x)});
  write("sound.safetensors", {f32("out", shape, softmax(x, 4096))});
  write("wrong.safetensors", {f32("out", shape, softmax(x, 4096, 5, 17))});
  EXPECT_NE(said("softmax", "x.safetensors", "sound.safetensors", 0).find("verdict: PASS"),
            std::string::npos);
  // In any order 4096 numbers may be off by as much as an average key; this is the heaviest.
  const auto row = x.begin() + 5 * 4096;
  const auto heaviest = static_cast<std::size_t>(std::max_element(row, row + 4096) - row);
  write("heavy.safetensors", {f32("out", shape, softmax(x, 4096, 5, heaviest))});
  const std::string out = said("softmax", "x.safetensors", "heavy.safetensors", 1);
  EXPECT_NE(out.find("p[1, 1, "), std::string::npos) << out;  // row 5 of 8
  // A card that knows the order sees any key.
  said("softmax", "x.safetensors", "sound.safetensors", 0, "--machine ieee-pairwise");
  const auto json =
      document("softmax", "x.safetensors", "wrong.safetensors", 1, "--machine ieee-pairwise");
  EXPECT_EQ(json["outputs"][0]["worst"]["element"].get<std::size_t>() / 4096, 5U);
  EXPECT_LE(json["outputs"][0]["outside"], 4096);
  EXPECT_GT(json["outputs"][0]["outside"], 4000);
}

TEST_F(Judge, SaysWhichOrderItAssumes) {
  const Floats32 x = numbers(4096, 2);
  write("x.safetensors", {f32("x", {1, 4096}, x)});
  write("p.safetensors", {f32("p", {1, 4096}, softmax(x, 4096))});
  EXPECT_NE(said("softmax", "x.safetensors", "p.safetensors", 0).find("assumes sums in any order"),
            std::string::npos);
  EXPECT_EQ(document("softmax", "x.safetensors", "p.safetensors", 0,
                     "--machine ieee-blocked128")["assumes"],
            "sums in the order of the machine, blocked 128; the formula two_pass");
}

TEST_F(Judge, FindsAWrongBlockOfAProduct) {
  const std::size_t m = 6, k = 1024, n = 10, block = 128;
  Floats32 a = numbers(m * k, 3), b = numbers(k * n, 4), c(m * n), wrong(m * n);
  for (float& v : a) v = from_bf16(to_bf16(v));
  for (float& v : b) v = from_bf16(to_bf16(v));
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const auto term = [&](std::size_t l) { return a[i * k + l] * b[l * n + j]; };
      c[i * n + j] = in_lanes(k, term);
      // Element (2, 7) takes its third block of K twice, and the fourth never.
      wrong[i * n + j] = in_lanes(k, [&](std::size_t l) {
        return i == 2 && j == 7 && l / block == 3 ? term(l - block) : term(l);
      });
    }
  }
  write("ab.safetensors", {bf16_tensor("A", {m, k}, a), bf16_tensor("B", {k, n}, b)});
  for (const bool short_output : {false, true}) {
    const auto tensor = [&](const Floats32& y) {
      return short_output ? bf16_tensor("C", {m, n}, y) : f32("C", {m, n}, y);
    };
    write("c.safetensors", {tensor(c)});
    write("w.safetensors", {tensor(wrong)});
    said("gemm", "ab.safetensors", "c.safetensors", 0);
    const auto json = document("gemm", "ab.safetensors", "w.safetensors", 1);
    EXPECT_EQ(json["outputs"][0]["outside"], 1);
    EXPECT_EQ(json["outputs"][0]["worst"]["place"], "[2, 7]");
    EXPECT_EQ(json["outputs"][0]["format"], short_output ? "bf16" : "fp32");
    EXPECT_FALSE(json["outputs"][0]["worst"]["terms"].empty());
  }
  // Of three rows of A, as of all; transposed inputs are the same product.
  const auto few = document("gemm", "ab.safetensors", "c.safetensors", 0, "--rows 3 --seed 7");
  EXPECT_EQ(few["rows"], 3);
  EXPECT_EQ(few["of_rows"], 6);
  EXPECT_EQ(few["outputs"][0]["elements"], 30);
  Floats32 across(m * k);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) across[l * m + i] = a[i * k + l];
  }
  write("at.safetensors", {bf16_tensor("A", {k, m}, across), bf16_tensor("B", {k, n}, b)});
  said("gemm", "at.safetensors", "c.safetensors", 0, "--set transpose_a=1");
  // Five of six rows: most seeds draw the wrong one, and it has the place of the whole.
  int drawn = 0;
  for (int seed = 1; seed <= 12; ++seed) {
    const Said r = plumb("judge gemm --set transpose_a=1 --rows 5 --seed " + std::to_string(seed) +
                         " --inputs " + at("at.safetensors") + " --output " + at("w.safetensors"));
    EXPECT_EQ(r.code == 1, r.out.find("C[2, 7]") != r.out.npos) << r.out;
    drawn += r.code;
  }
  EXPECT_GT(drawn, 6);
  EXPECT_LT(drawn, 12);
}

TEST_F(Judge, FindsAnEpsilonThatStandsOutsideOfTheRoot) {
  Floats32 x = numbers(16 * 256, 5);
  for (float& v : x) v *= 0.05F;  // of a small variance, where epsilon counts
  const Floats32 w = numbers(256, 6), b = numbers(256, 7);
  write("in.safetensors", {f32("x", {16, 256}, x), f32("w", {256}, w), f32("bias", {256}, b)});
  write("y.safetensors", {f32("y", {16, 256}, layer_norm(x, w, b, 1e-5F, true))});
  write("z.safetensors", {f32("y", {16, 256}, layer_norm(x, w, b, 1e-5F, false))});
  const std::string words = "--set eps=9.999999747378752e-06 --name b=bias";
  said("layernorm", "in.safetensors", "y.safetensors", 0, words);
  EXPECT_NE(said("layernorm", "in.safetensors", "z.safetensors", 1, words).find("worst: y["),
            std::string::npos);
}

// E4M3 by hand, of numbers below 448.
float to_e4m3(float x) {
  if (x == 0) return 0;
  const int exponent = std::max(std::ilogb(x), -6);
  const float spacing = std::ldexp(1.0F, exponent - 3);
  return std::nearbyint(x / spacing) * spacing;
}

TEST_F(Judge, FindsAStaleScaleOfACast) {
  const Floats32 x = numbers(4 * 64, 8);
  Floats32 sound, stale;
  for (const float v : x) {
    sound.push_back(to_e4m3(v * 256) / 256);
    stale.push_back(to_e4m3(v * 256) / 128);  // what is read with the scale of another step
  }
  stale[0] = sound[0];
  write("x.safetensors", {f32("x", {4, 64}, x), f32("s", {}, {256})});
  write("y.safetensors", {f32("y", {4, 64}, sound)});
  write("z.safetensors", {f32("y", {4, 64}, stale)});
  said("quantize", "x.safetensors", "y.safetensors", 0, "--format e4m3fn");
  const auto json = document("quantize", "x.safetensors", "z.safetensors", 1, "--format e4m3fn");
  EXPECT_EQ(json["outputs"][0]["outside"], 4 * 64 - 1);
  EXPECT_NE(said("quantize", "x.safetensors", "y.safetensors", 2).find("--format"),
            std::string::npos);
}

TEST_F(Judge, FindsWhatIsNoNumberBeforeAllElse) {
  const Floats32 x = numbers(32, 9);
  Floats32 p = softmax(x, 8);
  p[3] = 7;
  p[20] = std::nanf("");
  p[29] = INFINITY;
  write("x.safetensors", {f32("x", {4, 8}, x)});
  write("p.safetensors", {f32("p", {4, 8}, p)});
  const auto json = document("softmax", "x.safetensors", "p.safetensors", 1);
  EXPECT_EQ(json["outputs"][0]["worst"]["place"], "[2, 4]");
  EXPECT_EQ(json["outputs"][0]["worst"]["found"], "nan");
  EXPECT_EQ(json["outputs"][0]["not_finite"], 2);
  EXPECT_EQ(json["outputs"][0]["outside"], 3);
  write("q.safetensors", {f32("x", {4, 8}, p)});
  EXPECT_NE(said("softmax", "q.safetensors", "p.safetensors", 2).find("[2, 4] of the input 'x'"),
            std::string::npos);
}

TEST_F(Judge, ThatCouldNotFailIsNoVerdict) {
  write("none.safetensors", {f32("x", {0, 8}, {})});
  write("nothing.safetensors", {f32("p", {0, 8}, {})});
  EXPECT_NE(said("softmax", "none.safetensors", "nothing.safetensors", 3).find("INCONCLUSIVE"),
            std::string::npos);
}

TEST_F(Judge, OfAnExactOperationComparesBits) {
  const Floats32 x = numbers(8, 10);
  Floats32 y = x;
  write("x.safetensors", {f32("x", {2, 4}, x)});
  write("y.safetensors", {f32("y", {2, 4}, y)});
  said("cast", "x.safetensors", "y.safetensors", 0);
  y[5] = std::nextafter(y[5], 2.0F);
  write("y.safetensors", {f32("y", {2, 4}, y)});
  EXPECT_NE(said("cast", "x.safetensors", "y.safetensors", 1).find("worst: y[1, 1]"),
            std::string::npos);
}

// The other modes are narrower, and what they say is written down.
TEST_F(Judge, TakesTheOtherModes) {
  const Floats32 x = numbers(16 * 512, 11), y = numbers(512 * 4, 12);
  Floats32 c(16 * 4);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 512; ++k) sum = std::fma(x[i * 512 + k], y[k * 4 + j], sum);
      c[i * 4 + j] = sum;
    }
  }
  write("in.safetensors", {f32("A", {16, 512}, x), f32("B", {512, 4}, y)});
  write("c.safetensors", {f32("C", {16, 4}, c)});
  const auto ratio = [](const nlohmann::json& json) {
    return json["outputs"][0]["worst"]["ratio"].get<double>();
  };
  const auto sure = document("gemm", "in.safetensors", "c.safetensors", 0);
  const auto likely =
      document("gemm", "in.safetensors", "c.safetensors", 0, "--mode probabilistic --delta 1e-6");
  const auto foretold = document("gemm", "in.safetensors", "c.safetensors", 0,
                                 "--mode moments --machine ieee-sequential");
  EXPECT_GT(ratio(likely), 2 * ratio(sure));
  EXPECT_GT(ratio(foretold), ratio(sure));
  EXPECT_EQ(likely["delta"], 1e-6);
  c[9] += 3e-4F;  // within the worst case, and no rounding's doing
  write("c.safetensors", {f32("C", {16, 4}, c)});
  said("gemm", "in.safetensors", "c.safetensors", 0);
  said("gemm", "in.safetensors", "c.safetensors", 1,
       "--machine ieee-sequential --mode probabilistic");
  said("gemm", "in.safetensors", "c.safetensors", 1, "--mode moments --machine ieee-sequential");
}

}  // namespace
}  // namespace plumb::judge_test

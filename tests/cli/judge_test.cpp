// Does plumb judge find what is wrong with a kernel, name the element, and accept the sound kernel,
// whatever order it adds in? The kernels here are plain C++ that shares nothing with the project.
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/support/tensors.hpp"

namespace plumb {
namespace {

using Floats32 = std::vector<float>;

// Numbers in (-1, 1), the same in every run.
Floats32 numbers(std::size_t n, std::uint64_t seed) {
  Floats32 all(n);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (float& x : all) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    x = static_cast<float>(static_cast<double>(state >> 40) * 0x1p-23 - 1);
  }
  return all;
}

// Eight lanes, then a tree over them: the order of a processor's vector unit.
template <class F>
float in_lanes(std::size_t n, const F& term) {
  std::array<float, 8> lanes{};
  for (std::size_t j = 0; j < n; ++j) lanes[j % 8] += term(j);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

Floats32 softmax(const Floats32& x, std::size_t cols, std::size_t forgotten_row = ~std::size_t(0),
                 std::size_t forgotten = 0) {
  Floats32 p(x.size());
  for (std::size_t row = 0; row < x.size() / cols; ++row) {
    const float* in = x.data() + row * cols;
    const float largest = *std::max_element(in, in + cols);
    const float sum = in_lanes(cols, [&](std::size_t j) {
      return row == forgotten_row && j == forgotten ? 0.0F : std::exp(in[j] - largest);
    });
    for (std::size_t j = 0; j < cols; ++j) p[row * cols + j] = std::exp(in[j] - largest) / sum;
  }
  return p;
}

class Judge : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-judge-"); }
  static void write(const std::string& name, const std::vector<Written>& tensors) {
    write_bytes(at(name), safetensors(tensors));
  }
  // What is said of these two files, in `words`, with an exit code.
  static std::string said(const std::string& op, const std::string& in, const std::string& out,
                          int code, const std::string& words = "") {
    const Said r =
        plumb("judge " + op + " --inputs " + at(in) + " --output " + at(out) + " " + words);
    EXPECT_EQ(r.code, code) << r.out;
    return r.out;
  }
  static nlohmann::json document(const std::string& op, const std::string& in,
                                 const std::string& out, int code, const std::string& words = "") {
    return nlohmann::json::parse(said(op, in, out, code, words + " --json"));
  }
};

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
            "sums in the order of the machine, blocked 128");
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

Floats32 layer_norm(const Floats32& x, const Floats32& w, const Floats32& b, float eps,
                    bool eps_in_root) {
  const std::size_t n = w.size();
  Floats32 y(x.size());
  for (std::size_t row = 0; row < x.size() / n; ++row) {
    const float* in = x.data() + row * n;
    const float mean = in_lanes(n, [&](std::size_t j) { return in[j]; }) / static_cast<float>(n);
    const float squares =
        in_lanes(n, [&](std::size_t j) { return (in[j] - mean) * (in[j] - mean); }) /
        static_cast<float>(n);
    const float r = eps_in_root ? 1 / std::sqrt(squares + eps) : 1 / (std::sqrt(squares) + eps);
    for (std::size_t j = 0; j < n; ++j) y[row * n + j] = (in[j] - mean) * r * w[j] + b[j];
  }
  return y;
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
  said("gemm", "in.safetensors", "c.safetensors", 1, "--mode probabilistic");
  said("gemm", "in.safetensors", "c.safetensors", 1, "--mode moments --machine ieee-sequential");
}

TEST_F(Judge, WritesValuesAndBoundsThatItCanRead) {
  const Floats32 x = numbers(64, 13);
  write("x.safetensors", {f32("x", {8, 8}, x)});
  write("p.safetensors", {f32("p", {8, 8}, softmax(x, 8))});
  said("softmax", "x.safetensors", "p.safetensors", 0, "--bounds " + at("b.safetensors"));
  std::ifstream in(at("b.safetensors"), std::ios::binary);
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), 8);
  std::string header(length, ' ');
  in.read(header.data(), static_cast<std::streamsize>(length));
  const auto json = nlohmann::json::parse(header);
  EXPECT_EQ(json["p.value"]["shape"], (std::vector<int>{8, 8}));
  EXPECT_EQ(json["p.bound"]["dtype"], "F64");
  in.seekg(static_cast<std::streamoff>(8 + length +
                                       json["p.value"]["data_offsets"][0].get<std::size_t>()));
  double sum = 0;
  for (int j = 0; j < 8; ++j) {
    double v = 0;
    in.read(reinterpret_cast<char*>(&v), 8);
    sum += v;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  refused("judge softmax --inputs " + at("x.safetensors") + " --output " + at("p.safetensors") +
              " --bounds " + at("b.safetensors"),
          "exists already");
}

TEST_F(Judge, RefusesInOneSentence) {
  const Floats32 x = numbers(64, 14);
  write("x.safetensors", {f32("x", {8, 8}, x), f32("z", {8, 8}, x)});
  write("two.safetensors", {f32("a", {8, 8}, x), f32("b", {8, 8}, x)});
  write("p.safetensors", {f32("p", {8, 8}, softmax(x, 8))});
  write("q.safetensors", {f32("p", {4, 16}, softmax(x, 8))});
  const std::string in = " --inputs " + at("x.safetensors"),
                    out = " --output " + at("p.safetensors");
  refused("judge softmax --inputs " + at("two.safetensors") + out, "no file has 'x' of softmax");
  refused("judge softmax" + in + " --output " + at("q.safetensors"), "makes 8 x 8");
  refused("judge softmax" + in + out + " --set eps=1", "no attribute 'eps'");
  refused("judge softmax" + in + out + " --set eps", "takes ATTRIBUTE=NUMBER");
  refused("judge softmax" + in + out + " --name y=z", "unknown input or output 'y'");
  refused("judge softmax" + in + out + " --name x=y", "no file has a tensor 'y'");
  refused("judge softmax" + in + " " + at("two.safetensors") + out, "nothing asks for a tensor of");
  refused("judge softmax" + in + out + " --delta 0.5", "--delta is of --mode");
  refused("judge softmax" + in + out + " --seed 5", "--seed draws the rows");
  refused("judge softmax" + in + out + " --format bf16", "no number of bf16");
  refused("judge softmax" + in + out + " --machine h100", "runs outside of it");
  refused("judge softmax --inputs nowhere.safetensors" + out, "is missing or not a file");
  refused("judge softmaxx" + in + out, "softmax");
  refused("judge layernorm" + in + out, "needs the attribute eps; say it: --set eps=...");
  refused("judge adam" + in + out, "needs the attributes lr, beta1, beta2, eps, step");
  refused("judge column_sum" + in + out + " --rows 2 --name y=p", "and column_sum of these");
}

TEST_F(Judge, TakesNpyInTheOrderOfTheSchema) {
  const Floats32 x = numbers(4 * 16, 15), w(16, 1.0F), b(16, 0.0F);
  write_bytes(at("x.npy"), npy("<f4", "4, 16", bytes_of(x)));
  write_bytes(at("w.npy"), npy("<f4", "16,", bytes_of(w)));
  write_bytes(at("b.npy"), npy("<f4", "16,", bytes_of(b)));
  write_bytes(at("y.npy"), npy("<f4", "4, 16", bytes_of(layer_norm(x, w, b, 1e-3F, true))));
  const std::string out = " --output " + at("y.npy") + " --set eps=0.0010000000474974513";
  const std::string all = at("x.npy") + " " + at("w.npy") + " " + at("b.npy");
  EXPECT_EQ(plumb("judge layernorm --inputs " + all + out).code, 0);
  EXPECT_EQ(plumb("judge layernorm --inputs b=" + at("b.npy") + " " + at("x.npy") +
                  " w=" + at("w.npy") + out)
                .code,
            0);
  refused("judge layernorm --inputs " + at("x.npy") + " " + at("w.npy") + out, "no file has 'b'");
}

TEST_F(Judge, TakesTheCardOfAFile) {
  const Floats32 x = numbers(64, 16);
  write("x.safetensors", {f32("x", {8, 8}, x)});
  write("p.safetensors", {f32("p", {8, 8}, softmax(x, 8))});
  const std::string source = PLUMB_SOURCE_DIR "/bounds/machines/ieee-pairwise.json";
  const auto json = document("softmax", "x.safetensors", "p.safetensors", 0, "--machine " + source);
  EXPECT_EQ(json["machine"], source);
  EXPECT_EQ(json["assumes"], "sums in the order of the machine, pairwise");
  write_bytes(at("odd.json"), R"({"title": "x", "facts": [{"name": "oder", "value": "any",
      "provenance": "assumed", "source": "me"}]})");
  for (const std::string& verb :
       {"judge softmax --inputs " + at("x.safetensors") + " --output " + at("p.safetensors"),
        std::string("bound softmax 4x4")}) {
    refused(verb + " --machine " + at("odd.json"), "facts[0].name is 'oder'; expected one of acc");
    refused(verb + " --machine " + at("none.json"), "does not exist");
    refused(verb + " --machine " + at("x.safetensors"), "it is no JSON of a card");
  }
}

}  // namespace
}  // namespace plumb

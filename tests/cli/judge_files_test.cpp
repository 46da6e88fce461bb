// Does plumb judge take files in each way that its page says, refuse others in one sentence, and write
// what it found?
#include <fstream>

#include "tests/cli/judging.hpp"

namespace plumb::judge_files_test {
namespace {

class JudgeTakes : public Judging {};

TEST_F(JudgeTakes, WritesValuesAndBoundsThatItCanRead) {
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

// A bound without a rounding to BF16 would accuse a kernel that stores what it should.
TEST_F(JudgeTakes, RefusesShortNumbersOfAnOutputThatIsFp32s) {
  const Floats32 x = numbers(64, 15);
  write("x.safetensors", {f32("x", {8, 8}, x)});
  write("l.safetensors", {bf16_tensor("l", {8, 1}, Floats32(8, 2.5F))});
  refused("judge log_sum_exp --inputs " + at("x.safetensors") + " --output " + at("l.safetensors"),
          "leaves l in FP32");
}

TEST_F(JudgeTakes, RefusesInOneSentence) {
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
  refused("judge layernorm" + in + out + " --set eps=1 --set eps=2", "--set says eps twice");
  refused("judge softmax" + in + out + " --bounds b.npy", "--bounds writes safetensors");
  refused("judge cross_entropy" + in + out + " --set smoothing=2", "a number from 0 to 1");
  refused("judge softmax" + in + out + " --set eps", "takes ATTRIBUTE=NUMBER");
  refused("judge softmax" + in + out + " --name y=z", "unknown input or output 'y'");
  refused("judge softmax" + in + out + " --name x=y", "no file has a tensor 'y'");
  refused("judge softmax" + in + " " + at("two.safetensors") + out, "nothing asks for a tensor of");
  refused("judge softmax" + in + out + " --delta 0.5", "--delta is of --mode");
  refused("judge softmax" + in + out + " --seed 5", "--seed draws the rows");
  refused("judge softmax" + in + out + " --format bf16", "no number of bf16");
  refused("judge softmax" + in + out + " --machine h100", "runs outside of it");
  refused("judge softmax --inputs nowhere.safetensors" + out, "is missing or not a file");
  refused("judge gemm" + in + out + " --recipe mxfp8", "multiplies short copies");
  refused("judge softmax" + in + out + " --input-format tf32", "softmax is none");
  refused("judge softmaxx" + in + out, "softmax");
  refused("judge layernorm" + in + out, "needs the attribute eps; say it: --set eps=...");
  refused("judge adam" + in + out, "needs the attributes lr, beta1, beta2, eps, step");
  refused("judge column_sum" + in + out + " --rows 2 --name y=p", "and column_sum of these");
}

// No file says TF32: its numbers stand there as FP32's, and a unit that takes them has a bound for these.
TEST_F(JudgeTakes, TakesOperandsInTheFormatThatIsSaid) {
  Floats32 a = numbers(4 * 16, 3), b = numbers(16 * 4, 4), c(4 * 4, 0.0F);
  for (Floats32* each : {&a, &b}) {
    for (float& x : *each) x = std::round(4 * x);  // so that each sum is exact
  }
  for (std::size_t e = 0; e < 4 * 4; ++e) {
    for (std::size_t k = 0; k < 16; ++k) c[e] += a[e / 4 * 16 + k] * b[k * 4 + e % 4];
  }
  write_bytes(at("a.npy"), npy("<f4", "4, 16", bytes_of(a)));
  write_bytes(at("b.npy"), npy("<f4", "16, 4", bytes_of(b)));
  write_bytes(at("c.npy"), npy("<f4", "4, 4", bytes_of(c)));
  const std::string all = "judge gemm --inputs " + at("a.npy") + " " + at("b.npy") + " --output " +
                          at("c.npy") + " --machine h100";
  refused(all, "no matrix unit for fp32");
  EXPECT_EQ(plumb(all + " --input-format tf32").code, 0);
  c[3] += 1;
  write_bytes(at("c.npy"), npy("<f4", "4, 4", bytes_of(c)));
  EXPECT_EQ(plumb(all + " --input-format tf32").code, 1);
  a[5] = 1.0F + 0x1p-20F;
  write_bytes(at("a.npy"), npy("<f4", "4, 16", bytes_of(a)));
  refused(all + " --input-format tf32", "no number of tf32");
}

TEST_F(JudgeTakes, TakesNpyInTheOrderOfTheSchema) {
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

TEST_F(JudgeTakes, TakesTheCardOfAFile) {
  const Floats32 x = numbers(64, 16);
  write("x.safetensors", {f32("x", {8, 8}, x)});
  write("p.safetensors", {f32("p", {8, 8}, softmax(x, 8))});
  const std::string source = PLUMB_SOURCE_DIR "/bounds/machines/ieee-pairwise.json";
  const auto json = document("softmax", "x.safetensors", "p.safetensors", 0, "--machine " + source);
  EXPECT_EQ(json["machine"], source);
  EXPECT_EQ(json["assumes"], "sums in the order of the machine, pairwise; the formula two_pass");
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
}  // namespace plumb::judge_files_test

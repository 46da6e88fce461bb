// Is doubted what cannot be meant: twins that are no twins of each other, a perturbed or a better run that is
// another, bounds that let anything pass?
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace plumb::foreign_doubts_test {
namespace {

using nlohmann::json;

class ForeignDoubts : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-foreign-doubts-");
    write("ref", 0);
    write("good", 9);
    write("bad", 9, 1.01F);
    for (unsigned k = 1; k <= 4; ++k) write("twin" + std::to_string(k), k);
  }

  // Twelve tensors of 32 x 32 and the noise of a draw; the fifth is `scale` times as large.
  static void write(const std::string& name, unsigned draw, float scale = 1, float broken = 0,
                    float all_by = 1) {
    std::mt19937 of_x(3), random(draw);
    std::normal_distribution<float> of_values, of_noise;
    std::vector<Told> all;
    for (int t = 0; t < 12; ++t) {
      std::vector<float> x(32 * 32);
      for (float& v : x)
        v = all_by * (t == 4 ? scale : 1) * of_values(of_x) +
            (draw == 0 ? 0 : 1e-3F * of_noise(random));
      if (t == 4 && broken != 0) x[7] = broken;
      all.push_back({f32("t" + std::to_string(t), {32, 32}, x), {{"order", t + 1}}});
    }
    write_trace2(at(name), manifest2(1), {all});
  }
  static Said check(const std::string& candidate, const std::string& fourth) {
    return plumb("check " + at("ref") + " " + at(candidate) + " --twins " + at("twin1") + " " +
                 at("twin2") + " " + at("twin3") + " " + at(fourth));
  }
};

TEST_F(ForeignDoubts, ATwinThatStandsApartExcusesNothing) {
  EXPECT_EQ(check("good", "twin4").code, 0);
  EXPECT_EQ(check("bad", "twin4").code, 1);
  for (const float scale : {1.01F, 100.0F}) {
    const std::string wild = "wild" + std::to_string(static_cast<int>(scale));
    write(wild, 4, scale);
    const Said bad = check("bad", wild), good = check("good", wild);
    EXPECT_EQ(bad.code, 3) << bad.out;
    EXPECT_NE(bad.out.find("twin 4 stands apart from the others, farthest in t4"), bad.out.npos)
        << bad.out;
    EXPECT_EQ(good.code, 0) << good.out;  // the others say the same of it
  }
}

TEST_F(ForeignDoubts, APerturbedRunThatIsNoneIsRefused) {
  const std::string by =
      "check " + at("ref") + " " + at("bad") + " --rule perturbation --perturbed ";
  EXPECT_EQ(plumb(by + at("twin1")).code, 1);
  refused(by + at("bad"), "the perturbed trace is the candidate");
  for (const float broken : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    write("broken", 1, 1, broken);
    refused(by + at("broken"), "the perturbed trace is not finite at 't4', where the reference is");
    std::filesystem::remove_all(at("broken"));
  }
}

TEST_F(ForeignDoubts, ABetterRunThatIsOneOfTheOthersOrAnotherIsTold) {
  const std::string by = "check " + at("ref") + " " + at("good") + " --rule flat --better ";
  EXPECT_NE(plumb(by + at("twin1")).out.find("times as much as the reference"), std::string::npos);
  const Said said = plumb(by + at("ref"));
  EXPECT_NE(said.out.find("note: the better run is the reference, bit by bit"), said.out.npos)
      << said.out;
  const Said candidate = plumb(by + at("good"));
  EXPECT_NE(candidate.out.find("note: the better run is the candidate, bit by bit"),
            candidate.out.npos)
      << candidate.out;
  write("nothing", 0, 1, 0, 0);
  const Said nothing = plumb(by + at("nothing"));
  EXPECT_NE(
      nothing.out.find("note: the better run is another than the reference: half of 12 tensors"),
      nothing.out.npos)
      << nothing.out;
}

// (time, batch) of ranks that were said to deal the first dimension, beside (batch, time).
TEST_F(ForeignDoubts, DimensionsThatLieOtherwiseAreNotComparedNumberByNumber) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(48 * 4), y(48 * 4);
  for (float& v : x) v = normal(random);
  std::ranges::transform(x, y.begin(), std::negate<>());
  const auto step = [&](const std::string& name, std::vector<std::size_t> shape,
                        const auto& values) {
    write_trace2(at(name), manifest2(1),
                 {{{f32("a", {48, 4}, x), {{"order", 1}}},
                   {f32("rnn", shape, values), {{"order", 2}, {"shape", shape}}}}});
  };
  step("rows", {6, 8, 4}, x);
  step("joined", {48, 4}, y);
  step("crosswise", {12, 4, 4}, y);
  const std::string flat = "check --rule flat " + at("rows") + " ";
  EXPECT_EQ(plumb(flat + at("joined")).code, 1);
  const Said said = plumb(flat + at("crosswise"));
  EXPECT_EQ(said.code, 3) << said.out;
  EXPECT_NE(
      said.out.find("rnn: by 2 of its size; is 12 x 4 x 4, the reference's 6 x 8 x 4, and neither"),
      said.out.npos)
      << said.out;
}

// What is given, and what operations are said to make of it.
void write_step(const std::filesystem::path& run, std::vector<Told> given, std::vector<Told> made) {
  for (Told& one : given) one.says["role"] = "given";
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i].says["order"] = i + 1;
    given.push_back(made[i]);
  }
  write_trace2(run, manifest2(1), {given});
}

// Weights in BF16 beside states in FP32 are rounded as each is kept, whichever comes first.
TEST_F(ForeignDoubts, ResultsOfOneCallAreEachInTheirOwnFormat) {
  const json adam{
      {"op", "adam"},
      {"inputs", {"w", "m", "v", "g"}},
      {"attributes",
       {{"lr", 0.5}, {"beta1", 0.5}, {"beta2", 0.75}, {"eps", 0}, {"step", 1}, {"stepwise", 1}}}};
  const auto made = [&](int output) {
    json says = {{"made_by", adam}};
    says["made_by"]["output"] = output;
    return says;
  };
  // m' = g / 2, v' = g^2 / 4, w' = w - lr sign(g), of g = 1 + 2^-12, which BF16 lacks.
  const float g = 1 + 0x1p-12F;
  const auto step = [&](const std::string& name, float v) {
    const std::vector<Told> given{{f32("w", {1, 1}, {3 + 0x1p-12F})},
                                  {f32("m", {1, 1}, {0})},
                                  {f32("v", {1, 1}, {0})},
                                  {f32("g", {1, 1}, {g})}};
    for (const bool short_first : {true, false}) {
      const std::string w = short_first ? "1w" : "2w", moment = short_first ? "2v" : "1v";
      std::vector<Told> all{{bf16_tensor(w, {1, 1}, {2.5}), made(2)},
                            {f32(moment, {1, 1}, {v}), made(1)}};
      if (!short_first) std::swap(all[0], all[1]);
      write_step(at(name + (short_first ? "1" : "2")), given, all);
    }
  };
  step("own", g * g / 4);
  step("other", g * g / 4 * (1 + 0x1p-10F));
  for (const char* order : {"1", "2"}) {
    const Said own = plumb("replay " + at(std::string("own") + order));
    EXPECT_EQ(own.code, 0) << own.out;
    const Said said = plumb("replay " + at(std::string("other") + order));
    EXPECT_EQ(said.code, 1) << said.out;
    EXPECT_NE(said.out.find(order == std::string("1") ? "blamed: 2v" : "blamed: 1v"), said.out.npos)
        << said.out;
  }
}

// One pass over numbers whose mean is a hundred times their spread loses what they have.
TEST_F(ForeignDoubts, ABoundThatZerosWouldKeepAcquitsNothing) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto of_mean = [&](float mean, const std::string& run, bool wrong) {
    std::vector<float> x(64), y(64), ones(64, 1), zeros(64, 0);
    for (float& v : x) v = mean + normal(random);
    double sum = 0, squares = 0;
    for (const float v : x) sum += v / 64.0;
    for (const float v : x) squares += (v - sum) * (v - sum) / 64;
    for (std::size_t i = 0; i < 64; ++i)
      y[i] = static_cast<float>((wrong ? -1 : 1) * (x[i] - sum) / std::sqrt(squares + 1e-5));
    const json how{
        {"op", "layernorm"}, {"inputs", {"x", "w", "b"}}, {"attributes", {{"eps", 1e-5}}}};
    write_step(at(run), {{f32("x", {1, 64}, x)}, {f32("w", {64}, ones)}, {f32("b", {64}, zeros)}},
               {{f32("y", {1, 64}, y), {{"made_by", how}}}});
    return plumb("replay " + at(run));
  };
  EXPECT_EQ(of_mean(0, "small-mean", false).code, 0);
  EXPECT_EQ(of_mean(0, "small-mean-wrong", true).code, 1);
  for (const bool wrong : {false, true}) {
    const Said said = of_mean(100, wrong ? "large-mean-wrong" : "large-mean", wrong);
    EXPECT_EQ(said.code, 3) << said.out;
    EXPECT_NE(said.out.find("as large as what it makes here: zeros would be within"), said.out.npos)
        << said.out;
  }
}

// PyTorch's label of what does not count is -100. Only the loss is traced, the second thing that is made.
TEST_F(ForeignDoubts, ALabelIsLookedAtWhereItCounts) {
  const json how{
      {"op", "cross_entropy"}, {"inputs", {"x", "labels", "mask", "count"}}, {"output", 1}};
  const auto step = [&](const std::string& name, float label, float counts) {
    write_step(at(name),
               {{f32("x", {2, 2}, {0, 0, 0, 0})},
                {f32("labels", {2, 1}, {1, label})},
                {f32("mask", {2, 1}, {1, counts})},
                {f32("count", {1, 1}, {1})}},
               {{f32("loss", {1, 1}, {std::log(2.0F)}), {{"made_by", how}}}});
    return plumb("replay " + at(name));
  };
  EXPECT_EQ(step("masked", -100, 0).code, 0);
  const Said said = step("counted", -100, 1);
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.out.find("blamed: loss\n"), said.out.npos) << said.out;
}

TEST_F(ForeignDoubts, AMaskOfInfinitiesIsNoDamage) {
  const float none = -std::numeric_limits<float>::infinity();
  const json how{{"op", "add"}, {"inputs", {"scores", "mask"}}};
  const auto step = [&](const std::string& name, float first) {
    write_step(at(name), {{f32("scores", {1, 2}, {1, 2})}, {f32("mask", {1, 2}, {0, none})}},
               {{f32("sum", {1, 2}, {first, none}), {{"made_by", how}}}});
    return plumb("replay " + at(name));
  };
  const Said said = step("mask", 1);
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_NE(said.out.find("mask: holds infinities, as a mask does"), said.out.npos) << said.out;
  EXPECT_EQ(step("broken-mask", std::nanf("")).code, 1);
  // Of one that overflowed nothing holds an infinity before.
  write_step(at("overflow"), {{f32("scores", {1, 2}, {3e38F, 2})}},
             {{f32("sum", {1, 2}, {-none, 4}),
               {{"made_by", {{"op", "add"}, {"inputs", {"scores", "scores"}}}}}},
              {f32("other", {1, 2}, {-none, 1}), json::object()}});
  const Said overflow = plumb("replay " + at("overflow"));
  EXPECT_EQ(overflow.code, 1) << overflow.out;
  EXPECT_NE(overflow.out.find("other structure"), overflow.out.npos) << overflow.out;
}

// Adam's first step, whose sign turns in some numbers of each run: a rank of eight lost its share.
TEST_F(ForeignDoubts, AShareThatAdamNeverSteppedIsNotExplained) {
  const auto run = [](const std::string& name, unsigned draw, std::size_t stepped) {
    std::mt19937 of_x(3), random(draw);
    std::normal_distribution<float> of_values, of_noise;
    std::vector<float> gradient(128 * 128), weight(gradient.size());
    for (std::size_t e = 0; e < gradient.size(); ++e) {
      const float w = 0.1F * of_values(of_x);
      gradient[e] = of_values(of_x) + (draw == 0 ? 0 : 2e-3F * of_noise(random));
      weight[e] = w - (e < stepped ? std::copysign(1e-3F, gradient[e]) : 0);
    }
    write_trace2(at(name), manifest2(1),
                 {{{f32("w/grad", {128, 128}, gradient), {{"order", 1}, {"phase", "backward"}}},
                   {f32("w", {128, 128}, weight), {{"order", 2}, {"phase", "optimizer"}}}}});
  };
  const std::size_t all = 128 * 128;
  run("adam", 0, all);
  run("healthy", 9, all);
  run("lost", 9, all - all / 8);
  std::string twins = " --twins";
  for (unsigned k = 1; k <= 4; ++k) {
    run("adam" + std::to_string(k), k, all);
    twins += " " + at("adam" + std::to_string(k));
  }
  const Said healthy = plumb("check " + at("adam") + " " + at("healthy") + twins);
  EXPECT_EQ(healthy.code, 0) << healthy.out;
  const Said lost = plumb("check " + at("adam") + " " + at("lost") + twins);
  EXPECT_EQ(lost.code, 3) << lost.out;
  EXPECT_NE(lost.out.find("far beyond all twins"), lost.out.npos) << lost.out;
}

// A gradient that a softmax makes zero is all rounding: twins that cut its sum agree with each other, and not
// with the run that they are twins of.
TEST_F(ForeignDoubts, WhatIsAllRoundingDoubtsNoTwin) {
  const auto run = [](const std::string& name, unsigned draw, float bias) {
    std::mt19937 of_x(3), random(draw);
    std::normal_distribution<float> of_values, of_noise;
    std::vector<float> gradient(64 * 4);
    for (std::size_t e = 0; e < gradient.size(); ++e) {
      gradient[e] = e < gradient.size() / 2 ? of_values(of_x) : -gradient[e - gradient.size() / 2];
    }
    std::vector<float> sums(4, bias), other(64 * 64);
    for (float& v : other) v = of_values(of_x) + (draw == 0 ? 0 : 1e-4F * of_noise(random));
    for (float& v : sums) v *= 1 + (draw == 0 ? 0 : 1e-6F * of_noise(random));
    const json made = {{"op", "column_sum"}, {"inputs", {"out/grad"}}};
    write_trace2(at(name), manifest2(1),
                 {{{f32("out/grad", {64, 4}, gradient), {{"order", 1}, {"phase", "backward"}}},
                   {f32("other", {64, 64}, other), {{"order", 2}, {"phase", "backward"}}},
                   {f32("key.bias/grad", {4}, sums),
                    {{"order", 3}, {"phase", "reduce"}, {"made_by", made}}}}});
  };
  run("keys", 0, 1e-7F);
  run("keys9", 9, 3e-7F);
  std::string twins = " --twins";
  for (unsigned k = 1; k <= 4; ++k) {
    run("keys" + std::to_string(k), k, 3e-7F);
    twins += " " + at("keys" + std::to_string(k));
  }
  const Said said = plumb("check " + at("keys") + " " + at("keys9") + twins);
  EXPECT_EQ(said.out.find("the twins agree with each other"), said.out.npos) << said.out;
  EXPECT_EQ(said.code, 0) << said.out;
}

}  // namespace
}  // namespace plumb::foreign_doubts_test

// Are traces of another program judged from the command line, by twins that it made, and is each option
// that cannot be meant refused?
#include <cmath>
#include <random>

#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace plumb::foreign_test {
namespace {

namespace fs = std::filesystem;

class Foreign : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-foreign-");
    const std::vector<float> x = gauss(1, 1, std::vector<float>(512, 0));
    write("ref", x);
    write("good", gauss(2, 1e-3F, x), 2);
    write("still", gauss(2, 1e-3F, x), 2, 1e-6F);
    std::vector<float> bad = gauss(2, 1e-3F, x);
    for (float& v : bad) v *= 1.01F;
    write("bad", bad, 2);
    for (unsigned k = 1; k <= 4; ++k) write("twin" + std::to_string(k), gauss(10 + k, 1e-3F, x));
  }
  static std::vector<float> gauss(unsigned seed, float size, std::vector<float> around) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& v : around) v += size * normal(random);
    return around;
  }
  // 16 x 32, rows dealt to the ranks; what no twin moves is otherwise by `shift`.
  static void write(const std::string& name, const std::vector<float>& x, std::size_t ranks = 1,
                    float shift = 0) {
    std::vector<std::vector<Told>> all;
    const std::size_t rows = 16 / ranks;
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::vector<float> mine(x.begin() + static_cast<std::ptrdiff_t>(r * rows * 32),
                                    x.begin() + static_cast<std::ptrdiff_t>((r + 1) * rows * 32));
      const nlohmann::json on_rows = {{"axis", "rank"}, {"kind", "shard"}, {"dim", 0}};
      all.push_back(
          {{f32("model.a", {rows, 32}, mine),
            {{"id", "a/out"}, {"order", 2}, {"shape", {16, 32}}, {"placements", {on_rows}}}},
           {f32("embed", {2}, {1, 2 + shift}), {{"order", 3}}}});
    }
    write_trace2(at(name), manifest2(ranks), all);
  }
  static std::string check(const std::string& candidate, const std::string& more = "") {
    std::string twins = "--twins";
    for (int k = 1; k <= 4; ++k) twins += " " + at("twin" + std::to_string(k));
    return "check " + at("ref") + " " + at(candidate) + " " + twins + " " + more;
  }
};

TEST_F(Foreign, RunsAreJudgedByTheTwinsOfTheirProducer) {
  const Said good = plumb(check("good")), bad = plumb(check("bad"));
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_NE(good.out.find("verdict: PASS by twins: rounding explains"), good.out.npos) << good.out;
  EXPECT_NE(good.out.find("note: the twins are traces of 'other 1.0'"), good.out.npos) << good.out;
  EXPECT_EQ(bad.code, 1) << bad.out;
  EXPECT_NE(bad.out.find("blamed: a/out\nby: scale\n"), bad.out.npos) << bad.out;
  // Options of several words leave those that follow alone.
  std::string words = check("bad");
  const std::size_t option = words.find("--twins");
  const std::string first = "check " + words.substr(option) + at("ref") + " " + at("bad");
  EXPECT_EQ(plumb(first).out, bad.out);
  EXPECT_NE(plumb("localize" + words.substr(5)).out.find("blamed: a/out"), std::string::npos);
}

TEST_F(Foreign, NumbersAreInspectedAsTheirFileHasThem) {
  write_trace2(at("kinds"), manifest2(1),
               {{{{"ids", "I64", {2}, bytes_of<std::int64_t>({1, 2})}},
                 {{"loss", "F64", {1}, bytes_of<double>({0.5})}},
                 {{"x", "BF16", {1}, bytes_of<std::uint16_t>({0x3f80})}},
                 {f32("y", {1}, {1})},
                 {f32("z", {1}, {1}), {{"format", "bf16"}}}}});
  const Said seen = plumb("inspect " + at("kinds") + " --json");
  std::map<std::string, std::string> formats;
  const auto document = nlohmann::json::parse(seen.out);
  for (const auto& t : document.at("tensors"))
    formats[t.at("id").get<std::string>()] = t.at("format").get<std::string>();
  EXPECT_EQ(formats,
            (std::map<std::string, std::string>{
                {"ids", "int64"}, {"loss", "fp64"}, {"x", "bf16"}, {"y", "fp32"}, {"z", "bf16"}}))
      << seen.out;
}

TEST_F(Foreign, WhatNoTwinMovesIsNotJudgedUnlessTheUserSaysSo) {
  const Said still = plumb(check("still"));
  EXPECT_EQ(still.code, 3) << still.out;  // though a/out was executed before, and judged
  EXPECT_NE(still.out.find(
                "INCONCLUSIVE, 1 tensor differs by 4.3e-07 of its size (embed), and no rule tells"),
            still.out.npos)
      << still.out;
  EXPECT_NE(still.out.find("not judged: embed: by 4.3e-07 of its size; differs though no twin"),
            still.out.npos);
  const Said exact = plumb(check("still", "--exact '^embed$'"));
  EXPECT_EQ(exact.code, 1);
  EXPECT_NE(exact.out.find("blamed: embed\n"), exact.out.npos) << exact.out;
  EXPECT_NE(exact.out.find("differs by 4.3e-07 of its size, and no twin does"), exact.out.npos);
  const Said json = plumb(check("still", "--json"));
  EXPECT_NE(json.out.find("\"unjudged\":1"), json.out.npos) << json.out;
  EXPECT_NE(json.out.find("\"unexplained\":1"), json.out.npos) << json.out;
  EXPECT_EQ(plumb(check("still", "--skip embed")).code, 0);  // the user leaves it out
  EXPECT_NE(json.out.find("\"type\":\"not_judged\""), json.out.npos) << json.out;
}

TEST_F(Foreign, LocalizeSaysWhetherThereIsNothingToBlame) {
  const Said good = plumb("localize" + check("good").substr(5));
  EXPECT_EQ(good.code, 0);
  EXPECT_TRUE(good.out.starts_with("nothing to blame: verdict: PASS by twins")) << good.out;
  const Said still = plumb("localize" + check("still").substr(5));
  EXPECT_EQ(still.code, 3);
  EXPECT_TRUE(still.out.starts_with("verdict: INCONCLUSIVE, 1 tensor differs")) << still.out;
}

// Twelve tensors of 8 MiB in BF16, which are 16 MiB each once they are FP32's: five runs of them are
// nearly a GiB. Memory of the program alone (data segment and stacks; mapped files do not count) has room
// for three such tensors, whatever it takes to start.
TEST_F(Foreign, RunsAreJudgedInMemoryOfThreeTensors) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "the sanitizer maps memory of its own, which the limit does not let it have";
#endif
#endif
  const std::size_t rows = 2048, cols = 2048, tensors = 12;
  const auto write = [&](const std::string& name, std::size_t ranks, unsigned seed, float noise) {
    std::mt19937 random(seed);
    std::vector<std::vector<Told>> all(ranks);
    for (std::size_t t = 0; t < tensors; ++t) {
      std::vector<std::uint16_t> codes(rows * cols / ranks);
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t e = 0; e < codes.size(); ++e) {
          const float base = 1 + static_cast<float>((e + r * codes.size()) * 7919 % 4096) / 512;
          codes[e] = to_bf16(base + noise * (static_cast<float>(random() % 64) - 31.5F));
        }
        all[r].push_back({{"x" + std::to_string(t), "BF16", {rows / ranks, cols}, bytes_of(codes)},
                          {{"order", t + 1},
                           {"shape", {rows, cols}},
                           {"placements", {{{"axis", "rank"}, {"kind", "shard"}, {"dim", 0}}}}}});
      }
    }
    write_trace2(at(name), manifest2(ranks), all);
  };
  write("wide", 1, 1, 0);
  write("sharded", 8, 2, 2e-3F);
  for (unsigned k = 1; k <= 3; ++k) write("wide" + std::to_string(k), 1, 10 + k, 2e-3F);
  const std::string runs = "check " + at("wide") + " " + at("sharded");
  const std::string most =
      "ulimit -s 512; ulimit -d " + std::to_string(3 * rows * cols * 4 / 1024) + "; ";
  for (const std::string& rule :
       {std::string(" --rule flat"),
        " --twins " + at("wide1") + " " + at("wide2") + " " + at("wide3")}) {
    const Said free = plumb(runs + rule), limited = plumb(runs + rule, most);
    EXPECT_EQ(free.code, 0) << free.out;
    EXPECT_EQ(limited.code, 0) << limited.out;
    EXPECT_EQ(limited.out, free.out);
    EXPECT_EQ(plumb(runs + rule, "taskset -c 0 ").out, free.out);
  }
}

TEST_F(Foreign, OddTwinsAreRefused) {
  const std::string pair = "check " + at("ref") + " " + at("good") + " --twins ";
  refused(pair + at("twin1"), "fewer than three do not say how twins scatter");
  refused(pair + at("twin1") + " " + at("twin2"), "got 2 traces");
  refused(pair + "2", "--twins 2 is for --spreads");
  refused(pair + at("twin1") + " " + at("twin1") + " " + at("twin2"),
          "twin 2 is twin 1, bit by bit");
  refused(pair + at("twin1") + " 3", "traces and the number 3");
  refused(pair + "4", "has no promise (graph.json)");
  refused(pair + at("twin1") + " " + at("twin2") + " " + at("nowhere"), "is not a folder");
  refused(pair + "4 --exact x", "--exact is of twins that are given as traces");
  refused(check("good", "--rule twins,replay"), "the rule replay needs a promise");
  refused(check("good", "--rule flat"), "--twins is of the rule twins");
  refused(check("good", "--spreads s"), "--spreads is of twins that plumb makes");
  refused(check("good", "--exact '('"), "--exact '(' is not a regular expression");
  EXPECT_EQ(plumb("train" + small_sizes + "-o " + at("own")).code, 0);
  refused("check " + at("own") + " " + at("own") + " --twins " + at("own") + " " + at("own") + " " +
              at("own"),
          "the reference has a promise (graph.json), of which plumb makes twins itself");
}

// Of a loss that four twins leave where it is one last bit says nothing; two are not a last bit.
TEST_F(Foreign, OneLastBitOfASingleNumberBehindWhatTwinsMoveIsNoRiddle) {
  const auto with_loss = [](const std::string& name, const std::vector<float>& x, float loss) {
    write_trace2(
        at(name), manifest2(1),
        {{{f32("a", {16, 32}, x), {{"order", 1}}}, {f32("loss", {1}, {loss}), {{"order", 2}}}}});
  };
  const std::vector<float> x = gauss(1, 1, std::vector<float>(512, 0));
  const float up = std::nextafter(5.0F, 6.0F), two_up = std::nextafter(up, 6.0F);
  with_loss("ref1", x, 5);
  with_loss("last", gauss(2, 1e-3F, x), up);
  with_loss("more", gauss(2, 1e-3F, x), two_up);
  std::string twins = " --twins";
  for (unsigned k = 1; k <= 4; ++k) {
    const std::string name = "loss-twin" + std::to_string(k);
    with_loss(name, gauss(10 + k, 1e-3F, x), 5);
    twins += " " + at(name);
  }
  const Said last = plumb("check " + at("ref1") + " " + at("last") + twins);
  EXPECT_EQ(last.code, 0) << last.out;
  EXPECT_NE(last.out.find("one last bit of a single number"), last.out.npos) << last.out;
  EXPECT_NE(last.out.find("; not judged, though different: 1 number by its last bit\n"),
            last.out.npos)
      << last.out;
  EXPECT_EQ(plumb("check " + at("ref1") + " " + at("more") + twins).code, 3);
}

// Nor is a bit one of a format that the numbers do not have.
TEST_F(Foreign, OneLastBitIsOfAFormatThatANumberHas) {
  const auto with_loss = [](const std::string& name, const std::vector<float>& x, float loss) {
    write_trace2(at(name), manifest2(1),
                 {{{f32("a", {16, 32}, x), {{"order", 1}}},
                   {f32("loss", {1}, {loss}), {{"order", 2}, {"format", "e5m2"}}}}});
  };
  const std::vector<float> x = gauss(1, 1, std::vector<float>(512, 0));
  with_loss("ref5", x, 5.01F);
  with_loss("near5", gauss(2, 1e-3F, x), 5.02F);
  std::string twins = " --twins";
  for (unsigned k = 1; k <= 4; ++k) {
    const std::string name = "loss5-twin" + std::to_string(k);
    with_loss(name, gauss(10 + k, 1e-3F, x), 5.01F);
    twins += " " + at(name);
  }
  const Said near = plumb("check " + at("ref5") + " " + at("near5") + twins);
  EXPECT_EQ(near.code, 3) << near.out;
}

// --only chooses tensors: a rank's file that is not there is found all the same.
TEST_F(Foreign, ARankWithoutAFileIsFoundWhateverIsLookedAt) {
  write("lacks", gauss(2, 1e-3F, gauss(1, 1, std::vector<float>(512, 0))), 2);
  fs::remove(rank_path(at("lacks"), 1));
  const Said seen = plumb(check("lacks", "--only embed"));
  EXPECT_EQ(seen.code, 1) << seen.out;
  EXPECT_NE(seen.out.find("blamed: rank_00001.safetensors\n"), seen.out.npos) << seen.out;
}

TEST_F(Foreign, AnExactThatMatchesNothingIsRefused) {
  refused(check("good", "--exact nothing"), "--exact 'nothing' matches no tensor");
}

// A softmax with a column too many, of which no producer says a word.
TEST_F(Foreign, TheGradientOfALossNeedsNoWordOfItsProducer) {
  const auto write_loss = [](const std::string& name, unsigned seed, double more) {
    const std::vector<float> x =
        gauss(seed, seed == 1 ? 0 : 1e-3F, gauss(1, 1, std::vector<float>(16 * 12, 0)));
    std::vector<float> g;
    for (std::size_t t = 0; t < 16; ++t) {
      double sum = more;
      for (std::size_t v = 0; v < 12; ++v) sum += std::exp(static_cast<double>(x[12 * t + v]));
      for (std::size_t v = 0; v < 12; ++v) {
        const double p = std::exp(static_cast<double>(x[12 * t + v])) / sum;
        g.push_back(static_cast<float>((p - (v == t % 12 ? 1 : 0)) / 16));
      }
    }
    write_trace2(at(name), manifest2(1),
                 {{{f32("head/out", {16, 12}, x), {{"order", 1}}},
                   {f32("head/grad_out", {16, 12}, g), {{"order", 2}, {"phase", "backward"}}}}});
  };
  write_loss("ce", 1, 0);
  std::string twins = " --twins";
  for (unsigned k = 1; k <= 4; ++k) {
    write_loss("ce-twin" + std::to_string(k), 10 + k, 0);
    twins += " " + at("ce-twin" + std::to_string(k));
  }
  write_loss("ce-good", 3, 0);
  write_loss("ce-bad", 3, 1e-3);
  const Said good = plumb("check " + at("ce") + " " + at("ce-good") + twins),
             bad = plumb("check " + at("ce") + " " + at("ce-bad") + twins);
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_NE(good.out.find("PASS by twins and replay"), good.out.npos) << good.out;
  EXPECT_EQ(bad.code, 1) << bad.out;
  EXPECT_NE(bad.out.find("blamed: head/grad_out\nby: replay\n"), bad.out.npos) << bad.out;
}

// A gradient that nobody makes is a mistake; a name that is spelt otherwise may be none.
TEST_F(Foreign, ATensorThatOneRunLacksIsFoundUnlessNamesMayDiffer) {
  const auto one_rank = [](const std::string& name, const std::vector<std::string>& ids) {
    std::vector<Told> told;
    for (const std::string& id : ids) told.push_back({f32(id, {2}, {1, 2}), {{"order", 1}}});
    write_trace2(at(name), manifest2(1), {told});
  };
  one_rank("two", {"a", "b"});
  one_rank("one", {"a"});
  one_rank("other", {"a", "c"});
  const std::string flat = " --rule flat", two = at("two") + " ", one = at("one") + " ";
  const Said lacks = plumb("check " + two + one + flat), more = plumb("check " + one + two + flat);
  EXPECT_EQ(lacks.code, 1) << lacks.out;
  EXPECT_NE(lacks.out.find("is not there, and the reference has it"), lacks.out.npos) << lacks.out;
  EXPECT_NE(lacks.out.find("blamed: b\n"), lacks.out.npos) << lacks.out;
  EXPECT_EQ(more.code, 1) << more.out;
  EXPECT_NE(more.out.find("is there, and the reference has none"), more.out.npos) << more.out;
  EXPECT_NE(plumb("check " + two + one + flat + " --allow-unmatched b").code, 1);
  // A reference whose pieces make no whole is damaged; the run is not accused of having all.
  const nlohmann::json half = {{"shape", {4}},
                               {"offsets", {{{"global", {0}}, {"local", {0}}, {"size", {2}}}}}};
  write_trace2(at("hole"), manifest2(1),
               {{{f32("a", {2}, {1, 2}), {{"order", 1}}}, {f32("b", {2}, {1, 2}), half}}});
  refused("check " + at("hole") + " " + two + flat, "in the reference 'b' is not whole");
  refused("check " + two + at("other") + flat, "2 tensors are in one trace only, the first is 'b'");
}

TEST_F(Foreign, APlacementOfTheUserCounts) {
  write_bytes(at("o.json"), R"({"schema": "plumb-overrides/1", "tensors": [
      {"match": "^model.a$", "says": {"placements": [{"axis": "rank", "kind": "partial"}]}}]})");
  refused(check("good", "--placement " + at("o.json")),
          "says of 'model.a' a shard of 16 x 32 of 16 x 32, and the file holds 8 x 32");
  write_bytes(at("o.json"), R"({"schema": "plumb-overrides/1", "tensors": [
      {"match": "^embed$", "id": "embedding"}]})");
  const std::string more = "--allow-unmatched embed --placement " + at("o.json");
  EXPECT_EQ(plumb(check("still", more)).code, 0);
  EXPECT_NE(plumb("inspect " + at("good") + " --placement " + at("o.json")).out.find("embedding"),
            std::string::npos);
  refused("inspect " + at("good") + " --placement " + at("nowhere.json"),
          "does not exist; see docs");
  refused("catch one-masked-entry --placement " + at("o.json"), "--placement");
}

TEST_F(Foreign, APlacementIsSuggestedWhereItIsTheOnlyOne) {
  const std::string by_values = "inspect " + at("good") + " --suggest --reference " + at("ref");
  const Said told = plumb(by_values + " 2>/dev/null");
  EXPECT_EQ(told.code, 0) << told.out;
  EXPECT_NE(told.out.find("a/out: [{\"axis\":\"rank\",\"dim\":0,\"kind\":\"shard\"}]\n"),
            told.out.npos)
      << told.out;
  EXPECT_EQ(plumb("inspect " + at("good") + " --suggest --only a/out").code, 3);
  // As a file it heals what is told wrongly.
  EXPECT_EQ(plumb(by_values + " --only a/out --json 2>/dev/null > " + at("s.json")).code, 0);
  EXPECT_EQ(plumb(check("good", "--placement " + at("s.json"))).code, 0);
  refused("inspect " + at("ref") + " --suggest", "lies on two ranks or more");
  refused("inspect " + at("good") + " --reference " + at("ref"), "--suggest");
}

TEST_F(Foreign, InspectSaysWhatIsInATraceAndWhatIsWrongWithIt) {
  const Said said = plumb("inspect " + at("good"));
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("producer other 1.0, 2 ranks, step 1\n"), said.out.npos) << said.out;
  EXPECT_NE(said.out.find("a/out  16 x 32  fp32"), said.out.npos) << said.out;
  EXPECT_NE(said.out.find("model.a"), said.out.npos) << said.out;  // the producer's name
  fs::copy(at("good"), at("less"), fs::copy_options::recursive);
  fs::remove(rank_path(at("less"), 1));
  EXPECT_NE(plumb("inspect " + at("less")).out.find("finding: rank_00001.safetensors is not there"),
            std::string::npos);
  EXPECT_EQ(plumb(check("less")).code, 1);
  nlohmann::json wrong = manifest2(2);
  wrong["ranks"] = "two";
  write_bytes(fs::path(at("less")) / "manifest.json", wrong.dump());
  refused("inspect " + at("less"), "ranks is 'two'; expected the number of ranks, 1 to 4096");
}

}  // namespace
}  // namespace plumb::foreign_test

// Is what other producers claim compared where only one run says it, refused where it cannot be, and told
// where it is lost?
#include <random>

#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace plumb::foreign_claims_test {
namespace {

using nlohmann::json;

// A tensor a of 16 x 32 that twins move, and what a test adds to it.
class ForeignClaims : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-foreign-claims-"); }

  static Told a(unsigned seed) {
    std::mt19937 of_a(1), of_noise(seed);
    std::normal_distribution<float> normal, noise;
    std::vector<float> x(512);
    for (float& v : x) v = normal(of_a) + (seed == 0 ? 0 : 1e-3F * noise(of_noise));
    return {f32("a", {16, 32}, x), {{"order", 1}, {"shape", {16, 32}}}};
  }
  static Told scales(const std::string& codes, const std::vector<std::size_t>& shape, json says) {
    return {{"s", "F8_E8M0", shape, codes}, std::move(says)};
  }
  // The reference, its twins and one candidate of one rank: a, and s.
  static Said checked(const Told& of_reference, const Told& of_candidate) {
    std::string twins;
    for (unsigned k = 0; k <= 4; ++k) {
      write_trace2(at("twin" + std::to_string(k)), manifest2(1), {{a(k), of_reference}});
      if (k > 0) twins += " " + at("twin" + std::to_string(k));
    }
    write_trace2(at("other"), manifest2(1), {{a(9), of_candidate}});
    return plumb("check " + at("twin0") + " " + at("other") + " --twins" + twins);
  }
};

// The last bit of a format that has no other is all of the number.
TEST_F(ForeignClaims, AScaleThatIsAPowerOfTwoHasNoLastBit) {
  for (const char code : {'\x7e', '\x80', '\x93', '\x6b'}) {
    const json says{{"order", 2}};
    const Said said = checked(scales("\x7f", {1}, says), scales({code}, {1}, says));
    EXPECT_EQ(said.code, 3) << said.out;
    EXPECT_EQ(said.out.find("last bit"), said.out.npos) << said.out;
  }
}

TEST_F(ForeignClaims, ScalesOfAnOptimizerAreNotExcusedByTheirLargest) {
  const json says{{"order", 2}, {"phase", "optimizer"}, {"shape", {8, 8}}};
  std::string codes(64, '\x7f'), lower(64, '\x75');
  const Said said = checked(scales(codes, {8, 8}, says), scales(lower, {8, 8}, says));
  EXPECT_EQ(said.code, 3) << said.out;
  EXPECT_EQ(said.out.find("that the optimizer made"), said.out.npos) << said.out;
}

// A share that ends too early leaves few numbers behind, of which the size of all says nothing.
TEST_F(ForeignClaims, WhatAnOptimizerMadeIsAsNearAsItsWorstNumber) {
  const auto updated = [](unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> x(10000, 1);
    for (float& v : x) v += seed == 0 ? 0 : 0.01F * normal(random);
    return x;
  };
  const auto write = [](const std::string& name, unsigned seed, const std::vector<float>& x) {
    const json says{{"order", 2}, {"phase", "optimizer"}, {"shape", {100, 100}}};
    write_trace2(at(name), manifest2(1), {{a(seed), {f32("o", {100, 100}, x), says}}});
  };
  std::string twins = " --twins";
  for (unsigned k = 0; k <= 4; ++k) {
    write("step" + std::to_string(k), k, updated(k));
    if (k > 0) twins += " " + at("step" + std::to_string(k));
  }
  std::vector<float> x = updated(9);
  write("step-whole", 9, x);
  x.back() = 0;
  write("step-short", 9, x);
  const std::string check = "check " + at("step0") + " ";
  EXPECT_EQ(plumb(check + at("step-whole") + twins).code, 0);
  const Said said = plumb(check + at("step-short") + twins);
  EXPECT_EQ(said.code, 3) << said.out;
}

// With what more is said of the step.
json step_with(const json& more) {
  json made_by{
      {"op", "adam"},
      {"inputs", {"w", "m", "v", "g"}},
      {"output", 2},
      {"attributes", {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"step", 1}}}};
  made_by["attributes"].update(more);
  return made_by;
}

// Runs that are alike in every bit but in what is said of y.
void write_step(const std::filesystem::path& run, const json& made_by, std::size_t columns = 2) {
  const std::vector<float> x(columns, 3);
  std::vector<Told> all;
  for (const char* given : {"w", "m", "v", "g"})
    all.push_back({f32(given, {1, columns}, x), {{"role", "given"}}});
  all.push_back({f32("y", {1, columns}, x), {{"order", 1}, {"made_by", made_by}}});
  write_trace2(run, manifest2(1), {all});
}

TEST_F(ForeignClaims, ASettingThatOneRunLeavesOutIsTheOneThatTheOperationHas) {
  write_step(at("silent"), step_with(json::object()));
  write_step(at("default"), step_with({{"weight_decay", 0}}));
  write_step(at("decays"), step_with({{"weight_decay", 0.01}}));
  const auto said = [](const char* reference, const char* candidate) {
    return plumb("check --rule flat " + at(reference) + " " + at(candidate)).out;
  };
  EXPECT_NE(
      said("silent", "decays").find("is made with weight_decay = 0.01, the reference's with 0"),
      std::string::npos)
      << said("silent", "decays");
  EXPECT_NE(
      said("decays", "silent").find("is made with weight_decay = 0, the reference's with 0.01"),
      std::string::npos);
  EXPECT_EQ(said("silent", "default").find("is made with"), std::string::npos);
}

TEST_F(ForeignClaims, ASumOfMorePartsThanRanksIsFound) {
  json made_by = step_with({{"weight_decay", 0.01}});
  write_step(at("whole"), made_by);
  made_by["parts"] = 64;
  write_step(at("parts"), made_by);
  const Said said = plumb("check --rule flat " + at("whole") + " " + at("parts"));
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_NE(said.out.find("has a sum of 64 parts, as its producer says, and there is 1 rank"),
            said.out.npos)
      << said.out;
}

TEST_F(ForeignClaims, ASketchSaysOfWhichTensorsItLosesTheSettings) {
  const std::string lost = "left out: how 1 tensor is made, so that their settings";
  write_step(at("decays"), step_with({{"weight_decay", 0.01}}));
  write_step(at("stays"), step_with({{"weight_decay", 0}}));
  write_step(at("large"), step_with({{"weight_decay", 0}}), 128);
  for (const char* run : {"decays", "stays", "large"}) {
    const Said said = plumb("sketch " + at(run) + " -o " + at(run) + "-sketch");
    EXPECT_EQ(said.out.find(lost) != std::string::npos, run == std::string("large")) << said.out;
  }
  const Said said = plumb("check --rule flat " + at("stays-sketch") + " " + at("decays-sketch"));
  EXPECT_NE(said.out.find("is made with weight_decay = 0.01, the reference's with 0"),
            std::string::npos)
      << said.out;
}

TEST_F(ForeignClaims, ASketchIsNotCutNorNamedOtherwise) {
  Told other = a(0);
  other.says["shape"] = {4, 4, 32};
  other.tensor.shape = {4, 4, 32};
  write_trace2(at("flat"), manifest2(1), {{a(0)}});
  write_trace2(at("deep"), manifest2(1), {{other}});
  for (const char* run : {"flat", "deep"})
    ASSERT_EQ(plumb("sketch " + at(run) + " -o " + at(run) + "-sketch --shards 1").code, 0);
  const std::string check = "check --rule flat " + at("flat-sketch") + " " + at("deep-sketch");
  refused(check, "other dimensions cut them; compare the traces themselves");
  write_bytes(at("names.json"),
              R"({"schema": "plumb-overrides/1", "tensors": [{"match": "^a$", "id": "b"}]})");
  refused(check + " --placement " + at("names.json"),
          "gives '^a$' another id, and a sketch is drawn by the id that it was made under");
}

// They are of the candidate, and have its names.
TEST_F(ForeignClaims, TwinsOfTheCandidateAreRenamedAsItIs) {
  json manifest = manifest2(1);
  std::string twins;
  for (unsigned k = 0; k <= 4; ++k) {
    const std::string name = at("renamed" + std::to_string(k));
    Told mine = a(k + 10);
    mine.tensor.name = "mine.a";
    if (k > 0) manifest["may_differ"] = {{"twin of", "the candidate"}};
    write_trace2(name, manifest, {{mine}});
    if (k > 0) twins += " " + name;
  }
  write_trace2(at("plain"), manifest2(1), {{a(0)}});
  write_bytes(
      at("mine.json"),
      R"({"schema": "plumb-overrides/1", "tensors": [{"match": "^mine[.](.)$", "id": "\\1"}]})");
  const Said said = plumb("check " + at("plain") + " " + at("renamed0") + " --placement " +
                          at("mine.json") + " --twins" + twins);
  EXPECT_EQ(said.code, 0) << said.out;
}

// A rank may hold more than it says where it lies.
TEST_F(ForeignClaims, NumbersThatLieNowhereAreCounted) {
  const auto of_rank = [](std::size_t rank, std::size_t rows) {
    const json block{{"global", {3 * rank, 0}}, {"local", {0, 0}}, {"size", {3, 2}}};
    const std::vector<float> numbers(2 * rows, 1);
    return Told{f32("x", {rows, 2}, numbers),
                {{"shape", {6, 2}}, {"offsets", json::array({block})}}};
  };
  write_trace2(at("bare"), manifest2(1),
               {{{f32("x", {6, 2}, std::vector<float>(12, 1))}, {f32("z", {4}, {1, 1, 1, 1})}}});
  write_trace2(at("all"), manifest2(2), {{of_rank(0, 3)}, {of_rank(1, 3)}});
  // What lies twice makes up for nothing.
  const auto half = [](std::size_t first) {
    return json{{"global", {first}}, {"local", {0}}, {"size", {2}}};
  };
  const Told twice{f32("z", {2}, {1, 1}),
                   {{"shape", {4}}, {"offsets", json::array({half(0), half(2)})}}};
  write_trace2(at("more"), manifest2(2), {{of_rank(0, 5), twice}, {of_rank(1, 3)}});
  const std::string check = "check --rule flat " + at("bare") + " ";
  EXPECT_NE(plumb(check + at("more"))
                .out.find("note: 4 numbers of the candidate's files are not looked at"),
            std::string::npos);
  EXPECT_EQ(plumb(check + at("all")).out.find("not looked at"), std::string::npos);
}

// Replicas that disagree make no reference, but where nobody looks at them.
TEST_F(ForeignClaims, WhatIsBrokenInTheReferenceMayBeSkipped) {
  const auto b = [](float x) {
    return Told{f32("b", {2}, {1, x}), {{"order", 2}, {"shape", {2}}}};
  };
  write_trace2(at("broken"), manifest2(2), {{a(0), b(2)}, {a(0), b(3)}});
  write_trace2(at("healthy"), manifest2(1), {{a(9), b(2)}});
  const std::string check = "check --rule flat " + at("broken") + " " + at("healthy");
  refused(check, "'b' is not whole: replicas disagree");
  refused(check + " --skip '^a$'", "'b' is not whole: replicas disagree");
  const Said said = plumb(check + " --skip '^b$'");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_NE(said.out.find("; not looked at: 1\n"), said.out.npos) << said.out;
}

}  // namespace
}  // namespace plumb::foreign_claims_test

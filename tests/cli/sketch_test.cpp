// Are sketched runs judged by sketched twins, and is each option that cannot be meant refused?
#include <random>

#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace plumb::sketch_test {
namespace {

class SketchVerb : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-sketch-");
    write("ref", 0, 9);
    write("good", 1e-3F, 9, 2);
    write("bad", 1e-3F, 9, 2, 1.01F);
    for (unsigned k = 1; k <= 4; ++k) write("twin" + std::to_string(k), 1e-3F, k);
  }

  // 64 x 32 and noise; on two ranks columns are dealt, and rows of another tensor there and back.
  static void write(const std::string& name, float noise, unsigned seed, std::size_t ranks = 1,
                    float scale = 1) {
    std::mt19937 of_x(3), random(seed);
    std::normal_distribution<float> of_values, of_noise;
    std::vector<float> x(64 * 32);
    for (float& v : x) v = scale * of_values(of_x) + noise * of_noise(random);
    std::vector<std::vector<Told>> all;
    for (std::size_t r = 0; r < ranks; ++r) {
      std::vector<float> columns, there_and_back;
      for (std::size_t i = 0; i < 64; ++i) {
        const bool mine = ranks == 1 || (i < 16 || i >= 48) == (r == 0);
        for (std::size_t j = 0; j < 32; ++j) {
          if (j * ranks / 32 == r) columns.push_back(x[i * 32 + j]);
          if (mine) there_and_back.push_back(x[i * 32 + j]);
        }
      }
      const auto dealt = [](int dim, bool zigzag) {
        nlohmann::json p = {{"axis", "rank"}, {"kind", "shard"}, {"dim", dim}};
        if (zigzag) p["zigzag"] = true;
        return nlohmann::json::array({p});
      };
      all.push_back({{f32("a", {64, 32 / ranks}, columns),
                      {{"order", 1}, {"shape", {64, 32}}, {"placements", dealt(1, false)}}},
                     {f32("b", {64 / ranks, 32}, there_and_back),
                      {{"order", 2}, {"shape", {64, 32}}, {"placements", dealt(0, true)}}}});
    }
    write_trace2(at(name), manifest2(ranks), all);
  }

  static Said sketch(const std::string& name, const std::string& to, const std::string& more) {
    return plumb("sketch " + at(name) + " -o " + at(to) + " --shards 4 " + more);
  }
};

TEST_F(SketchVerb, IsJudgedByTwinsThatAreSketchedAlike) {
  std::string twins = " --twins";
  for (const char* name : {"ref", "good", "bad", "twin1", "twin2", "twin3", "twin4"}) {
    const Said said = sketch(name, std::string("small/") + name, "--tile 8x4");
    ASSERT_EQ(said.code, 0) << said.out;
    EXPECT_NE(said.out.find("2 tensors in "), said.out.npos) << said.out;
    EXPECT_NE(said.out.find(": 0.000512 MB of 0.0164"), said.out.npos) << said.out;
    if (name[0] == 't') twins += " " + at(std::string("small/") + name);
  }
  const std::string check = "check " + at("small/ref") + " ";
  const Said good = plumb(check + at("small/good") + twins),
             bad = plumb(check + at("small/bad") + twins);
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_NE(good.out.find("note: judged are sketches (tiles of 8 x 4 in 4 parts, seed 1), and not"),
            good.out.npos);
  EXPECT_EQ(bad.code, 1) << bad.out;
  EXPECT_NE(bad.out.find("blamed: a\n"), bad.out.npos) << bad.out;
  ASSERT_EQ(sketch("good", "small/other", "--tile 8x4 --seed 2").code, 0);
  refused(check + at("small/other") + twins, "sketch");
}

TEST_F(SketchVerb, SaysWhatItCannotDo) {
  const std::string to = " -o " + at("none");
  refused("sketch " + at("ref") + to + " --tile 3x4", "--tile is ROWSxCOLUMNS, powers of two");
  refused("sketch " + at("ref") + to + " --tile 4x4x4", "--tile is ROWSxCOLUMNS, powers of two");
  refused("sketch " + at("good") + to + " --shards 1 --tile 64x32", "--tile 64x16");
  refused("sketch " + at("nowhere") + to, "is not a folder");
  ASSERT_EQ(sketch("good", "once", "").code, 0);
  refused("sketch " + at("once") + to, "this is a sketch already");
}

// What is claimed to be larger than a machine holds, of 256 numbers.
TEST_F(SketchVerb, SaysWhatIsNotWholeAndKeepsItAsItIs) {
  const std::vector<float> x(16 * 16, 1.5F);
  const nlohmann::json block{{"global", {0, 0}}, {"local", {0, 0}}, {"size", {16, 16}}};
  write_trace2(at("holes"), manifest2(1),
               {{{f32("a", {16, 16}, x),
                  {{"shape", {1 << 27, 16}}, {"offsets", nlohmann::json::array({block})}}},
                 {f32("b", {16, 16}, x)}}});
  const Said said = sketch("holes", "of_holes", "");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_NE(said.out.find("note: the trace is not whole, nor is its sketch: a "), said.out.npos)
      << said.out;
}

TEST_F(SketchVerb, ATraceWithoutAnyTensorIsNoTrace) {
  write_trace2(at("empty"), manifest2(1), {std::vector<Told>()});
  refused("inspect " + at("empty"), "has no tensor; trace again");
}

}  // namespace
}  // namespace plumb::sketch_test

// Are operations that the producer of a trace names replayed from the command line, and is a name that
// cannot be meant refused?
#include <cmath>
#include <optional>
#include <random>

#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace plumb::foreign_replay_test {
namespace {

using nlohmann::json;

// y = x w^T, of 4 x 16 and 8 x 16: on one rank, or on two that have half of the terms each.
class ForeignReplay : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-foreign-replay-"); }
  ForeignReplay() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (float& v : x_) v = normal(random);
    for (float& v : w_) v = normal(random);
  }

  static json gemm() {
    return {{"op", "gemm"},
            {"inputs", {"x", "w"}},
            {"attributes", {{"transpose_a", 0}, {"transpose_b", 1}}}};
  }
  float product(std::size_t i, std::size_t j, std::size_t first, std::size_t last) const {
    float sum = 0;
    for (std::size_t k = first; k < last; ++k) sum += x_[i * 16 + k] * w_[j * 16 + k];
    return sum;
  }
  // Twice y, but for a factor, and roundings of that twin.
  struct Behind {
    float factor = 1;
    std::size_t twin = 0;
    Told of(const std::vector<float>& y) const {
      std::vector<float> z;
      for (const float v : y) {
        const auto draw = static_cast<float>((z.size() * 7 + twin * 3) % 5) - 2;
        z.push_back(2 * v * factor * (1 + (twin == 0 ? 0 : draw * 0x1p-23F)));
      }
      const json all = {{"axis", "rank"}, {"kind", "replicate"}};
      return {f32("z", {4, 8}, z), {{"order", 2}, {"shape", {4, 8}}, {"placements", {all}}}};
    }
  };
  // `wrong` is what the element (1, 2) is off by, of 1.
  void write(const std::string& name, std::size_t ranks, json made_by, float wrong = 0,
             const std::optional<Behind>& behind = {}) const {
    if (ranks > 1 && made_by.is_object()) made_by["parts"] = ranks;
    std::vector<float> y;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 8; ++j) {
        float sum = product(i, j, 0, 16 / ranks);
        if (ranks > 1) sum += product(i, j, 16 / ranks, 16);
        y.push_back(i == 1 && j == 2 ? sum * (1 + wrong) : sum);
      }
    }
    const json columns = {{"axis", "rank"}, {"kind", "shard"}, {"dim", 1}};
    const json all = {{"axis", "rank"}, {"kind", "replicate"}};
    json of_y = {{"shape", {4, 8}}, {"placements", {all}}};
    if (ordered_) of_y["order"] = 1;
    if (!format_.empty()) of_y["format"] = format_;
    if (!made_by.is_null()) of_y["made_by"] = made_by;
    std::vector<std::vector<Told>> files;
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto mine = [&](const std::vector<float>& a) {
        std::vector<float> out;
        for (std::size_t e = 0; e < a.size(); ++e) {
          if (e % 16 / (16 / ranks) == r) out.push_back(a[e]);
        }
        return out;
      };
      files.push_back({{f32("x", {4, 16 / ranks}, mine(x_)),
                        {{"role", "given"}, {"shape", {4, 16}}, {"placements", {columns}}}},
                       {f32("w", {8, 16 / ranks}, mine(w_)),
                        {{"role", "given"}, {"shape", {8, 16}}, {"placements", {columns}}}},
                       {f32("y", {4, 8}, y), of_y}});
      if (behind) files.back().push_back(behind->of(y));
    }
    write_trace2(at(name), manifest2(ranks), files);
  }

  bool ordered_ = true;  // does y say when it was made?
  std::string format_;   // that it is said to be in, or empty
  std::vector<float> x_ = std::vector<float>(64), w_ = std::vector<float>(128);
};

TEST_F(ForeignReplay, FindsAProductThatIsWrongAndNeedsNeitherTwinsNorAReference) {
  write("one", 1, gemm());
  write("good", 2, gemm());
  write("bad", 2, gemm(), 1e-3F);
  const Said good = plumb("check " + at("one") + " " + at("good") + " --rule replay");
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_NE(
      good.out.find("note: replay judges 1 of 1 tensor, as producers say how these were made, "
                    "by the bounds of the machine libraries"),
      good.out.npos)
      << good.out;
  const Said bad = plumb("check " + at("one") + " " + at("bad") + " --rule replay");
  EXPECT_EQ(bad.code, 1) << bad.out;
  EXPECT_NE(bad.out.find("blamed: y\nby: replay\n"), bad.out.npos) << bad.out;
  EXPECT_EQ(plumb("replay " + at("good")).code, 0);
  const Said alone = plumb("replay " + at("bad"));
  EXPECT_EQ(alone.code, 1) << alone.out;
  EXPECT_NE(alone.out.find("y replay ratio"), alone.out.npos) << alone.out;
  EXPECT_NE(alone.out.find("blamed: y\n"), alone.out.npos) << alone.out;
  ordered_ = false;
  write("whenever", 2, gemm(), 1e-3F);
  const Said whenever = plumb("replay " + at("whenever"));
  EXPECT_EQ(whenever.code, 1) << whenever.out;
  EXPECT_EQ(whenever.out.find("blamed"), whenever.out.npos) << whenever.out;
}

// Of y, which no twin moves, replay says that it is right. Of z nobody says anything: that it may follow from a
// rounding of y makes no pass of it.
TEST_F(ForeignReplay, AcquitsNothingBehindWhatItAcquits) {
  write("one", 1, gemm(), 0, Behind{});
  std::string twins = " --twins";
  for (std::size_t k = 1; k <= 4; ++k) {
    write("twin" + std::to_string(k), 1, gemm(), 0, Behind{1, k});
    twins += " " + at("twin" + std::to_string(k));
  }
  for (const float factor : {1.0F, 2.0F}) {
    write("two", 2, gemm(), 0, Behind{factor});
    const Said said = plumb("check " + at("one") + " " + at("two") + twins);
    EXPECT_EQ(said.code, 3) << said.out;
    EXPECT_NE(said.out.find("not judged: z: by "), said.out.npos) << said.out;
    EXPECT_NE(said.out.find("replay acquits that one, or it is not looked at"), said.out.npos)
        << said.out;
    EXPECT_EQ(said.out.find("may follow from these"), said.out.npos) << said.out;
  }
}

// The bound of a coarse format that its numbers do not have would allow anything.
TEST_F(ForeignReplay, DoesNotBelieveAFormatThatNumbersDoNotHave) {
  format_ = "e5m2";
  write("coarse", 2, gemm(), 1e-2F);
  const Said alone = plumb("replay " + at("coarse"));
  EXPECT_EQ(alone.code, 3) << alone.out;
  EXPECT_NE(alone.out.find("y: is said to be in e5m2, and holds "), alone.out.npos) << alone.out;
}

TEST_F(ForeignReplay, SaysWhatNobodySaysHowItWasMade) {
  write("one", 1, gemm());
  write("silent", 2, nullptr);
  const Said said = plumb("check " + at("one") + " " + at("silent") + " --rule replay");
  EXPECT_EQ(said.code, 3) << said.out;
  EXPECT_NE(said.out.find("not judged: y: the candidate's producer does not say"), said.out.npos)
      << said.out;
  refused("replay " + at("silent"), "no tensor says how it was made (made_by)");
  refused("check " + at("silent") + " " + at("one") + " --rule replay", "has no promise");
  refused("check " + at("one") + " " + at("silent"), "choose the rule replay, flat");
}

TEST_F(ForeignReplay, RefusesWhatNoOperationIs) {
  const auto says = [&](const std::function<void(json&)>& damage, const std::string& what) {
    json made_by = gemm();
    damage(made_by);
    write("odd", 1, made_by);
    refused("inspect " + at("odd"), what);
  };
  says([](json& m) { m["op"] = "gem"; }, "that 'gem' makes it, which is no operation");
  says([](json& m) { m["inputs"] = {"x"}; }, "gemm");
  says([](json& m) { m["inputs"] = json::array(); }, "made_by.inputs");
  says([](json& m) { m["output"] = 1; }, "output 1 of gemm, counted from 0, which has 1");
  says([](json& m) { m["attributes"]["transpos_b"] = 1; }, "transpos_b");
  says([](json& m) { m["parts"] = 0; }, "made_by.parts is 0; expected");
  says([](json& m) { m["wire"] = "fp12"; }, "made_by.wire is 'fp12'; expected a format");
  says([](json& m) { m.erase("op"); }, "made_by");
}

}  // namespace
}  // namespace plumb::foreign_replay_test

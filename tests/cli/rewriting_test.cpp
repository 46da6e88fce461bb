// Do traces of rewritten runs say which module is wrong, and are they held against their own kind
// only?
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::rewriting_test {
namespace {

class RewrittenTraces : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-rewriting-");
    const std::string train = "train" + small_sizes, bug = "--bug sp-norm-grad-not-reduced ";
    for (const std::string rewrite : {"", "--rewrite "}) {
      const std::string prefix = rewrite.empty() ? "" : "r_";
      const auto made = [&](const std::string& options, const std::string& name) {
        const Said said = plumb(train + rewrite + options + "-o " + at(prefix + name));
        EXPECT_EQ(said.code, 0) << said.out;
      };
      made("", "ref");
      made("--layout tp2,sp ", "good");
      made("--layout tp2,sp " + bug, "bad");
    }
  }
  static std::string pair(const std::string& a, const std::string& b) {
    return " " + at(a) + " " + at(b);
  }
  static bool says(const Said& said, const std::string& what) {
    return said.out.find(what) != said.out.npos;
  }
};

TEST_F(RewrittenTraces, AreCheckedLikeAnyOther) {
  EXPECT_EQ(plumb("check" + pair("r_ref", "r_good")).code, 0);
  const Said bad = plumb("check" + pair("r_ref", "r_bad"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(says(bad, "blamed: m0/final_norm.weight/wgrad\n")) << bad.out;
  EXPECT_TRUE(says(bad, "these runs are rewritten (generated)")) << bad.out;
  EXPECT_EQ(plumb("replay " + at("r_good")).code, 0);
}

TEST_F(RewrittenTraces, SayBesideBlameWhichModulesAreWrong) {
  const std::string localize = "localize" + pair("ref", "bad") + " --rewritten";
  const Said bad = plumb(localize + pair("r_ref", "r_bad"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(says(bad, "by rewriting: final_norm, layers.1.norm2, layers.1.norm1, ")) << bad.out;
  EXPECT_TRUE(says(bad, "first there: m0/final_norm.weight/wgrad: ")) << bad.out;
  const auto line = nlohmann::json::parse(
      plumb(localize + pair("r_ref", "r_bad") + " --json 2>/dev/null").out, nullptr, false);
  ASSERT_TRUE(line.is_object());
  EXPECT_EQ(line["rewritten"]["modules"].front(), "final_norm");
  EXPECT_EQ(line["rewritten"]["first"], "m0/final_norm.weight/wgrad");
  const std::string healthy = "localize" + pair("ref", "good") + " --rewritten";
  const Said good = plumb(healthy + pair("r_ref", "r_good"));
  EXPECT_EQ(good.code, 0);
  EXPECT_TRUE(says(good, "by rewriting: no module is wrong by itself: verdict: PASS")) << good.out;
  EXPECT_EQ(plumb(healthy + pair("r_ref", "r_bad")).code, 1);  // a finding in either
}

TEST_F(RewrittenTraces, AreOfOneRunAndOneKind) {
  refused("check" + pair("ref", "r_good"), "not the same rewrite (reference none, candidate");
  refused("localize" + pair("ref", "bad") + " --rewritten" + pair("ref", "bad"),
          "is no rewritten run; make it with plumb train --rewrite");
  const std::string other = "train" + small_sizes + "--seed 2 --rewrite ";
  ASSERT_EQ(plumb(other + "-o " + at("o_ref")).code, 0);
  ASSERT_EQ(plumb(other + "--layout tp2,sp -o " + at("o_good")).code, 0);
  refused("localize" + pair("ref", "bad") + " --rewritten" + pair("o_ref", "o_good"),
          "not the same seed (reference 1, rewritten run 2)");
  ASSERT_EQ(plumb("train" + small_sizes + "--rewrite=reference -o " + at("own")).code, 0);
  refused("check" + pair("own", "r_good"), "reference reference, candidate generated");
}

TEST_F(RewrittenTraces, StartNoTraining) {
  refused("train" + small_sizes + "--load " + at("r_ref") + " -o " + at("x"),
          "no step goes on from it");
  refused("train" + small_sizes + "--rewrite --steps 2 --every-step -o " + at("x"), "excludes");
  refused("train" + small_sizes + "--rewrite=zeros -o " + at("x"), "say generated or reference");
  EXPECT_EQ(plumb("train" + small_sizes + "--rewrite --steps 3 -o " + at("third")).code, 0);
}

TEST_F(RewrittenTraces, AreOfOneStepAndWithoutAPerturbedOne) {
  ASSERT_EQ(plumb("train" + small_sizes + "--steps 2 --every-step -o " + at("run")).code, 0);
  refused("localize" + pair("run", "run") + " --rewritten" + pair("r_ref", "r_good"),
          "--rewritten is of one step");
  ASSERT_EQ(plumb("train" + small_sizes + "--perturb 1 -o " + at("moved")).code, 0);
  refused("localize" + pair("ref", "good") + " --rewritten" + pair("r_ref", "r_good") +
              " --rule perturbation --perturbed " + at("moved"),
          "--perturbed is of runs that are not rewritten");
}

// Nobody takes in what no rank has made.
TEST_F(RewrittenTraces, LackALayerThatNoStageHas) {
  const std::string train =
      "train --layers 4 --width 32 --heads 4 --hidden 64 --sequence 16 --rewrite -o ";
  ASSERT_EQ(plumb(train + at("four")).code, 0);
  const std::string bug = " --layout pp2:1+3 --bug pp-uneven-layer-offset";
  ASSERT_EQ(plumb(train + at("lacks_one") + bug).code, 0);
  EXPECT_EQ(plumb("check" + pair("four", "lacks_one")).code, 1);
}

TEST_F(RewrittenTraces, AreMadeByCatch) {
  const std::string embedding = "catch embedding-mask-on-shifted-ids --rewrite" + small_sizes;
  const Said said = plumb(embedding);
  EXPECT_EQ(said.code, 1);
  EXPECT_TRUE(says(said,
                   "by rewriting (generated): embedding\nfirst there: m0/embedding/out (the "
                   "right module); healthy run: 0 findings\n"))
      << said.out;
  const Said json = plumb(embedding + "--json 2>/dev/null");
  const auto line = nlohmann::json::parse(json.out.substr(0, json.out.find('\n')), nullptr, false);
  EXPECT_EQ(line["rewritten"]["module_right"], true);
  const Said healthy = plumb(embedding + "--healthy");
  EXPECT_EQ(healthy.code, 0);
  EXPECT_TRUE(says(healthy, "these runs are rewritten (generated)")) << healthy.out;
}

}  // namespace
}  // namespace plumb::rewriting_test

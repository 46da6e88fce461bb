// Do the verbs leave the exit codes they promise, and does bad input get one sentence?
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/support/rooms.hpp"
#include "trace/store/store.hpp"

namespace plumb::verbs_test {
namespace {

namespace fs = std::filesystem;

class Cli : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-cli-");
    const std::string train = "train" + small_sizes;
    EXPECT_EQ(plumb(train + "-o " + at("ref")).code, 0);
    EXPECT_EQ(plumb(train + "--layout dp2,tp2 -o " + at("healthy")).code, 0);
    EXPECT_EQ(
        plumb(train + "--layout dp2,tp2 --bug embedding-mask-on-shifted-ids -o " + at("buggy"))
            .code,
        0);
  }
  // The healthy trace after `damage`.
  static std::string damaged(const std::string& name, const std::function<void(Trace&)>& damage) {
    Trace trace = read_trace(at("healthy"));
    damage(trace);
    fs::remove_all(at(name));
    write_trace(trace, at(name));
    return at(name);
  }
};

TEST_F(Cli, CheckAcquitsTheHealthyAndBlamesTheBuggyRun) {
  EXPECT_EQ(plumb("check " + at("ref") + " " + at("healthy")).code, 0);
  const Said buggy = plumb("check " + at("ref") + " " + at("buggy"));
  EXPECT_EQ(buggy.code, 1);
  EXPECT_NE(buggy.out.find("blamed: m0/embedding/out\n"), std::string::npos) << buggy.out;
  EXPECT_NE(
      plumb("localize " + at("ref") + " " + at("buggy")).out.find("blamed: m0/embedding/out\n"),
      std::string::npos);
  EXPECT_EQ(plumb("replay " + at("healthy")).code, 0);
  EXPECT_EQ(plumb("replay " + at("buggy")).code, 1);
}

TEST_F(Cli, CheckBlamesALayerThatNoStageHasAndReplayRefusesIt) {
  const std::string sizes = " --layers 4 --width 32 --heads 4 --hidden 64 --sequence 16 ";
  const std::string train = "train" + sizes;
  ASSERT_EQ(plumb(train + "-o " + at("four")).code, 0);
  ASSERT_EQ(
      plumb(train + "--layout pp2:1+3 --bug pp-uneven-layer-offset -o " + at("lacks_one")).code, 0);
  const Said said = plumb("check " + at("four") + " " + at("lacks_one"));
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.out.find("blamed: layers.1.norm1.weight/param@previous\n"), std::string::npos);
  const std::string allowing = " --allow-unmatched '^(m[0-9]/)?layers\\.1\\.' --rule flat";
  const Said others = plumb("check " + at("four") + " " + at("lacks_one") + allowing);
  EXPECT_NE(others.out.find("blamed: m0/layers.2.norm1/out\n"), std::string::npos) << others.out;
  refused("replay " + at("lacks_one"), "no rank has any of it");
  refused("check " + at("lacks_one") + " " + at("four"), "the reference cannot be trusted");
  refused("catch pp-uneven-layer-offset " + sizes + "--layout pp2", "stages of unequal length");
}

TEST_F(Cli, CatchSaysTheSameAndAHealthyJointIsSilent) {
  const std::string same = small_sizes + "--layout dp2,tp2";
  const Said caught = plumb("catch embedding-mask-on-shifted-ids " + same);
  EXPECT_EQ(caught.code, 1);
  EXPECT_NE(caught.out.find("blamed: m0/embedding/out\n"), std::string::npos) << caught.out;
  EXPECT_EQ(plumb("catch embedding-mask-on-shifted-ids --healthy " + same).code, 0);
}

TEST_F(Cli, EveryStepOfARunIsJudgedFromTheReferencesState) {
  EXPECT_EQ(plumb("train" + small_sizes + "--steps 2 --every-step -o " + at("run")).code, 0);
  EXPECT_EQ(plumb("train --layout tp2 --resync " + at("run") + " -o " + at("same")).code, 0);
  EXPECT_EQ(plumb("train --layout tp2 --resync " + at("run") + " --bug zero-grad-missing -o " +
                  at("late"))
                .code,
            0);
  EXPECT_EQ(plumb("check " + at("run") + " " + at("same")).code, 0);
  // The level is shared: each of two steps is judged at half of it.
  const Said both = plumb("check --json --false-alarm 0.01 " + at("run") + " " + at("same"));
  const Said alone = plumb("check --json --false-alarm 0.005 " + at("run/step_000002") + " " +
                           at("same/step_000002"));
  EXPECT_TRUE(both.out.ends_with(
      "{\"type\": \"step\", \"schema\": \"plumb-report/1\", \"step\": 2}\n" + alone.out))
      << both.out;
  const Said said = plumb("check " + at("run") + " " + at("late"));
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_NE(said.out.find("step 1: verdict: PASS"), said.out.npos) << said.out;
  EXPECT_NE(said.out.find("step 2: verdict: FAIL"), said.out.npos) << said.out;
  const Said blame = plumb("localize " + at("run") + " " + at("late"));
  EXPECT_TRUE(blame.out.starts_with("step: 2\nblamed: embedding.lookup/main_grad\n")) << blame.out;
  // One step with a finding is a run with a finding, also if later ones have none.
  EXPECT_EQ(plumb("train --layout tp2 --resync " + at("run") +
                  " --bug embedding-mask-on-shifted-ids -o " + at("early"))
                .code,
            0);
  fs::remove_all(at("early/step_000002"));
  fs::copy(at("same/step_000002"), at("early/step_000002"), fs::copy_options::recursive);
  EXPECT_EQ(plumb("check " + at("run") + " " + at("early")).code, 1);
  EXPECT_EQ(plumb("localize " + at("run") + " " + at("early")).code, 1);
  refused("check " + at("run") + " " + at("run/step_000001"), "name one");
  refused("replay " + at("run"), "name one");
  refused("train --layout tp2 --resync " + at("run/step_000001") + " -o " + at("x"),
          "no traces of steps");
  refused("train --layout tp2 --seed 2 --resync " + at("run") + " -o " + at("x"), "excludes");
}

// Places within documents are indices: of what was never written, or beyond all tokens.
TEST_F(Cli, RefusesPlacesOutsideDocuments) {
  EXPECT_EQ(plumb("train" + small_sizes + "--documents 3 -o " + at("packed")).code, 0);
  for (const float wrong : {1e9F, -1.0F, 0.5F, 15.0F}) {
    Trace trace = read_trace(at("packed"));
    trace.ranks[0].shards.at("m0/data/positions").values.values[3] = wrong;
    fs::remove_all(at("lies"));
    write_trace(trace, at("lies"));
    refused("replay " + at("lies"), "trace again");
  }
}

// Killed writers leave a run that looks shorter; on both sides alike, nothing else would tell.
TEST_F(Cli, ARunThatLacksAStepIsRefused) {
  EXPECT_EQ(plumb("train" + small_sizes + "--steps 3 --every-step -o " + at("three")).code, 0);
  EXPECT_EQ(plumb("train --layout tp2 --resync " + at("three") + " -o " + at("alike")).code, 0);
  for (const std::string step : {"3", "2", "1"}) {  // the last, one between, the first
    const std::string folder = "/step_00000" + step;
    fs::create_directory(at("away"));
    for (const std::string run : {"three", "alike"})
      fs::rename(at(run + folder), at("away/" + run));
    refused("check " + at("three") + " " + at("alike"),
            "lacks step " + step + " of its steps 1 to 3");
    for (const std::string run : {"three", "alike"})
      fs::rename(at("away/" + run), at(run + folder));
  }
}

TEST_F(Cli, SaysWhatALayoutClaimsAndNoTraceCanShow) {
  EXPECT_EQ(plumb("train" + small_sizes + "-o " + at("plain")).code, 0);
  for (const std::string claim : {"offload", "offload:optimizer", "overlap:7"}) {
    EXPECT_EQ(plumb("train" + small_sizes + "--layout dp2," + claim + " -o " + at(claim)).code, 0);
    const Said said = plumb("check " + at("plain") + " " + at(claim));
    EXPECT_EQ(said.code, 0);
    EXPECT_NE(said.out.find("note: " + claim.substr(0, 7)), std::string::npos) << said.out;
    EXPECT_NE(said.out.find("that is not judged"), std::string::npos);
  }
  EXPECT_EQ(plumb("train" + small_sizes + "--layout dp2 -o " + at("no-claim")).code, 0);
  EXPECT_EQ(plumb("check " + at("plain") + " " + at("no-claim")).out.find("that is not judged"),
            std::string::npos);
}

TEST_F(Cli, ARunThatWentOnByItselfIsNotHeldAgainstAnothersSteps) {
  EXPECT_EQ(plumb("train" + small_sizes + "--steps 2 --every-step -o " + at("one")).code, 0);
  EXPECT_EQ(
      plumb("train" + small_sizes + "--steps 2 --every-step --layout tp2 -o " + at("own")).code, 0);
  refused("check " + at("one") + " " + at("own"), "--resync");
  refused("train --layout tp2 --steps 2 --bug zero-grad-missing -o " + at("x"), "second step");
  refused("train --sequence 2 --mtp -o " + at("x"), "longer ones");
}

TEST_F(Cli, ATraceOfZerosIsNoReference) {
  damaged("zeros", [](Trace& trace) {
    for (RankRecord& rank : trace.ranks) {
      for (auto& [id, shard] : rank.shards) {
        if (id.find("data/") != std::string::npos || id.find("@previous") != std::string::npos)
          continue;
        std::fill(shard.values.values.begin(), shard.values.values.end(), 0.0F);
      }
    }
  });
  refused("check " + at("zeros") + " " + at("zeros"), "is not what its inputs make");
}

TEST_F(Cli, ARunComparedWithItselfIsInconclusive) {
  for (const std::string trace : {"ref", "healthy"}) {
    const Said said = plumb("check " + at(trace) + " " + at(trace));
    EXPECT_EQ(said.code, 3);
    EXPECT_NE(said.out.find("a run was compared with itself"), std::string::npos) << said.out;
  }
}

TEST_F(Cli, ASwappedCheckSaysSo) {
  const Said said = plumb("check " + at("healthy") + " " + at("ref"));
  EXPECT_NE(said.out.find("are they swapped?"), std::string::npos) << said.out;
}

TEST_F(Cli, RefusesToCompareRunsOfOtherSettingsUnderEveryRule) {
  const std::string train = "train" + small_sizes;
  EXPECT_EQ(plumb(train + "--weight-decay 0.1 --layout tp2 -o " + at("decays")).code, 0);
  EXPECT_EQ(plumb(train + "--recipe fp32 --layout tp2 -o " + at("fp32")).code, 0);
  for (const std::string rule : {"replay", "twins", "flat"}) {
    const std::string check = "check --rule " + rule + " " + at("ref") + " ";
    refused(check + at("decays"), "not the same weight_decay (reference none, ");
    refused(check + at("fp32"), "not the same recipe (reference bf16, candidate fp32)");
  }
}

TEST_F(Cli, RefusesWithOneSentence) {
  refused("bound gemm", "bound needs an operation and its shape");
  refused("bound --all gemm 4x4x4", "leave OP, SHAPE and --mode out");

  refused("check " + at("ref") + " " + at("nothing"), "is not a folder");
  refused("check " + at("ref") + " " + at("healthy") + " --only nothing", "leave no tensor");
  refused("check " + at("ref") + " " + at("healthy") + " --only '('", "not a regular expression");
  refused("check " + at("ref") + " " + at("healthy") + " --rule luck", "unknown rule");
  refused("catch nothing", "unknown bug");
  refused("catch one-masked-entry --layout dp2", "needs at least the layout");
  refused("catch bias-before-row-parallel-reduce --family llama", "needs the family");
  refused("bound gemm 12 ", "does not fit");
  refused("bound gemm 4x4x4 --machine abacus", "known: a100");
  refused("bound tan 4x4 --machine h100", "unknown operation 'tan'");
  refused("bound gemm 4x4x4 --machine v100", "no matrix unit for bf16");
  refused("experiment nothing", "unknown experiment");
}

TEST_F(Cli, RefusesDamagedAndLyingTraces) {
  const auto copied = [&](const std::string& name) {
    fs::remove_all(at(name));
    fs::copy(at("healthy"), at(name), fs::copy_options::recursive);
    return fs::path(at(name));
  };
  const std::string before = "check " + at("ref") + " ";
  fs::path bad = copied("cut");
  fs::resize_file(bad / "step_000001" / "rank_00001.safetensors", 5000);
  refused(before + bad.string(), "the trace is damaged");
  bad = copied("unfinished");
  fs::remove(bad / "manifest.json");
  refused(before + bad.string(), "incomplete");
  bad = copied("nonsense");
  std::ofstream(bad / "manifest.json") << "{\"schema\": 7}";
  refused(before + bad.string(), "trace again");
  // A promise with more parts than the layout makes: a tolerance written by the accused.
  damaged("alibi", [](Trace& trace) { trace.graph->nodes[5].how.parts = 2; });
  refused(before + at("alibi"), "is not what the manifest's settings make");
  damaged("three", [](Trace& trace) {
    trace.manifest.world_size = 3;
    trace.ranks.pop_back();
  });
  refused(before + at("three"), "the layout dp2,tp2 makes 4 ranks, the manifest says 3");
}

// What merge finds is a finding of replay too; what is missing is trouble, as for check.
TEST_F(Cli, ReplayReportsWhatIsWrongWithATrace) {
  const std::string id = "m0/layers.1.attn.proj/out";
  const Said nan = plumb("replay " + damaged("nan", [](Trace& trace) {
                           for (RankRecord& rank : trace.ranks) {
                             rank.shards.at("data/count").values.values[0] = std::nanf("");
                           }
                         }));
  EXPECT_EQ(nan.code, 1);
  EXPECT_NE(nan.out.find("blamed: data/count\n"), std::string::npos) << nan.out;
  const Said parts = plumb("replay " + damaged("parts", [&](Trace& trace) {
                             for (RankRecord& rank : trace.ranks) {
                               if (rank.shards.contains(id))
                                 rank.shards.at(id).placement.parts = 99;
                             }
                           }));
  EXPECT_EQ(parts.code, 1);
  EXPECT_NE(parts.out.find(" of 99 parts of the sum are there"), std::string::npos) << parts.out;
  const std::string outside = damaged("outside", [&](Trace& trace) {
    for (RankRecord& rank : trace.ranks) {
      if (rank.shards.contains(id)) rank.shards.at(id).placement.pieces[0].global.row = 7;
    }
  });
  refused("replay " + outside, "lies outside the tensor");
  refused("check " + at("ref") + " " + outside, "lies outside the tensor");
}

TEST_F(Cli, RefusesToCompareRunsOfOtherDataAndWhatIsNoPerturbation) {
  const std::string train = "train" + small_sizes;
  EXPECT_EQ(plumb(train + "--seed 2 -o " + at("seed2")).code, 0);
  EXPECT_EQ(plumb(train + "--perturb 1 -o " + at("perturbed")).code, 0);
  EXPECT_EQ(plumb("train --load " + at("ref") + " -o " + at("step2")).code, 0);
  const std::string check = "check " + at("ref") + " ";
  refused(check + at("seed2"), "not the same seed (reference 1, candidate 2)");
  refused(check + at("step2"), "not the same step (reference 1, candidate 2)");
  const std::string by = check + at("healthy") + " --rule perturbation --perturbed ";
  EXPECT_EQ(plumb(by + at("perturbed")).code, 1);  // at the margin of the paper
  refused(by + at("ref"), "is the reference itself");
  refused(by + at("seed2"), "another model, state or text");
  refused(by + at("perturbed") + " --margin 0", "expected a number from");
}

TEST_F(Cli, JsonAndReportsAreWrittenByEveryVerbThatOffersThem) {
  const std::string one = " one-masked-entry" + small_sizes;
  const Said caught = plumb("catch --json --report " + at("catch.md") + one);
  EXPECT_EQ(caught.code, 1);
  EXPECT_TRUE(caught.out.starts_with("{")) << caught.out;
  EXPECT_NE(caught.out.find("\"planted\":\"one-masked-entry\""), std::string::npos);
  EXPECT_TRUE(fs::exists(at("catch.md")));
  const Said blamed = plumb("localize --json " + at("ref") + " " + at("buggy"));
  EXPECT_NE(blamed.out.find("\"blamed\":\"m0/embedding/out\""), std::string::npos) << blamed.out;
  EXPECT_TRUE(blamed.out.starts_with("{")) << blamed.out;
}

TEST_F(Cli, LoadedWeightsDecideTheModel) {
  const std::string train = "train --load " + at("ref") + " ";
  refused(train + "--layers 3 -o " + at("y"), "--layers is not what");
  refused(train + "--family llama -o " + at("y"), "--family is not what");
  EXPECT_EQ(plumb(train + "--family gpt --layers 2 -o " + at("y")).code, 0);
  refused("train --load " + folder().string() + " -o " + at("z"), "it is no trace");
}

TEST_F(Cli, InspectPrintsNothingBeforeItKnowsWhat) {
  refused("inspect " + at("ref") + " --only '['", "not a regular expression");
  refused("inspect " + at("ref") + " --only zzz", "matches no id");
}

TEST_F(Cli, AVerdictThatCouldNotBePrintedIsTrouble) {
  for (const std::string& command :
       {"check " + at("ref") + " " + at("healthy"), std::string("bugs"),
        std::string("bound gemm 4x4x4 --json"), std::string("--help")}) {
    for (const std::string stdout_is : {" >/dev/full", " >&-"}) {
      refused(command + stdout_is, "cannot write to stdout");
    }
  }
}

TEST_F(Cli, HelpIsThereForEveryVerb) {
  for (const char* verb : {"demo", "bugs", "catch", "train", "check", "localize", "replay",
                           "inspect", "bound", "experiment", "paper"}) {
    EXPECT_EQ(plumb(std::string(verb) + " --help").code, 0) << verb;
  }
  EXPECT_EQ(plumb("").code, 2);
}

// A trace whose manifest counts per cent and thousandths, as versions before wrote it.
TEST_F(Cli, ATraceOfAnOlderVersionIsReadInItsUnits) {
  const std::string train = "train" + small_sizes + "--dropout 0.1 --weight-decay 0.02 ";
  EXPECT_EQ(plumb(train + "-o " + at("new")).code, 0);
  EXPECT_EQ(plumb(train + "--layout tp2 -o " + at("old")).code, 0);
  const fs::path file = at("old") + "/manifest.json";
  std::ifstream in(file);
  auto manifest = nlohmann::json::parse(in);
  EXPECT_EQ(manifest["settings"]["dropout"], "0.1");
  manifest["settings"]["dropout"] = "10";
  manifest["settings"]["weight_decay"] = "20";
  std::ofstream(file) << manifest;
  EXPECT_EQ(plumb("check " + at("new") + " " + at("old")).code, 0);
  EXPECT_EQ(plumb("replay " + at("old")).code, 0);
  EXPECT_EQ(plumb("train --load " + at("old") + " -o " + at("next")).code, 0);
  manifest["settings"]["dropout"] = "20";
  std::ofstream(file) << manifest;
  refused("check " + at("new") + " " + at("old"), "dropout");
}

TEST_F(Cli, OneIsSingularAndEqualRecipesAreToldSo) {
  EXPECT_EQ(plumb("recipes fp32 fp32").out, "fp32 and fp32 are equal\n");
  EXPECT_NE(plumb("recipes fp32 bf16").out.find("compute"), std::string::npos);
  const std::string only = " --only '^m0/head/out$'";
  EXPECT_TRUE(plumb("inspect " + at("ref") + only).out.starts_with("producer plumb, 1 rank, step"));
  const Said check = plumb("check " + at("ref") + " " + at("healthy") + only + " --rule flat");
  EXPECT_NE(check.out.find(" in 1 tensor "), std::string::npos) << check.out;
}

TEST_F(Cli, RunWithAnUnknownCommandIsTrouble) {
  const Said said = plumb("", PLUMB_SOURCE_DIR "/run nonsense 2>&1 >/dev/null; exit $?; ");
  EXPECT_EQ(said.code, 2);
  EXPECT_TRUE(said.out.starts_with("run: there is no 'nonsense'")) << said.out;
  EXPECT_NE(said.out.find("./run demo"), std::string::npos);
  EXPECT_EQ(plumb("", PLUMB_SOURCE_DIR "/run help; exit $?; ").code, 0);
}

}  // namespace
}  // namespace plumb::verbs_test

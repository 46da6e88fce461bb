// Is every option that cannot be meant refused, in one sentence, before anything is done?
#include <fstream>

#include "tests/cli/program.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::options_test {
namespace {

namespace fs = std::filesystem;

class Options : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-options-"); }
  // Refused, and nothing is left behind.
  static void train(const std::string& options, const std::string& because) {
    refused("train " + options + " -o " + at("x"), because);
    EXPECT_TRUE(fs::is_empty(folder())) << options;
  }
};

TEST_F(Options, SizesAndSeedsAreNumbersInTheirRange) {
  for (const std::string size : {"layers", "width", "heads", "kv-heads", "hidden", "sequence",
                                 "sequences", "micro-batches"}) {
    train("--" + size + " 0", "--" + size + ": expected a whole number from 1 to");
    refused("catch one-masked-entry --" + size + " 0", "expected a whole number from 1 to");
  }
  train("--layers -1", "--layers: expected a whole number from 1 to 4096, found '-1'");
  train("--layers 2.5", "expected a whole number");
  train("--layers 100001", "expected a whole number");
  train("--micro-batches 1000000", "expected a whole number");
  train("--layers 4096 --width 1024", "choose smaller ones");
  train("--shared-key 4", "add --latent");
  train("--latent 16 --shared-key 3", "choose an even number of them");
  train("--latent 16 --shared-key 16", "and not all");
  train("--sequences 4096 --micro-batches 4096", "choose smaller ones");
  train("--seed -1", "expected a whole number from 0");
  train("--seed 99999999999999999999999", "expected a whole number from 0");
  train("--perturb -1", "expected a whole number from 1");
  train("--steps 0", "expected a whole number from 1");
  refused("experiment x --effort 0", "expected a whole number from 1");
  refused("experiment x --minutes nan", "expected a number from");
  refused("experiment x --minutes -1", "expected a number from");
  refused("check a b --false-alarm 1e-13", "expected a number from 1e-12 to 1");
  refused("check a b --false-alarm nan", "expected a number from 1e-12 to 1");
}

TEST_F(Options, FractionsAreWrittenAsSuchAndSwitchesAlone) {
  for (const std::string option : {"--dropout", "--label-smoothing", "--weight-decay"}) {
    train(option + " 10", "expected a fraction with its point from 0.0 to");
    train(option + " 1", "ten per cent are 0.1, all is 1.0");
    train(option + " 0.1234567", "expected a fraction");
    train(option + " -0.1", "expected a fraction");
  }
  train("--family gpt-moe --capacity 100", "ten per cent are 0.1, all is 1.0");
  train("--weight-decay 1.5", "from 0.0 to 1.0, found '1.5'");
  const std::string train = "train --layers 1 --width 16 --heads 2 --hidden 16 --sequence 4 ";
  const Said said = plumb(train +
                          "--dropout 0.1 --weight-decay 0.1 --label-smoothing 0.05 --mtp "
                          "--sinks --qk-norm -o " +
                          at("x"));
  EXPECT_EQ(said.code, 0) << said.out;
  const std::string out = plumb("inspect " + at("x")).out;
  for (const char* setting : {"  dropout 0.1\n", "  weight_decay 0.1\n", "  mtp 1\n",
                              "  label_smoothing 0.05\n", "  sinks 1\n", "  qk_norm 1\n"}) {
    EXPECT_NE(out.find(setting), out.npos) << out;
  }
  fs::remove_all(at("x"));
}

TEST_F(Options, AnEmptyValueIsNotAnAbsentOne) {
  for (const std::string option : {"--load", "--data", "--bug", "--layout", "--family"}) {
    train(option + " ''", option + " got an empty value");
    train(option + "=", option + " got an empty value");
  }
  refused("check a b --rule ''", "--rule got an empty value");
  refused("train -o ''", "-o got an empty value");
}

TEST_F(Options, RulesAndExpressionsAreReadBeforeAnyTrace) {
  refused("check a b --rule luck", "unknown rule 'luck'");
  refused("check a b --rule twins,", "unknown rule ''");
  refused("check a b --rule flat,twins,flat", "the rule flat is asked for twice");
  refused("check a b --force", "--force is of --report");
  refused("check a b --only '('", "not a regular expression");
  refused("catch one-masked-entry --skip '['", "not a regular expression");
  refused("localize a b --allow-unmatched '*'", "not a regular expression");
}

TEST_F(Options, NoneIsDroppedSilently) {
  train("--layout tp2 --perturb 1", "excludes");
  train("--bug one-masked-entry --layout tp2 --perturb 1", "excludes");
  train("--bug one-masked-entry", "say --layout tp2");
  train("--backend nonsense", "--backend requires --layout");
  train("--backend nonsense --layout tp2", "backend 'nonsense' is unknown");
  train("--dose 0.1", "--dose requires --bug");
  refused("catch one-masked-entry --healthy --dose 0.1", "excludes");
  refused("catch clip-coefficient-max-not-min --dose 0.1", "has no dose");
  refused("catch one-masked-entry --dose 3.7", "takes a --dose of at most 1: probability (0.03)");
  refused("catch gemm-single-bitflip --dose 40", "takes a --dose of at most 31: bit (24)");
  for (const std::string dose : {"nan", "-5", "0", "3e9"}) {
    train("--bug one-masked-entry --layout tp2 --dose " + dose, "--dose: expected a number from");
  }
  refused("check a b --perturbed c", "--perturbed is of the rule perturbation");
  refused("check a b --margin 3", "--margin is of the rule perturbation");
  refused("check a b --rule flat --twins 3", "--twins is of the rule twins");
  refused("replay T --false-alarm 0.1", "--false-alarm is of --mode probabilistic");
  refused("check T T --rule flat --machine h100", "--machine is of the rule replay");
  refused("bound gemm 4x4x4 --delta 0.1", "--delta is of --mode probabilistic");
}

TEST_F(Options, ABugsNeedsAreThoseOfTrainAndCatch) {
  train("--layout tp2 --bug sp-norm-grad-not-reduced", "needs at least the layout tp2,sp");
  refused("catch sp-norm-grad-not-reduced --layout tp2", "needs at least the layout tp2,sp");
  refused("catch one-masked-entry --layout dp2", "needs at least the layout");
  refused("catch ulysses-a2a-reshape --layout cp2", "needs at least the layout cp2:ulysses");
  refused("catch cp-allgather-wrong-dim --layout cp2:ring",
          "needs at least the layout cp2:allgather");
  refused("catch wgrad-only-first-microbatch --layout dp2,tp2",
          "needs 2 micro-batches on each rank; say --micro-batches 4");
  refused("catch seq-aux-loss-inverse-mbs --sequences 1", "needs 2 sequences in a micro-batch");
  refused("catch amax-not-reduced-over-tp --recipe fp8-current",
          "needs a recipe whose scales come from histories, such as fp8-delayed");
  refused("catch bias-before-row-parallel-reduce --family llama", "needs the family");
  train("--layout tp2,sp --bug dropout-mask-shared-across-shards", "say --dropout 0.1");
}

TEST_F(Options, UnknownNamesListTheKnown) {
  train("--recipe int3", "unknown recipe");
  train("--layout tp3", "does not divide");
  train("--family cnn", "unknown family");
  refused("", "say what to do: demo");
  refused("train", "--output is required; see: plumb train --help");
}

TEST_F(Options, AMistypedNameIsAnsweredWithTheOneThatWasMeant) {
  refused("chekc a b", "no verb 'chekc'; did you mean check?");
  refused("diff a b", "no verb 'diff'; known: demo, ");
  refused("bugs zero-grad-missng", "did you mean zero-grad-missing?");
  refused("recipes BF16", "did you mean bf16?");
  refused("experiment soundnes", "did you mean soundness?");
  refused("bound gem 4x4x4", "did you mean gemm?");
  refused("bound gemm 4x4x4 --machine H100", "did you mean h100?");
  refused("bound gemm 4x4x4 --mode moment", "did you mean moments?");
  refused("check a b --rule twin", "did you mean twins?");
  train("--family lama", "did you mean llama?");
  train("--layout TP2", "did you mean tp2?");
  train("--layout 'dp2, tp2'", "has a blank in it");
  train("--layout dp1000000", "'dp1000000' is too large; it goes up to 4096");
  train("--layout pp99999999999999999999", "is too large");
  EXPECT_EQ(plumb("help train").out, plumb("train --help").out);
  EXPECT_EQ(plumb("help").out, plumb("--help").out);
}

TEST_F(Options, AnUnknownOptionIsNamedFirst) {
  refused("train --bogus -o x", "plumb train has no option --bogus; see: plumb train --help");
  refused("train --out x", "plumb train has no option --out; did you mean --output?");
  refused("train --layuot tp2 -o x", "no option --layuot; did you mean --layout?");
  refused("-v", "plumb has no option -v; see: plumb --help");
  refused("--json check a b", "plumb has no option --json");
  refused("check a b -- --x", "--x");  // a name, after two dashes
}

TEST_F(Options, PartsOfALayoutThatDoNothingAreTold) {
  const std::string train = "train --layers 1 --width 16 --heads 2 --hidden 16 --sequence 4 ";
  for (const auto& [layout, note] :
       {std::pair<std::string, std::string>{"dp2,sp", "sp slices tokens among tp ranks"},
        {"tp2,zero1", "zero1 shares among dp"},
        {"tp1", "all degrees are 1"}}) {
    const Said said = plumb(train + "--layout " + layout + " -o " + at("x"));
    EXPECT_EQ(said.code, 0) << said.out;
    EXPECT_NE(said.out.find("note: " + note), std::string::npos) << said.out;
    fs::remove_all(at("x"));
  }
  EXPECT_EQ(plumb(train + "--layout dp2,zero1 -o " + at("x")).out.find("note:"), std::string::npos);
  fs::remove_all(at("x"));
}

TEST_F(Options, ATextIsAFileThatEndsAndIsLongEnough) {
  train("--data /dev/zero", "it is a device or a pipe");
  train("--data " + folder().string(), "it is a folder");
  train("--data " + at("no.txt"), "it does not exist");
  std::ofstream(at("short")) << "a few words";
  refused("train --layers 1000 --data " + at("short") + " -o " + at("x"), "the text has 11 bytes");
  fs::remove(at("short"));
}

TEST_F(Options, PlacesToWriteAreTriedFirst) {
  refused("check a b --report r.md --report r2.pdf", "report 'r2.pdf' has no known suffix");
  refused("check a b --report " + at("no/r.md"), "cannot write the report");
  refused("catch one-masked-entry --report cc.pdf", "has no known suffix");
  refused("demo --report d.pdf", "has no known suffix");
  std::ofstream(at("file")) << "mine";
  fs::create_directory_symlink(at("loop"), at("loop"));
  fs::create_directories(at("csv/false-alarms.csv"));
  refused("train -o " + at("file"), "exists already");
  refused("train -o " + at("file/below"), "is no folder that can be written");
  refused("train -o " + at("loop"), "exists already");
  refused("experiment false-alarms -o " + at("file"), "Not a directory");
  refused("experiment false-alarms -o " + at("csv"), "is a folder");
  EXPECT_EQ(std::distance(fs::directory_iterator(at("csv")), {}), 1);
  fs::remove_all(folder());
  fs::create_directories(folder());
}

TEST_F(Options, ShapesOfABoundAreHeldAgainstTheLimitThatTheyPass) {
  refused("bound gemm 12", "does not fit; write MxKxN");
  refused("bound gemm 4x4x4x", "does not fit; write MxKxN");
  refused("bound gemm 1x268435456x1", "268435456 terms in a sum is beyond the 4194304");
  refused("bound batched_gemm 4096x4096", "more than 268435456 products");
  refused("bound cast 99999999999999999999x1", "does not fit");
  refused("bound attention 100000x6", "more than 16777216 scores");
}

TEST_F(Options, ExitCodesOfAVerdictStandWhereTheyApply) {
  EXPECT_NE(plumb("check --help").out.find("3 nothing that was judged"), std::string::npos);
  EXPECT_EQ(plumb("train --help").out.find("3 nothing that was judged"), std::string::npos);
  EXPECT_NE(plumb("bugs").out.find("probability"), std::string::npos);
  EXPECT_NE(plumb("bound --help").out.find("grad_norm"), std::string::npos);
}

}  // namespace
}  // namespace plumb::options_test

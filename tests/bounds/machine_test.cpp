#include "bounds/machine.hpp"

#include <gtest/gtest.h>

#include "bounds/examples/example.hpp"
#include "bounds/on_machine.hpp"
#include "bounds/outcome.hpp"

namespace plumb {
namespace {

TEST(Machine, EveryCardSaysWhereItsFactsComeFrom) {
  ASSERT_FALSE(all_machines().empty());
  for (const Machine& machine : all_machines()) {
    EXPECT_FALSE(machine.facts.empty());
    for (const Fact& fact : machine.facts) EXPECT_FALSE(fact.source.empty()) << fact.name;
  }
  ASSERT_NE(find_machine("ieee"), nullptr);
  EXPECT_TRUE(find_machine("ieee")->is_ieee());
  EXPECT_EQ(find_machine("abacus"), nullptr);
}

TEST(Machine, ACardThatTruncatesIsNotIeee) {
  const Machine machine = parse_machine("cutter", R"({"title": "cuts", "facts": [
      {"name": "rounding", "value": "toward_zero", "provenance": "measured", "source": "here"}]})");
  EXPECT_FALSE(machine.is_ieee());
  EXPECT_EQ(machine.fact("rounding")->provenance, Provenance::measured);
  EXPECT_EQ(name_of(machine.fact("rounding")->provenance), "measured");
}

TEST(Machine, AWrongCardIsNamed) {
  for (const char* text : {"", "{}", R"({"title": "x", "facts": [{"name": "a", "value": "b",
                           "provenance": "heard", "source": "pub"}]})"}) {
    try {
      (void)parse_machine("odd", text);
      FAIL() << "was taken";
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find("'odd'"), std::string::npos);
    }
  }
}

std::string with_collective(const std::string& fields) {
  return R"({"title": "eight ranks", "facts": [], "collective": {)" + fields + "}}";
}
const std::string known = R"("provenance": "published", "source": "NCCL")";

TEST(Machine, ACollectiveSaysHowRanksAddUp) {
  const Machine ring = parse_machine(
      "r", with_collective(R"("algorithm": "ring", "ranks": 8, "wire": "bf16", )" + known));
  ASSERT_TRUE(ring.collective);
  EXPECT_EQ(ring.collective->algorithm, Collective::Algorithm::ring);
  EXPECT_EQ(ring.collective->ranks, 8);
  EXPECT_EQ(ring.collective->wire, bf16);
  EXPECT_FALSE(ring.collective->rotation);
  EXPECT_FALSE(find_machine("ieee")->collective);
  EXPECT_EQ(find_machine("ieee-ring8")->collective->ranks, 8);
}

TEST(Machine, AWrongCollectiveIsOneSentence) {
  for (const auto& [fields, sentence] :
       {std::pair<std::string, std::string>{R"("ranks": 8, "wire": "bf16", )", "no 'algorithm'"},
        {R"("algorithm": "ring", "wire": "bf16", )", "no 'ranks'"},
        {R"("algorithm": "star", "ranks": 8, "wire": "bf16", )", "'star' is none of ring"},
        {R"("algorithm": "ring", "ranks": 0, "wire": "bf16", )", "at least"},
        {R"("algorithm": "ring", "ranks": 2.5, "wire": "bf16", )", "no whole number: 2.5"},
        {R"("algorithm": "ring", "ranks": 8, "wire": "fp12", )", "'fp12' is no format"},
        {R"("algorithm": "ring", "ranks": 8, "wire": "bf16", "rotation": 8, )", "0 to 7"},
        {R"("algorithm": "tree", "ranks": 8, "wire": "bf16", "rotation": 1, )", "only rings"},
        {R"("algorithm": "ring", "ranks": 8, "wire": "bf16", "rotaton": 1, )", "'rotaton'"}}) {
    try {
      (void)parse_machine("odd", with_collective(fields + known));
      FAIL() << "was taken: " << fields;
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find(sentence), std::string::npos) << failure.what();
      EXPECT_NE(std::string(failure.what()).find("'odd'"), std::string::npos);
    }
  }
  EXPECT_THROW(
      parse_machine("odd", with_collective(R"("algorithm": "ring", "ranks": 8, "wire": "bf16",
      "provenance": "heard", "source": "pub")")),
      Failure);
}

// What the card says is what counts, whatever the call has.
TEST(Machine, ItsCollectiveReplacesThatOfTheCall) {
  const Machine tree = parse_machine(
      "t", with_collective(R"("algorithm": "tree", "ranks": 4, "wire": "bf16", )" + known));
  Draw draw("positive", 1);
  Example e{"all_reduce", {}, {{"algorithm", 0}}, {1, fp32, fp32}};
  for (int rank = 0; rank < 4; ++rank) e.inputs.push_back(draw.matrix(4, 4));
  const auto on = [&](std::size_t ranks) {
    std::vector<const Matrix<double>*> inputs;
    for (std::size_t r = 0; r < ranks; ++r) inputs.push_back(&e.inputs[r]);
    const auto values = value_of(e);
    const ToleranceCall call{inputs, e.attributes, e.how, Mode::deterministic, 0, values};
    return tolerance_on(tree, *find_operation("all_reduce"), call, fp32);
  };
  const auto t = on(4);
  ASSERT_TRUE(t);
  e.attributes["algorithm"] = 1;
  e.how.wire = bf16;
  EXPECT_EQ(t->bound[0], tolerance_of(e)->bound[0]);
  EXPECT_FALSE(on(3));
}

}  // namespace
}  // namespace plumb

// Are two runs of another program compared as what they are: in several steps, in FP64, with other
// dimensions, with a weight that nothing should change, with what is left out?
#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace plumb::foreign_pairs_test {
namespace {

class ForeignPairs : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-foreign-pairs-"); }
};

// Of one step it cannot be told, of the other it passes: in any order the run is not passed.
TEST_F(ForeignPairs, OfSeveralStepsTheWorstIsThatOfTheRun) {
  const auto write_steps = [](const std::string& name, const std::vector<float>& of_steps) {
    nlohmann::json manifest = manifest2(1);
    manifest["steps"] = {1, 2};
    for (int step : {1, 2}) {
      const float last = of_steps[static_cast<std::size_t>(step - 1)];
      write_trace2(at(name), manifest, {{{f32("x", {4}, {1, 2, 3, last})}}}, step);
    }
  };
  write_steps("steps", {4, 4});
  write_steps("off_then_equal", {4.01F, 4});
  write_steps("equal_then_off", {4, 4.01F});
  write_steps("off_then_far", {4.01F, 40});
  const auto of = [](const std::string& name) {
    return plumb("check --rule flat " + at("steps") + " " + at(name));
  };
  const Said first = of("off_then_equal"), second = of("equal_then_off"), far = of("off_then_far");
  EXPECT_EQ(first.code, 3) << first.out;
  EXPECT_NE(first.out.find("step 1: verdict: PASS"), first.out.npos) << first.out;
  EXPECT_NE(first.out.find("step 2 in full:\nverdict: INCONCLUSIVE"), first.out.npos) << first.out;
  EXPECT_EQ(second.code, 3) << second.out;
  EXPECT_NE(second.out.find("step 1 in full:\nverdict: INCONCLUSIVE"), second.out.npos);
  EXPECT_EQ(far.code, 1) << far.out;
}

// They are compared in FP32: what is equal there need not be.
TEST_F(ForeignPairs, BitsOfFp64AreThoseThatFp32Has) {
  const auto write_double = [](const std::string& name, double x, std::size_t ranks) {
    const Told of_rank{{"x", "F64", {2}, bytes_of<double>({x, 1})}, {{"shape", {2}}}};
    write_trace2(at(name), manifest2(ranks), std::vector<std::vector<Told>>(ranks, {of_rank}));
  };
  write_double("wide", 0.1, 1);
  write_double("wide_too", 0.1 + 1e-12, 1);
  write_double("wide_of_two", 0.1 + 1e-12, 2);
  const std::string rules = "check --rule flat " + at("wide") + " ";
  const Said same = plumb(rules + at("wide_too")), other = plumb(rules + at("wide_of_two"));
  EXPECT_EQ(same.code, 3) << same.out;
  EXPECT_NE(same.out.find("in every bit, as far as FP32 has them: a run was"), same.out.npos)
      << same.out;
  EXPECT_NE(other.out.find("the reference's bits in every tensor, as far as FP32 has them"),
            other.out.npos)
      << other.out;
  EXPECT_NE(other.out.find("1 tensor is in FP64, and compared in FP32: smaller differences are not "
                           "seen"),
            other.out.npos);
}

// Nothing explains that a step changes a weight of which there is no gradient.
TEST_F(ForeignPairs, AFrozenWeightThatAStepChangesIsFound) {
  const auto with_frozen = [](const std::string& name, float before, float behind) {
    write_trace2(
        at(name), manifest2(1),
        {{{f32("fc.weight", {2}, {1, before}), {{"role", "given"}}},
          {f32("out.weight/grad", {2}, {1, 2}), {{"order", 1}, {"phase", "backward"}}},
          {f32("fc.weight/param", {2}, {1, behind}), {{"order", 2}, {"phase", "optimizer"}}}}});
  };
  with_frozen("frozen", 2, 2);
  with_frozen("thawed", 2, 2.1F);
  with_frozen("other", 2, 3);
  const Said thawed = plumb("check --rule flat " + at("frozen") + " " + at("thawed"));
  EXPECT_EQ(thawed.code, 1) << thawed.out;
  EXPECT_NE(thawed.out.find("was changed by the step; the reference has no gradient of it"),
            thawed.out.npos)
      << thawed.out;
  // One that the reference's step changes, too, is the optimizer's.
  EXPECT_EQ(
      plumb("check --rule flat " + at("other") + " " + at("thawed")).out.find("was changed by"),
      std::string::npos);
}

// Nobody knows which weights have a gradient where none was traced: an update of a last bit may be lost.
TEST_F(ForeignPairs, AWeightIsNotTakenForFrozenWhereNoGradientWasTraced) {
  const auto without_gradients = [](const std::string& name, float behind) {
    write_trace2(
        at(name), manifest2(1),
        {{{f32("fc.weight", {2}, {1, 2}), {{"role", "given"}}},
          {f32("fc.weight/param", {2}, {1, behind}), {{"order", 2}, {"phase", "optimizer"}}}}});
  };
  without_gradients("lost", 2);
  without_gradients("kept", 2.015625F);
  const Said kept = plumb("check --rule flat " + at("lost") + " " + at("kept"));
  EXPECT_EQ(kept.out.find("was changed by"), std::string::npos) << kept.out;
}

// Two ranks that hold y, and a sum of them that is 4 or, wrongly, another number.
void write_summed(const std::filesystem::path& run, float got) {
  const std::vector<Told> y{{f32("y", {2}, {1, 4}), {{"shape", {2}}}}};
  write_trace2(run, manifest2(2), {y, y});
  const nlohmann::json says{
      {"op", "all_reduce"}, {"reduce", "sum"}, {"group", {0, 1}}, {"given", {1}}, {"got", {1}}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const float given = rank == 0 ? 1 : 3;
    write_bytes(
        rank_path(run, 0).parent_path() / ("messages_0000" + std::to_string(rank) + ".safetensors"),
        told_file({f32("0/given", {1}, {given}), f32("0/got", {1}, {got})}, {{"0", says}}));
  }
}

// --only chooses tensors; --skip leaves out what it matches, and says so.
TEST_F(ForeignPairs, AWrongCollectiveIsFoundWhateverIsLookedAtAndSaidToBeSkipped) {
  write_summed(at("sum"), 4);
  write_summed(at("wrong"), 5);
  const std::string check = "check " + at("sum") + " " + at("wrong") + " --rule flat,replay ";
  const Said only = plumb(check + "--only y"), skip = plumb(check + "--skip messages/");
  EXPECT_EQ(only.code, 1) << only.out;
  EXPECT_NE(only.out.find("number 0 is 5, and should be 4"), only.out.npos) << only.out;
  EXPECT_NE(skip.code, 1) << skip.out;
  EXPECT_NE(skip.out.find("; findings left out by --skip: 1\n"), skip.out.npos) << skip.out;
  EXPECT_EQ(plumb(check + "--skip nothing").code, 1);
}

TEST_F(ForeignPairs, WhatIsAllowedInOneRunAloneIsCounted) {
  const Told x{f32("x", {2}, {1, 2})}, y{f32("y", {2}, {1, 2})}, z{f32("z", {2}, {1, 2})};
  write_trace2(at("three"), manifest2(1), {{x, y, z}});
  write_trace2(at("first"), manifest2(1), {{x}});
  const Said said =
      plumb("check --rule flat " + at("three") + " " + at("first") + " --allow-unmatched '[yz]'");
  EXPECT_NE(said.out.find("; allowed in one run alone: 2\n"), said.out.npos) << said.out;
}

// They are compared all the same, number by number.
TEST_F(ForeignPairs, OtherDimensionsAreSaid) {
  const auto with_shape = [](const std::string& name, const std::vector<std::size_t>& shape) {
    write_trace2(at(name), manifest2(1), {{{f32("x", shape, std::vector<float>(24, 1.5F))}}});
  };
  with_shape("shape", {2, 3, 4});
  with_shape("turned", {3, 2, 4});
  const Said turned = plumb("check --rule flat " + at("shape") + " " + at("turned"));
  EXPECT_NE(turned.out.find("1 tensor has other dimensions than in the reference, and is compared "
                            "number by number: x is 3 x 2 x 4, there 2 x 3 x 4"),
            turned.out.npos)
      << turned.out;
  const Said alike = plumb("check --rule flat " + at("shape") + " " + at("shape"));
  EXPECT_EQ(alike.out.find("dimensions"), alike.out.npos) << alike.out;
}

}  // namespace
}  // namespace plumb::foreign_pairs_test

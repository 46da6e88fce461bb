// Are two runs of another program compared as what they are: in several steps, in FP64, with other
// dimensions, with a weight that nothing should change?
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

// They are compared all the same, number by number.
TEST_F(ForeignPairs, OtherDimensionsAreSaid) {
  const auto with_shape = [](const std::string& name, const std::vector<std::size_t>& shape) {
    write_trace2(at(name), manifest2(1), {{{f32("x", shape, std::vector<float>(24, 1.5F))}}});
  };
  with_shape("shape", {2, 3, 4});
  with_shape("turned", {3, 2, 4});
  const Said turned = plumb("check --rule flat " + at("shape") + " " + at("turned"));
  EXPECT_NE(turned.out.find("1 tensor has other dimensions than in the reference, and are compared "
                            "number by number: x is 3 x 2 x 4, there 2 x 3 x 4"),
            turned.out.npos)
      << turned.out;
  const Said alike = plumb("check --rule flat " + at("shape") + " " + at("shape"));
  EXPECT_EQ(alike.out.find("dimensions"), alike.out.npos) << alike.out;
}

}  // namespace
}  // namespace plumb::foreign_pairs_test

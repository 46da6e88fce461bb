#include "bounds/machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bounds/examples/example.hpp"
#include "bounds/on_machine.hpp"
#include "number/exponential.hpp"
#include "number/outcome.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::machine_test {
namespace {

TEST(Machine, EveryCardSaysWhereItsFactsComeFrom) {
  ASSERT_FALSE(all_machines().empty());
  for (const Machine& machine : all_machines()) {
    EXPECT_FALSE(machine.facts.empty());
    for (const Fact& fact : machine.facts) EXPECT_FALSE(fact.source.empty()) << fact.name;
  }
  ASSERT_NE(find_machine("ieee"), nullptr);
  EXPECT_TRUE(find_machine("ieee")->rounds_to_nearest());
  EXPECT_EQ(find_machine("abacus"), nullptr);
}

TEST(Machine, ACardThatTruncatesDoesNotRoundToNearest) {
  const Machine machine = parse_machine("cutter", R"({"title": "cuts", "facts": [
      {"name": "rounding", "value": "toward_zero", "provenance": "measured", "source": "here"}]})");
  EXPECT_FALSE(machine.rounds_to_nearest());
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

// Results that go to either neighbour: of a whole spacing, of which nearest loses half. The same
// numbers, rounded stochastically, leave the one bound and stay within the other.
TEST(Machine, ACardWhoseResultsAreDrawnAllowsAWholeSpacing) {
  const Machine &drawn = *find_machine("trainium-stochastic"), &nearest = *find_machine("trainium");
  EXPECT_TRUE(drawn.draws_results());
  EXPECT_FALSE(nearest.draws_results());
  const Operation& cast = *find_operation("cast");
  Matrix<double> x(1, 4096);
  for (std::size_t e = 0; e < x.size(); ++e) {
    x.values[e] = static_cast<double>(static_cast<float>(1 + uniform(key_of(1, "x"), e)));
  }
  const Attributes none;
  const std::vector<Matrix<double>> values{x};
  ToleranceCall call{{&x}, none, {1, fp32, bf16}, Mode::deterministic, 0, values, {}};
  std::vector<float> stored(x.values.begin(), x.values.end());
  round_stochastically(stored, bf16, 7);
  const auto outside = [&](const Machine& machine) {
    const Outcome<Tolerance> bound = tolerance_on(machine, cast, call, fp32);
    EXPECT_TRUE(bound);
    int many = 0;
    for (std::size_t e = 0; e < x.size(); ++e) {
      const double error = std::fabs(static_cast<double>(stored[e]) - x.values[e]);
      many += error > bound->bound[0].values[e] ? 1 : 0;
    }
    return many;
  };
  EXPECT_EQ(outside(drawn), 0);
  EXPECT_GT(outside(nearest), 500);
  call.mode = Mode::moments;
  EXPECT_EQ(tolerance_on(drawn, cast, call, fp32).error().why, Why::unsupported);
  EXPECT_NE(assumptions(drawn, cast, Mode::deterministic).find("stochastically"),
            std::string::npos);
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

// A chain over many exponentials errs by more than the bound of a softmax, whose sums are a tree:
// so a card that says "sequential" must not be given that bound, nor one that says nothing.
TEST(Machine, WhoseSumsAreAChainGetsTheBoundOfAChain) {
  const std::size_t n = 32768;
  Matrix<double> x(1, n);
  for (std::size_t j = 0; j < n; ++j) x.values[j] = static_cast<float>(uniform(5, j));
  const Example e{"softmax", {x}, {}, {1, fp32, fp32}};
  const auto values = value_of(e);
  const float largest = static_cast<float>(*std::ranges::max_element(x.values));
  float sum = 0;
  for (const double v : x.values) sum += exp(static_cast<float>(v) - largest);
  const ToleranceCall call{{&e.inputs[0]}, e.attributes, e.how, Mode::deterministic, 0, values};
  const Operation& softmax = *find_operation("softmax");
  const auto ratio_to = [&](const Outcome<Tolerance>& tolerance) {
    double ratio = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const float p = exp(static_cast<float>(x.values[j]) - largest) / sum;
      ratio = std::max(ratio, std::fabs(p - values[0].values[j]) / tolerance->bound[0].values[j]);
    }
    return ratio;
  };
  const auto on = [&](const char* machine) {
    return tolerance_on(*find_machine(machine), softmax, call, fp32);
  };
  const auto tree = softmax.tolerance(call);
  EXPECT_GT(ratio_to(tree), 1);
  EXPECT_LE(ratio_to(on("ieee-sequential")), 1);
  EXPECT_LE(ratio_to(on("ieee")), 1);
  const double of_tree = tree->bound[0].values[0];
  EXPECT_NEAR(on("ieee-pairwise")->bound[0].values[0], of_tree, 1e-9 * of_tree);
}

// A card may know the order of one operation's sums up to a length: the bound is that of the order up
// to there, and of any order beyond, and of other operations.
TEST(Machine, KnowsTheOrderOfOneOperationsSumsUpToALength) {
  const auto bound_on = [](const Machine& machine, const char* id, std::size_t rows,
                           std::size_t cols) {
    Matrix<double> x(rows, cols);
    for (std::size_t e = 0; e < x.size(); ++e) x.values[e] = static_cast<float>(uniform(7, e));
    const Example e{id, {x}, {}, {1, fp32, fp32}};
    const auto values = value_of(e);
    const ToleranceCall call{{&e.inputs[0]}, e.attributes, e.how, Mode::deterministic, 0, values};
    return tolerance_on(machine, e.operation(), call, fp32)->bound[0].values[0];
  };
  const Machine any = *find_machine("ieee"), chain = *find_machine("ieee-sequential");
  Machine mine = any;
  for (const char* fact : {"order_column_sum", "order_softmax"}) {
    mine.facts.push_back({fact, "sequential up to 100", Provenance::measured, "here"});
  }
  EXPECT_LT(bound_on(chain, "column_sum", 100, 2), bound_on(any, "column_sum", 100, 2));
  EXPECT_EQ(bound_on(mine, "column_sum", 100, 2), bound_on(chain, "column_sum", 100, 2));
  EXPECT_EQ(bound_on(mine, "column_sum", 101, 2), bound_on(any, "column_sum", 101, 2));
  EXPECT_EQ(bound_on(mine, "softmax", 2, 100), bound_on(chain, "softmax", 2, 100));
  EXPECT_EQ(bound_on(mine, "softmax", 2, 101), bound_on(any, "softmax", 2, 101));
  EXPECT_EQ(bound_on(mine, "log_sum_exp", 2, 100), bound_on(any, "log_sum_exp", 2, 100));
}

// Where a card names an order, an operation has its own bound, or none.
TEST(Machine, GivesABoundOfItsOrderOrNone) {
  for (const Operation* operation : all_operations()) {
    if (operation->id == "gemm") continue;  // has one for every order
    Draw draw("plain", 1);
    const Example e = example_of(operation->id, draw);
    const auto values = value_of(e);
    std::vector<const Matrix<double>*> inputs;
    for (const Matrix<double>& input : e.inputs) inputs.push_back(&input);
    const ToleranceCall call{inputs, e.attributes, e.how, Mode::deterministic, 0, values};
    const auto own = operation->tolerance(call);
    const auto given = [&](const char* machine) {
      const auto t = tolerance_on(*find_machine(machine), *operation, call, fp32);
      EXPECT_TRUE(!t || !own || operation->sums_as_asked || t->bound == own->bound)
          << operation->id;
      return t.has_value();
    };
    const SumOrder sums = operation->sums;
    if (operation->sums_as_asked) {
      for (const char* card : {"ieee", "ieee-blocked128", "ieee-sequential", "ieee-pairwise"}) {
        EXPECT_EQ(given(card), own.has_value()) << operation->id << " on " << card;
      }
      continue;
    }
    const bool everywhere = sums == SumOrder::none || sums == SumOrder::any;
    EXPECT_EQ(given("ieee-blocked128"), own && everywhere) << operation->id;
    EXPECT_EQ(given("ieee-sequential"), own && (everywhere || sums == SumOrder::chain));
    EXPECT_EQ(given("ieee-pairwise"), own && (everywhere || sums == SumOrder::tree));
  }
}

}  // namespace
}  // namespace plumb::machine_test

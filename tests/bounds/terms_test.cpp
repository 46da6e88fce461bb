// Do the terms that a bound is explained by add up to it?
#include <gtest/gtest.h>

#include "bounds/examples/shaped.hpp"
#include "bounds/on_machine.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::terms_test {
namespace {

// Never fewer: an example of one seed may have nothing to round.
constexpr int seeds = 6;

double largest_of(const Matrix<double>& bound) {
  double largest = 0;
  for (const double b : bound.values) largest = std::max(largest, b);
  return largest;
}

// Returns how many outputs had a bound that is not 0.
std::size_t expect_sums(const Tolerance& tolerance, const std::string& what) {
  std::size_t bounded = 0;
  EXPECT_EQ(tolerance.terms.size(), tolerance.bound.size()) << what;
  for (std::size_t o = 0; o < tolerance.bound.size(); ++o) {
    double sum = 0;
    for (const Term& term : tolerance.terms[o]) sum += term.largest;
    EXPECT_EQ(sum, largest_of(tolerance.bound[o])) << what << ", output " << o;
    bounded += sum > 0 ? 1 : 0;
  }
  return bounded;
}

// Asked of the card itself: tolerance_of() is what mutants inflate, which others have to notice.
Outcome<Tolerance> derived(const Example& e, Mode mode,
                           const std::optional<Place>& explained = {}) {
  std::vector<const Matrix<double>*> inputs;
  for (const Matrix<double>& input : e.inputs) inputs.push_back(&input);
  const std::vector<Matrix<double>> values = value_of(e);
  return find_operation(e.id)->tolerance(
      {inputs, e.attributes, e.how, mode, 1e-3, values, explained});
}

TEST(Terms, OfEveryOperationAddUpToItsLargestBound) {
  for (const Operation* operation : all_operations()) {
    std::size_t bounded = 0;
    for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
      for (const std::string_view kind : input_kinds) {
        for (int seed = 1; seed <= seeds; ++seed) {
          Draw draw(kind, static_cast<unsigned>(seed));
          const auto tolerance = derived(example_of(operation->id, draw), mode);
          if (!tolerance) continue;
          bounded +=
              expect_sums(*tolerance, std::string(operation->id) + ", " +
                                          std::string(name_of(mode)) + ", " + std::string(kind));
        }
      }
    }
    EXPECT_TRUE(bounded > 0 || operation->traits.exact || operation->id == "loss_scale")
        << operation->id;
  }
}

TEST(Terms, OfAnElementAddUpToItsBound) {
  for (const Operation* operation : all_operations()) {
    for (int seed = 1; seed <= seeds; ++seed) {
      Draw draw(input_kinds.front(), static_cast<unsigned>(seed));
      const Example e = example_of(operation->id, draw);
      for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
        const auto whole = derived(e, mode);
        if (!whole) continue;
        for (std::size_t o = 0; o < whole->bound.size(); ++o) {
          if (whole->bound[o].size() == 0) continue;
          const std::size_t element =
              static_cast<std::size_t>(seed) * 7919 % whole->bound[o].size();
          const auto asked = derived(e, mode, Place{o, element});
          double sum = 0;
          for (const Term& term : asked->terms[o]) sum += term.largest;
          EXPECT_EQ(sum, whole->bound[o].values[element])
              << operation->id << ", " << name_of(mode) << ", element " << element;
        }
      }
    }
  }
}

TEST(Terms, OfAProductOnAMachineAddUp) {
  const Example e = shaped_example("gemm", "16x256x16", bf16);
  const std::vector<Matrix<double>> values = value_of(e);
  for (const char* machine : {"h100", "ieee-sequential", "ieee-pairwise"}) {
    for (const Mode mode : {Mode::deterministic, Mode::probabilistic}) {
      const auto tolerance = tolerance_on(
          *find_machine(machine), *find_operation("gemm"),
          {{&e.inputs[0], &e.inputs[1]}, e.attributes, {1, fp32, bf16}, mode, 1e-6, values}, bf16);
      ASSERT_TRUE(tolerance) << machine << tolerance.error().detail;
      EXPECT_EQ(expect_sums(*tolerance, machine), 1U);
    }
  }
}

TEST(Terms, OfAProductAreItsProofs) {
  const auto tolerance = derived(shaped_example("gemm", "4x64x4", fp32), Mode::deterministic);
  ASSERT_TRUE(tolerance);
  EXPECT_EQ(tolerance->terms[0][0].formula,
            "gamma_K S + K t: K = 64, gamma_K = K u / (1 - K u) = 3.815e-06");
}

}  // namespace
}  // namespace plumb::terms_test

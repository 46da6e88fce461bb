// Does each card keep what its traits say of it?
#include <gtest/gtest.h>

#include <set>

#include "bounds/examples/example.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::traits_test {
namespace {

// Never fewer: an example of one seed may have nothing to round.
constexpr int seeds = 6;

using Look = void (*)(const Operation&, Example, std::set<std::string>&);

// Returns the operations that `look` adds in examples of every kind.
std::set<std::string> seen(Look look) {
  std::set<std::string> ids;
  for (const Operation* operation : all_operations()) {
    for (const std::string_view kind : input_kinds) {
      for (int seed = 1; seed <= seeds; ++seed) {
        Draw draw(kind, static_cast<unsigned>(seed));
        look(*operation, example_of(operation->id, draw), ids);
      }
    }
  }
  return ids;
}

std::set<std::string> with(bool Traits::*trait) {
  std::set<std::string> ids;
  for (const Operation* operation : all_operations()) {
    if (operation->traits.*trait) ids.insert(std::string(operation->id));
  }
  return ids;
}

TEST(Traits, ExactOperationsHaveTheBoundZeroAndNoOthers) {
  const auto inexact = seen([](const Operation& operation, Example e, auto& ids) {
    const auto tolerance = tolerance_of(e);
    if (!tolerance) return;
    for (const Matrix<double>& bound : tolerance->bound) {
      for (const double b : bound.values) {
        if (b != 0) ids.insert(std::string(operation.id));
      }
    }
  });
  auto exact = with(&Traits::exact);
  exact.insert("loss_scale");  // by powers of two, as all examples are
  for (const Operation* operation : all_operations()) {
    EXPECT_NE(exact.contains(std::string(operation->id)),
              inexact.contains(std::string(operation->id)))
        << operation->id;
  }
}

TEST(Traits, TheShapesOfNoOthersDependOnTheParts) {
  const auto shaped = seen([](const Operation& operation, Example e, auto& ids) {
    if (operation.traits.short_copy) return;  // its scales are of other blocks then
    e.how.tokens = {};
    e.how.parts = 1;
    const auto whole = value_of(e);
    if (e.inputs.size() % 4 != 0 && operation.traits.adds_inputs) return;
    e.how.parts = 2;
    const auto parted = value_of(e);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const bool same = whole[i].rows == parted[i].rows && whole[i].cols == parted[i].cols;
      if (!same) ids.insert(std::string(operation.id));
    }
  });
  EXPECT_EQ(shaped, with(&Traits::shaped_by_parts));
}

TEST(Traits, OneThatMakesAChoiceIsExact) {
  for (const Operation* operation : all_operations()) {
    EXPECT_TRUE(operation->traits.exact || !operation->traits.choice) << operation->id;
  }
}

}  // namespace
}  // namespace plumb::traits_test

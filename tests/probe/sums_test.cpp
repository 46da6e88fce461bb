// Are orders of sums outside of products found, and is no wrong one claimed?
#include "probe/sums.hpp"

#include <gtest/gtest.h>

#include "probe/devices.hpp"
#include "probe/tables.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::sums_test {
namespace {

Emulated sums_in(const std::string& text, Rounding how = Rounding::nearest_even) {
  Emulated sums{.order = *parse_order(text)};
  sums.order.rounding = how;
  return sums;
}

// Products in a chain, and other sums in orders of their own.
Subject subject_with(const Emulated& column_sum, const Emulated& softmax = {}) {
  Subject subject = subject_of(Emulated{}, fp32);
  offer_emulated(subject, column_sum, softmax);
  return subject;
}

Calibration calibrated(const Subject& subject, std::size_t longest = 200) {
  CalibrateOptions options;
  options.longest = longest;
  options.arguments = 1000;
  return calibrate(subject, options);
}

std::string fact_of(const Calibration& found, const std::string& name) {
  const Fact* fact = found.card.fact(name);
  return fact == nullptr ? "" : fact->value;
}
std::string why_no(const Calibration& found, const std::string& name) {
  for (const auto& [fact, why] : found.unknown) {
    if (fact == name) return why;
  }
  return "";
}

TEST(Sums, OfColumnsHaveAnOrderOfTheirOwn) {
  for (const std::string order : {"sequential", "pairwise", "blocked 32", "split 4",
                                  "lanes 8 strided", "lanes 6 sequential", "sequential swapped"}) {
    const Calibration found = calibrated(subject_with(sums_in(order)));
    EXPECT_EQ(fact_of(found, "order_column_sum"), order + " up to 200");
    EXPECT_EQ(fact_of(found, "order_gemm"), "sequential up to 200");
    ASSERT_EQ(found.validation.tables.size(), 2U);
    EXPECT_EQ(found.validation.tables[0].outside, 0U) << order;
    EXPECT_GT(found.validation.tables[0].worst, 0.01) << order;
    EXPECT_TRUE(found.validation.holds());
  }
}

// A card has one rounding: sums that have another one are not said to have an order.
TEST(Sums, ThatAreRoundedOtherwiseThanTheCardSaysAreNotInIt) {
  const Calibration found =
      calibrated(subject_with(sums_in("pairwise", Rounding::toward_zero)), 64);
  EXPECT_EQ(fact_of(found, "order_column_sum"), "");
  EXPECT_NE(why_no(found, "order_column_sum").find("rounded to toward_zero"), std::string::npos);
}

TEST(Sums, OfASubjectThatHasNoneAreNotSpokenOf) {
  const Calibration found = calibrated(subject_of(Emulated{}, fp32), 16);
  EXPECT_TRUE(found.validation.tables.empty());
  EXPECT_EQ(why_no(found, "order_column_sum"), "");
  EXPECT_EQ(why_no(found, "order_softmax"), "");
}

// numpy takes single columns as rows: an order that holds in wide tables alone is not claimed.
TEST(Sums, ThatDependOnTheWidthOfTheTableHaveNoOrder) {
  Subject subject = subject_with(sums_in("sequential"));
  subject.tile = 4;
  subject.tables["column_sum"] = [](const std::vector<Tensor>& asked) {
    std::vector<Tensor> all;
    for (const Tensor& x : asked) {
      all.push_back(emulated_column_sum(x, sums_in(x.cols == 1 ? "pairwise" : "sequential")));
    }
    return all;
  };
  subject.tables.erase("softmax");
  CalibrateOptions options;
  options.longest = 100;
  const std::string why = order_of_sums(subject, "column_sum", options).why;
  EXPECT_EQ(why,
            "sequential up to 100 explains the trees, and does not make the bits of drawn "
            "tables");
}

std::string observed(const Calibration& found, const std::string& kind) {
  for (const auto& [what, as] : found.observed) {
    if (what == kind) return as;
  }
  return "";
}

// An order that has no name is told by its tree.
TEST(Sums, ThatHaveNoNameAreTold) {
  Subject subject = subject_with({}, {});
  subject.tables["softmax"] = [](const std::vector<Tensor>& asked) {
    std::vector<Tensor> all;
    for (const Tensor& x : asked) {
      all.push_back(emulated_softmax(x, sums_in(x.cols < 4 ? "sequential" : "lanes 4 strided")));
    }
    return all;
  };
  const Calibration found = calibrated(subject, 8);
  EXPECT_EQ(observed(found, "sum of a softmax"),
            "of 8 terms (((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)))");
  EXPECT_EQ(observed(found, "sums of columns"), "sequential up to 8; of 8 terms 0..7");
}

// Sums of rows are no operation of a card: what is found is printed.
TEST(Sums, OfRowsAreObserved) {
  Subject subject = subject_of(Emulated{}, fp32);
  subject.tables["row_sum"] = [](const std::vector<Tensor>& asked) {
    std::vector<Tensor> all;
    for (const Tensor& x : asked) {
      Tensor y(x.cols, x.rows);
      for (std::size_t e = 0; e < y.size(); ++e) y.values[e] = x(e % x.rows, e / x.rows);
      all.push_back(emulated_column_sum(y, sums_in("blocked 16")));
    }
    return all;
  };
  const Calibration found = calibrated(subject, 100);
  EXPECT_TRUE(observed(found, "sums of rows").starts_with("blocked 16 up to 100; of 100 terms "));
  EXPECT_EQ(observed(found, "sums of columns"), "");
  EXPECT_EQ(fact_of(found, "order_column_sum"), "");
}

// A card whose order of sums was changed does not pass: by bits or by where terms meet, if not by the
// bounds.
TEST(Sums, ValidationSeesAnOrderThatWasChanged) {
  const Subject subject = subject_with(sums_in("sequential"), sums_in("lanes 16 strided"));
  const Calibration found = calibrated(subject, 300);
  EXPECT_FALSE(is_noticed(subject, found.card, 300, 7));
  std::size_t changed = 0;
  for (const ChangedCard& other : with_one_fact_changed(found.card)) {
    const bool of_sums = other.fact.starts_with("order_c") || other.fact.starts_with("order_s");
    if (!of_sums) continue;
    ++changed;
    EXPECT_TRUE(is_noticed(subject, other.card, 300, 7)) << other.fact;
  }
  EXPECT_EQ(changed, 5U);
}

// Each order that is claimed is the device's, whatever it is, and most are found.
TEST(Sums, OfHiddenDevicesAreNotMistaken) {
  std::size_t all = 0, known = 0;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(effort(40)); ++seed) {
    const HiddenDevice hidden = drawn_device(seed);
    SCOPED_TRACE(std::to_string(seed) + ": " + hidden.text());
    const Calibration found = calibrated(all_of(hidden), 100);
    const bool adds = fact_of(found, "accumulator") == "fp32";
    for (const Recovered& fact : sums_held_against(hidden, found)) {
      EXPECT_FALSE(fact.wrong) << fact.fact << " is " << fact.hidden << ", found " << fact.found;
      const bool to_nearest = fact.hidden.ends_with("nearest_even");
      if (!adds || !to_nearest || fact_of(found, "rounding") != "nearest_even") continue;
      ++all;
      known += fact.found.empty() ? 0 : 1;
    }
    EXPECT_TRUE(found.validation.holds());
  }
  EXPECT_GE(all, static_cast<std::size_t>(effort(40)) / 8);
  EXPECT_EQ(known, all);
}

}  // namespace
}  // namespace plumb::probe::sums_test

// Do the statistics equal what one computes by hand, and does each see what the others miss?
#include "trace/statistics.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "number/rounding.hpp"

namespace plumb::statistics_test {
namespace {

constexpr std::size_t at(Statistic s) { return static_cast<std::size_t>(s); }

Tensor noisy(const Tensor& base, double size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, size);
  Tensor x = base;
  for (float& v : x.values) v += static_cast<float>(normal(random));
  return x;
}

TEST(Statistics, OfADifferenceByHand) {
  const Tensor reference(2, 2, 1.0F);
  Tensor draw = reference, candidate = reference;
  draw(0, 0) = 2;
  candidate(1, 1) = 3;
  const Draws draws(reference, fp32, {draw});

  const Sample s = draws.of(candidate);

  EXPECT_DOUBLE_EQ(s[at(Statistic::norm)], 2);
  EXPECT_DOUBLE_EQ(s[at(Statistic::mismatch)], 0.25);
  EXPECT_DOUBLE_EQ(s[at(Statistic::scale)], 2.0 / 4);
  EXPECT_DOUBLE_EQ(draws.relative_noise(), std::sqrt(1.0 / 4));
}

// Each draw errs by one ulp in a row of its own, and so does a run that is one more of them.
TEST(Statistics, OfACandidateAndOfADrawAreAlikeWhereNoOtherErrs) {
  const Tensor reference(64, 1, 1.0F);
  std::vector<Tensor> runs(5, reference);
  for (std::size_t k = 0; k < runs.size(); ++k) runs[k](k, 0) += 0x1p-23F;
  const Draws draws(reference, fp32, {runs[0], runs[1], runs[2], runs[3]});
  const Sample candidate = draws.of(runs[4]), draw = draws.of_draw(0);
  for (const Statistic of : {Statistic::norm, Statistic::mismatch, Statistic::row}) {
    EXPECT_DOUBLE_EQ(candidate[at(of)], draw[at(of)]) << name_of(of);
  }
}

// Numbers of BF16, of which one row or column is 1000 times the others, and draws that are off by an ulp
// here and there; another row or column is lost.
struct OneIsLarge {
  Tensor reference = Tensor(64, 64);
  std::vector<Tensor> draws;
  std::mt19937 random{5};

  explicit OneIsLarge(bool column) {
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < 64; ++i) {
      for (std::size_t j = 0; j < 64; ++j) {
        const double large = (column ? j : i) == 0 ? 1000 : 1;
        reference(i, j) = static_cast<float>(round_to(large * normal(random), bf16));
      }
    }
    for (int k = 0; k < 5; ++k) draws.push_back(drawn());
  }
  Tensor drawn() {
    Tensor x = reference;
    for (float& v : x.values) {
      if (random() % 3 == 0) v += static_cast<float>(ulp(static_cast<double>(v), bf16));
    }
    return x;
  }
  // How much larger a statistic is than that of a draw.
  double seen(Statistic of, const Tensor& x) const {
    const Draws all(reference, bf16, {draws[0], draws[1], draws[2], draws[3]});
    double largest = all.of(draws[4])[at(of)];
    for (std::size_t k = 0; k < 4; ++k) largest = std::max(largest, all.of_draw(k)[at(of)]);
    return all.of(x)[at(of)] / largest;
  }
};

TEST(Statistics, ALargeColumnHidesNoOther) {
  const OneIsLarge of(true);
  Tensor x = of.draws[4];
  for (std::size_t i = 0; i < 64; ++i) x(i, 5) = 0;
  EXPECT_GT(of.seen(Statistic::element, x), 5);
}

// A number near zero errs as much as the others, and by chance less in four draws.
TEST(Statistics, NumbersOfAVectorAreNotMeasuredInTheirUlps) {
  Tensor reference(64, 1, 1.0F);
  reference(7, 0) = 1e-6F;
  std::vector<Tensor> draws;
  for (unsigned k = 0; k < 5; ++k) draws.push_back(noisy(reference, 1e-4, k));
  for (std::size_t k = 0; k < 4; ++k) draws[k](7, 0) = reference(7, 0) + 1e-7F;
  reference(8, 0) = 1e-5F;
  for (Tensor& draw : draws) draw(8, 0) = reference(8, 0) + 1e-4F;
  draws[4](7, 0) = reference(7, 0) + 1e-4F;
  const Draws all(reference, fp32, {draws[0], draws[1], draws[2], draws[3]});
  EXPECT_LT(all.of(draws[4])[at(Statistic::row)], 5);
}

TEST(Statistics, ALargeRowHidesNoOther) {
  const OneIsLarge of(false);
  Tensor x = of.draws[4];
  for (std::size_t j = 0; j < 64; ++j) x(5, j) = 0;
  EXPECT_GT(of.seen(Statistic::row, x), 5);
  EXPECT_GT(of.seen(Statistic::element, x), 5);
}

// Of rows that end within eight elements.
TEST(Statistics, OnlyScaleKnowsTheSign) {
  const Tensor reference(3, 19, 1.0F);
  const Tensor draw = noisy(reference, 1e-3, 1);
  Tensor up = noisy(reference, 0.1, 2), down = reference;
  up(1, 18) = 1;
  for (std::size_t e = 0; e < up.size(); ++e) {
    const float by = up.values[e] - 1;
    up.values[e] = 1 + by;
    down.values[e] = 1 - by;
  }
  const Draws draws(reference, bf16, {draw});
  const Sample above = draws.of(up), below = draws.of(down);
  EXPECT_DOUBLE_EQ(below[at(Statistic::mismatch)], 56.0 / 57);
  EXPECT_NEAR(below[at(Statistic::scale)], -above[at(Statistic::scale)], 1e-6);
  for (const Statistic of :
       {Statistic::norm, Statistic::mismatch, Statistic::row, Statistic::element}) {
    EXPECT_NEAR(below[at(of)], above[at(of)], 1e-5 * above[at(of)]) << name_of(of);
  }
}

TEST(Statistics, OneFlipOfARowIsFreeAndASecondIsNot) {
  const Tensor reference(1, 4, 1.0F);
  const Tensor draw = noisy(reference, 1e-3, 1);
  Tensor one = reference, two = reference;
  one(0, 0) += 0x1p-7F;  // one ulp of bf16 at 1
  two(0, 0) += 0x1p-7F;
  two(0, 1) += 0x1p-7F;
  const Draws draws(reference, bf16, {draw});
  EXPECT_NEAR(draws.of(one)[at(Statistic::row)], 0, 1e-6);
  EXPECT_GT(draws.of(two)[at(Statistic::row)], 1);
  EXPECT_EQ(draws.of(one)[at(Statistic::element)], 0);
}

// Its square is rounded as it is in the sum of the row.
TEST(Statistics, LessThanOneFlipOfARowIsFreeToTheLastBit) {
  const Tensor reference(40, 40, 1.0F);
  Tensor other = reference;
  for (std::size_t i = 0; i < 40; ++i) other(i, i) += 7e-3F + 1e-5F * static_cast<float>(i);
  EXPECT_EQ(Draws(reference, bf16, {reference}).of(other)[at(Statistic::row)], 0);
}

// Where nobody errs, a row's field is a hundredth of n u^2 / 12: of zeros, too, whose ulp is the format's
// smallest number.
TEST(Statistics, ARowOfZerosHasUlpsToo) {
  const Tensor zeros(2, 32), wrong(2, 32, 0x1p-133F);
  const Draws draws(zeros, bf16, {zeros, zeros});
  const double row = draws.of(wrong)[at(Statistic::row)];
  EXPECT_NEAR(row, std::sqrt((32 - 1) * 12 / (0.01 * 32)), 1e-9 * row);
}

TEST(Statistics, RowSeesOneWrongRowThatTheNormDrowns) {
  const Tensor reference(256, 32, 1.0F);
  std::vector<Tensor> draws;
  for (unsigned k = 0; k < 4; ++k) draws.push_back(noisy(reference, 0.01, k + 1));
  const Draws seen(reference, fp32, {draws[0], draws[1], draws[2], draws[3]});
  const Tensor healthy = noisy(reference, 0.01, 9);
  Tensor wrong = healthy;
  for (std::size_t j = 0; j < 32; ++j) wrong(7, j) += 0.05F;

  EXPECT_LT(seen.of(wrong)[at(Statistic::norm)], 1.06 * seen.of(healthy)[at(Statistic::norm)]);
  EXPECT_GT(seen.of(wrong)[at(Statistic::row)], 3 * seen.of(healthy)[at(Statistic::row)]);
  EXPECT_NEAR(seen.of(wrong, 7)[at(Statistic::row)], seen.of(healthy, 7)[at(Statistic::row)], 1e-9);
  EXPECT_EQ(top_row(wrong, healthy).row, 7U);
}

TEST(Statistics, ScaleSeesWhatTheNormDrowns) {
  const Tensor reference(64, 64, 1.0F);
  const Tensor draw = noisy(reference, 0.05, 1);
  Tensor scaled = noisy(reference, 0.05, 2);
  const double before = Draws(reference, fp32, {draw}).of(scaled)[at(Statistic::scale)];
  for (float& x : scaled.values) x *= 1.01F;
  const double after = Draws(reference, fp32, {draw}).of(scaled)[at(Statistic::scale)];
  EXPECT_NEAR(after - before, 0.01, 1e-4);
}

// One part of K to the mean, or to what the worst errs in ulps.
void shrink_by_formula(std::vector<double>& energies, const std::vector<double>& ulps,
                       std::size_t numbers, double k) {
  double sum = 0, worst = numbers < 8 ? std::numeric_limits<double>::infinity() : 0;
  for (std::size_t i = 0; i < energies.size(); ++i) {
    sum += energies[i];
    worst = std::max(worst, energies[i] / ulps[i]);
  }
  for (std::size_t i = 0; i < energies.size(); ++i) {
    const double to = std::min(sum / static_cast<double>(energies.size()), worst * ulps[i]);
    energies[i] += (to - energies[i]) / std::max(k, 2.0);
  }
}

// The formulas of statistics.hpp, number by number in FP64.
Sample by_formula(const Tensor& r, const Tensor& x, const std::vector<Tensor>& draws,
                  const Format& format) {
  const bool vector = r.cols == 1;
  const auto k = static_cast<double>(draws.size());
  std::vector<double> a(r.rows), b(r.cols), of_rows(r.rows), of_columns(r.cols);
  double sum = 0;
  for (std::size_t i = 0; i < r.rows; ++i) {
    for (std::size_t j = 0; j < r.cols; ++j) {
      for (const Tensor& draw : draws) {
        const double e = static_cast<double>(draw(i, j)) - r(i, j);
        a[i] += e * e / k;
        b[j] += e * e / k;
        sum += e * e / k;
      }
    }
  }
  for (std::size_t i = 0; i < r.rows; ++i) {
    for (std::size_t j = 0; j < r.cols; ++j) {
      const double u = ulp(r(i, j), format);
      of_rows[i] += u * u;
      of_columns[j] += u;
    }
  }
  for (double& one : of_columns) one *= one;
  shrink_by_formula(a, of_rows, r.cols, k);
  shrink_by_formula(b, of_columns, r.rows, k);
  double norm = 0, different = 0, along = 0, own = 0, row = 0, element = 0;
  for (std::size_t i = 0; i < r.rows; ++i) {
    double energy = 0, free = 0, floor = 0;
    for (std::size_t j = 0; j < r.cols; ++j) {
      const double e = static_cast<double>(x(i, j)) - r(i, j), u = ulp(r(i, j), format);
      const double field = vector ? a[i] : a[i] * b[j] / sum;
      const double excess = std::max(std::fabs(e) - u, 0.0);
      energy += e * e;
      along += e * r(i, j);
      own += static_cast<double>(r(i, j)) * r(i, j);
      different += e != 0 ? 1 : 0;
      free = vector ? 0 : std::max(free, std::min(std::fabs(e), u));
      floor += u * u / 12;
      element = std::max(element, excess / std::sqrt(field + u * u / 12));
    }
    norm += energy;
    row = std::max(row, std::sqrt((energy - free * free) / (a[i] + 0.01 * floor)));
  }
  return {std::sqrt(norm), different / static_cast<double>(r.size()), along / own, row, element};
}

// Of rows that end anywhere in sixteen elements, or in 256 of them; of numbers so small and so large that
// FP32 does not hold their squares, too.
TEST(Statistics, AreThoseOfTheFormulas) {
  for (const Format& format : {bf16, fp32}) {
    for (const std::size_t cols : {1U, 3U, 8U, 16U, 21U, 32U, 71U, 300U}) {
      for (const float size : {1e-24F, 1e-14F, 1.0F, 1e12F, 1e24F}) {
        const double ulps = 4 * format.unit_roundoff();
        Tensor reference = noisy(Tensor(9, cols), 1, static_cast<unsigned>(cols));
        std::vector<Tensor> runs;
        for (unsigned k = 0; k < 6; ++k) {
          runs.push_back(reference);
          for (std::size_t e = 0; e < reference.size(); ++e) {
            const Tensor by = noisy(Tensor(1, 1), ulps, 97 * k + static_cast<unsigned>(e));
            // Some do not differ, and in the last run one does by far.
            const float times = (e + k) % 3 == 0 ? 0 : k == 5 && e == cols / 2 ? 50 : 1;
            runs[k].values[e] *= 1 + times * by.values[0];
          }
        }
        for (Tensor* x : {&reference, &runs[0], &runs[1], &runs[2], &runs[3], &runs[4], &runs[5]}) {
          for (float& v : x->values) v *= size;
          round_in_place(x->values, format);
        }
        const std::vector<Tensor> four(runs.begin(), runs.begin() + 4);
        const Draws draws(reference, format, {four.begin(), four.end()});
        for (const Tensor& run : {runs[4], runs[5]}) {
          const Sample seen = draws.of(run), right = by_formula(reference, run, four, format);
          for (const Statistic of : all_statistics) {
            EXPECT_NEAR(seen[at(of)], right[at(of)], 1e-6 * std::fabs(right[at(of)]) + 1e-12)
                << name_of(of) << " of " << format.name << ", 9 x " << cols << ", " << size;
          }
        }
      }
    }
  }
}

TEST(Statistics, TheWorstElementIsSeenBesideADrawThatIsNotFinite) {
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const Tensor reference(2, 40, 1.0F);
    Tensor draw = noisy(reference, 1e-3, 1), candidate = reference;
    draw(0, 7) = wrong;
    candidate(1, 9) = 2;
    const Draws draws(reference, bf16, {draw, reference, reference, reference});
    EXPECT_GT(draws.of(candidate)[at(Statistic::element)], 1) << wrong;
  }
}

// Where no draw errs the field is zero, and the smallest error is beyond all measure; a larger one behind
// it is still seen.
TEST(Statistics, TheWorstElementBehindAnotherOneIsSeenWhereNothingErrs) {
  for (const Format& format : {bf16, fp32}) {
    const Tensor zeros(1, 40);
    Tensor small = zeros, both = zeros;
    small(0, 3) = both(0, 3) = 0x1p-10F;
    both(0, 35) = 1;
    const Draws draws(zeros, format, {zeros, zeros, zeros, zeros});
    const double of_small = draws.of(small)[at(Statistic::element)];
    EXPECT_NEAR(draws.of(both)[at(Statistic::element)], 1024 * of_small, 1e-3 * 1024 * of_small)
        << format.name;
  }
}

}  // namespace
}  // namespace plumb::statistics_test

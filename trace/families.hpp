// trace/families.hpp: from the tests of many tensors to the chance of one healthy run.
//
// A family is the tests of one statistic, of all tensors. Its largest t of the candidate is held
// against the largest t of each twin, judged by the others: whatever ties the tensors of a run
// together, and however many there are, is in those too. Beyond them the tail is a Student's, fitted
// to the t of all tensors and twins.
//
//   q       -ln(1 - p) of the smallest p of a family: Exp(1/N) where it is of N unrelated tests
//   chance  of a family, q or more improbable: 1 - (1 + q / sum_k q_k)^-K, the predictive
//           distribution of an exponential after K of its kind
//
// The families of a run hang together, too: a run's chance is that of its families' smallest, in the
// same way beside the twins' smallest.
//
// TESTED   tests/trace/families_test.cpp; experiments false-alarms, healthy-layouts
// SOURCES  twins.md V1
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/sees.hpp"
#include "trace/spreads.hpp"

namespace plumb::trace {

// Student's law of the t of healthy twins, beyond where they are: t / core has `degrees`.
struct Tail {
  double degrees = 1;
  double core = 1;
};
// Returns the likeliest, of at most so many degrees. The core is 1 unless it is asked for.
Tail fitted(const std::vector<double>& t, double most_degrees, bool with_core);

// The law of one more number, of which a smaller is the more improbable, after K exponential ones of the
// same unknown mean [AD75], of at most 1.
class OneMore {
 public:
  explicit OneMore(std::vector<double> q) : q_(std::move(q)) {}

  double chance(double q) const { return chance_by(sum_of(q_.size()), count(), q); }
  double q(double chance) const;  // of that chance
  // Of number k by the others.
  double chance_of(std::size_t k) const { return chance_by(sum_of(k), count() - 1, q_[k]); }

 private:
  static double chance_by(double sum, double count, double q);
  double count() const { return static_cast<double>(q_.size()); }
  double sum_of(std::size_t without) const;

  std::vector<double> q_;
};

class FamilyOfTests {
 public:
  // The largest t of each twin, of tests that look at both signs or at large t only.
  FamilyOfTests(Tail tail, bool two_sided, const std::vector<double>& largest);

  // The chance that a healthy run shows t or more anywhere in this family.
  double chance(double t) const;
  // The t of that chance.
  double limit(double chance) const;
  // The chance that a healthy run shows as much as twin k does, by the others.
  double chance_of_twin(std::size_t k) const { return law_.chance_of(k); }

 private:
  double q_of(double t) const;

  Tail tail_;
  bool two_sided_;
  OneMore law_;
};

// A twin that stands apart from the others, as a candidate may.
struct Apart {
  std::size_t twin = 0;
  std::string id;     // of the tensor by which it does
  double chance = 1;  // that one of so many healthy twins shows as much
};

// The tests of a run and their families.
class Tests {
 public:
  // At least three twins, or two with learnt spreads; throws Failure on fewer.
  Tests(const std::vector<Measured>& all, const Learnt* learnt);

  const std::vector<Null>& nulls() const { return nulls_; }
  // Can this one be failed at all?
  static bool judges(const Null& null) {
    return null.how == Case::live || null.how == Case::few || null.how == Case::bitwise;
  }
  std::size_t count() const;

  // The chance that a healthy run shows as much anywhere: 0 where nothing may differ, 1 where
  // nothing is judged.
  double chance(const Null& null, const Sample& sample) const;

  // The twin that stands farthest apart, judged by the others; nothing where no test is of a family.
  const std::optional<Apart>& apart() const { return apart_; }

 private:
  friend class TestsAt;
  const FamilyOfTests& family_of(const Null& null) const;
  // The chance in one family of what has this chance in a run.
  double of_a_family(double chance) const;

  std::vector<Null> nulls_;
  std::vector<FamilyOfTests> families_;
  std::optional<OneMore> anywhere_;                             // of the families' smallest chance
  std::array<std::size_t, all_statistics.size() + 1> place_{};  // of a statistic's; of few's
  std::optional<Apart> apart_;
};

// The same at one chance, whose limit in each family is found once. The tests have to outlive it.
class TestsAt {
 public:
  TestsAt(const Tests& tests, double chance);

  // The size of the statistic that has this chance.
  double threshold(const Null& null) const;
  // How far a sample lies beyond what twins show, over how far it may lie beyond at this chance.
  // At most 1 passes; healthy tensors stand well below.
  double standing(const Null& null, const Sample& sample) const;

 private:
  double limit_of(const Null& null) const;

  const Tests& tests_;
  std::vector<double> limits_;  // by family
};

}  // namespace plumb::trace

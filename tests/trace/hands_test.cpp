// Do the processes of a job come to the numbers of one, whatever they carry; and do all hear of a
// failure?
#include "trace/hands.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <limits>
#include <thread>

#include "number/outcome.hpp"
#include "trace/store/carried.hpp"

namespace plumb::hands_test {
namespace {

// Processes on threads.
class Office {
 public:
  explicit Office(std::size_t size) : given_(size), meet_(static_cast<std::ptrdiff_t>(size)) {}

  class Desk final : public Job {
   public:
    Desk(Office& office, std::size_t rank) : office_(office), rank_(rank) {}
    std::size_t rank() const override { return rank_; }
    std::size_t size() const override { return office_.given_.size(); }
    std::vector<std::string> exchange(const std::string& mine) const override {
      office_.given_[rank_] = mine;
      office_.meet_.arrive_and_wait();
      std::vector<std::string> all = office_.given_;
      office_.meet_.arrive_and_wait();
      return all;
    }

   private:
    Office& office_;
    std::size_t rank_;
  };

  // What work(job) returns in each process.
  template <class Work>
  auto all(const Work& work) {
    std::vector<decltype(work(std::declval<const Job&>()))> out(given_.size());
    std::vector<std::jthread> processes;
    for (std::size_t rank = 0; rank < given_.size(); ++rank)
      processes.emplace_back([&, rank] { out[rank] = work(Desk(*this, rank)); });
    processes.clear();
    return out;
  }

 private:
  std::vector<std::string> given_;
  std::barrier<> meet_;
};

Profile profile(std::size_t i) {
  Profile p = profile_for(i + 1, 2, false);
  p.note(0, 1, 0.1 * static_cast<double>(i));
  return p;
}

TEST(Hands, DoEachPieceOfWorkOnceAndThrowWhatTheFirstThrew) {
  for (const std::size_t threads : {1U, 2U, 7U}) {
    std::vector<std::atomic<int>> done(100);
    by_hands(threads, done.size(), [&](std::size_t i) { ++done[i]; });
    for (const auto& d : done) EXPECT_EQ(d, 1);
    const auto throws = [](std::size_t i) {
      if (i % 10 == 7) throw Failure(std::to_string(i));
    };
    try {
      by_hands(threads, 100, throws);
      ADD_FAILURE();
    } catch (const Failure& failure) {
      EXPECT_STREQ(failure.what(), "7");
    }
  }
}

TEST(Hands, OfAJobDoEachItemOnceAndAllHaveAllResults) {
  for (const std::size_t size : {1U, 3U, 8U}) {
    std::vector<std::atomic<int>> done(7);
    const auto all = Office(size).all([&](const Job& job) {
      return results<Profile>({2, &job}, done.size(), [&](std::size_t i) {
        ++done[i];
        return profile(i);
      });
    });
    for (const auto& times : done) EXPECT_EQ(times, 1);
    for (const auto& of_one : all) {
      ASSERT_EQ(of_one.size(), done.size());
      for (std::size_t i = 0; i < done.size(); ++i) {
        EXPECT_EQ(of_one[i].rows, i + 1);
        EXPECT_EQ(of_one[i].along_columns, profile(i).along_columns);
      }
    }
  }
}

TEST(Hands, OfAJobAllHearOfTheFailureOfOne) {
  const auto said = Office(3).all([&](const Job& job) -> std::string {
    try {
      results<Profile>({1, &job}, 9, [](std::size_t i) {
        if (i % 3 > 0) throw Failure("tensor " + std::to_string(i) + " cannot be read");
        return profile(i);
      });
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  });
  for (const std::string& text : said) EXPECT_EQ(text, "tensor 1 cannot be read");
}

template <class T>
T carried(const T& x) {
  T y{};
  unpack(packed(x), y);
  return y;
}

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double odd = 0x1.23456789abcdfp-3;  // a number that no shorter format has

TEST(Carried, FindingsAreWhatTheyWere) {
  Finding f{"m0/norm/out", "replay", inf, "row 3 \u00b5 \xff", {{3, 4}}, odd, -0.0, 5e-324};
  f.term = "sum";
  f.profile = profile(2);
  f.p = 0.5;
  f.rank = 7;
  f.may_follow = true;
  const Replayed seen = carried(Replayed{{{"a", odd}, {"b", inf}}, {f, Finding{}}, {{"c", "why"}}});
  EXPECT_EQ(seen.ratios, (std::map<std::string, double>{{"a", odd}, {"b", inf}}));
  EXPECT_EQ(seen.not_judged, (std::vector<NotJudged>{{"c", "why"}}));
  ASSERT_EQ(seen.findings.size(), 2U);
  const Finding& g = seen.findings[0];
  EXPECT_EQ(std::tie(g.id, g.statistic, g.ratio, g.detail, g.value, g.tolerance, g.term, g.p),
            std::tie(f.id, f.statistic, f.ratio, f.detail, f.value, f.tolerance, f.term, f.p));
  EXPECT_EQ(g.at->column, 4U);
  EXPECT_TRUE(std::signbit(*g.expected));
  EXPECT_EQ(g.rank, 7);
  EXPECT_TRUE(g.may_follow);
  EXPECT_EQ(g.profile.along_columns, f.profile.along_columns);
  EXPECT_FALSE(seen.findings[1].at || seen.findings[1].value || seen.findings[1].rank);
}

TEST(Carried, WhatPassesShowIsWhatItWas) {
  Looked x;
  x.pair.both = true;
  x.pair.difference = {odd, 2, 3, 0x1.234568p-140F, 5, 6, 7};
  x.pair.close = inf;
  x.pair.perturbed = {true, {}};
  x.candidate = {{{4, {1, 2, 3, 0, std::numeric_limits<float>::quiet_NaN(), 0.5F}}}, false};
  const Looked y = carried(x);
  EXPECT_EQ(y.pair.difference.squares, odd);
  EXPECT_EQ(y.pair.difference.largest, 0x1.234568p-140F);
  EXPECT_EQ(y.pair.difference.ulps, 5U);
  EXPECT_EQ(y.pair.difference.non_finite, 7U);
  EXPECT_EQ(y.pair.close, inf);
  EXPECT_TRUE(y.pair.both && !y.pair.equal && y.pair.perturbed && y.pair.perturbed->equal);
  EXPECT_TRUE(y.reference.finite && !y.candidate.finite);
  ASSERT_EQ(y.candidate.disagreements.size(), 1U);
  EXPECT_TRUE(std::isnan(y.candidate.disagreements.at(4).counts));
  EXPECT_EQ(y.candidate.disagreements.at(4).here, 0.5F);

  const OfTwins twins = carried(OfTwins{{x.reference, x.candidate}, {true, false}});
  EXPECT_EQ(twins.moved, (std::vector<bool>{true, false}));
  EXPECT_FALSE(twins.seen[1].finite);
}

TEST(Carried, SamplesAreWhatTheyWere) {
  const Measured m{"id", "kind", 2, {{0, odd, -1, inf, 5e-324}}, {1, 2, 3, 4, 5}, odd, 7, 8, false};
  const Measured n = carried(m);
  EXPECT_EQ(std::tie(n.id, n.kind, n.group, n.draws, n.candidate, n.noise, n.norm_of_reference,
                     n.elements, n.touched),
            std::tie(m.id, m.kind, m.group, m.draws, m.candidate, m.noise, m.norm_of_reference,
                     m.elements, m.touched));
}

}  // namespace
}  // namespace plumb::hands_test

// Do gradients behind a clip allow one factor in every format; is one found that was clipped otherwise; does
// it accuse nobody where the reference has several factors; and who is to blame where a gradient was wrong
// before?
#include "trace/clip.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/twin_traces.hpp"
#include "trace/levels.hpp"
#include "trace/report/report.hpp"

namespace plumb::clip_test {
namespace {

Tensor times(Tensor x, float factor, const Format& format) {
  for (float& v : x.values) v = round_to(v * factor, format);
  return x;
}

// Gradients of a job, and what a clip made of them.
struct Job {
  std::vector<Tensor> gradients, clipped;
  Format format;
  Merged merged = {};

  Job(unsigned seed, const Format& of, float factor, std::size_t larger = 1) : format(of) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const std::size_t rows : {40, 7, 1, 90, 12}) {
      Tensor x(rows * larger, 33);
      const float size = std::exp(2 * normal(random));
      for (float& v : x.values) v = round_to(normal(random) * size, format);
      gradients.push_back(std::move(x));
      clipped.push_back(times(gradients.back(), factor, format));
    }
  }
  trace::Run run() {
    merged = {};
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      for (const auto& [end, of] : {std::pair("/grad", &gradients), {"/clipped_grad", &clipped}}) {
        const std::string id = "w" + std::to_string(i) + end;
        merged.values[id] = std::make_shared<const Tensor>((*of)[i]);
        merged.formats.emplace(id, format);
      }
    }
    return trace::Run(merged);
  }
};

ClipSeen seen_of(Job reference, Job candidate) {
  return clips(reference.run(), candidate.run(), {}, true, {},
               [](const std::string&) { return true; }, {});
}

TEST(Clip, HasOneFactorInEveryFormat) {
  std::mt19937 random(1);
  for (unsigned seed = 1; seed <= static_cast<unsigned>(effort(60)); ++seed) {
    for (const Format& format : {fp32, bf16, fp16}) {
      const float factor = std::uniform_real_distribution<float>(0.01F, 1)(random);
      Job job(seed, format, factor);
      for (std::size_t i = 0; i < job.gradients.size(); ++i) {
        const Scaled one = scaled(Whole(std::make_shared<const Tensor>(job.gradients[i]), format),
                                  Whole(std::make_shared<const Tensor>(job.clipped[i]), format));
        EXPECT_TRUE(one.allows(factor)) << seed << " " << format.name << " " << factor;
      }
      const ClipSeen seen = seen_of(job, Job(seed + 1000, format, factor / 2));
      EXPECT_TRUE(seen.findings.empty()) << seen.findings.front().detail;
      EXPECT_TRUE(seen.note.starts_with("5 gradients behind a clip are those before it, times "))
          << seen.note;
    }
  }
}

TEST(Clip, OfOneGradientByAnotherFactorIsFoundThere) {
  for (const Format& format : {fp32, bf16}) {
    Job job(1, format, 0.25F);
    job.clipped[3] = job.gradients[3];
    const ClipSeen seen = seen_of(Job(2, format, 0.5F), job);
    ASSERT_EQ(seen.findings.size(), 1U);
    const Finding& f = seen.findings.front();
    EXPECT_EQ(f.id, "w3/clipped_grad");
    EXPECT_EQ(f.statistic, "replay");
    EXPECT_TRUE(f.detail.starts_with("it is its gradient before the clip times ")) << f.detail;
    EXPECT_NEAR(std::stod(f.detail.substr(f.detail.rfind(' '))), 0.25, 0.0005) << f.detail;
    EXPECT_EQ(seen.note, "");
  }
}

// Numbers of FP32 that are said to be BF16's have their own last bit.
TEST(Clip, OfAFormatThatItsNumbersAreNotIsHeldToTheirOwn) {
  Job reference(2, fp32, 0.5F), healthy(1, fp32, 0.25F);
  for (Job* job : {&reference, &healthy}) job->format = bf16;
  EXPECT_TRUE(seen_of(reference, healthy).findings.empty());
  Job wrong = healthy;
  for (std::size_t i = 0; i < 33; ++i) wrong.clipped[4].values[i] *= 1.001F;
  EXPECT_EQ(seen_of(reference, wrong).findings.size(), 1U);
}

// Of a slice of one rank, as one that clips by the norm of its own shares leaves it.
TEST(Clip, OfSomeRowsByAnotherFactorIsFoundThere) {
  Job job(1, bf16, 0.25F);
  for (std::size_t i = 6 * 33; i < 12 * 33; ++i) job.clipped[4].values[i] *= 1.02F;
  for (float& v : job.clipped[4].values) v = round_to(v, bf16);
  const ClipSeen seen = seen_of(Job(1, bf16, 0.25F), job);
  ASSERT_EQ(seen.findings.size(), 1U);
  const Finding& f = seen.findings.front();
  EXPECT_EQ(f.id, "w4/clipped_grad");
  EXPECT_TRUE(f.detail.starts_with("it is not its gradient before the clip, times one factor: ("))
      << f.detail;
  ASSERT_TRUE(f.at);
  EXPECT_GE(f.at->row, 6U);
}

TEST(Clip, HasNoFactorForATurnedSignOrForWhatWasZero) {
  Tensor x(1, 3), y(1, 3);
  x.values = {1, -2, 0};
  const auto of = [&](std::vector<float> clipped) {
    y.values.assign(clipped.begin(), clipped.end());
    return scaled(Whole(std::make_shared<const Tensor>(x), fp32),
                  Whole(std::make_shared<const Tensor>(y), fp32));
  };
  EXPECT_TRUE(of({0.5, -1, 0}).fits());
  EXPECT_NEAR(of({0.5, -1, 0}).least, 0.5, 1e-7);
  EXPECT_NEAR(of({0.5, -1, 0}).most, 0.5, 1e-7);
  EXPECT_FALSE(of({0.5, 1, 0}).fits());
  EXPECT_FALSE(of({0.5, -1, 1}).fits());
  EXPECT_FALSE(of({0.5, -1.0001F, 0}).fits());
  EXPECT_TRUE(of({0.5, std::numeric_limits<float>::infinity(), 0}).fits());  // told elsewhere
}

TEST(Clip, IsNotJudgedWhereTheReferenceHasSeveralFactors) {
  Job reference(1, bf16, 0.25F), candidate(1, bf16, 0.25F);
  for (Tensor& x : reference.clipped) {
    for (float& v : x.values) v = std::clamp(v, -0.1F, 0.1F);
  }
  candidate.clipped[0] = candidate.gradients[0];
  const ClipSeen seen = seen_of(reference, candidate);
  EXPECT_TRUE(seen.findings.empty());
  EXPECT_TRUE(seen.note.starts_with("gradients behind a clip are not judged by those before"))
      << seen.note;
}

TEST(Clip, OfARunThatLeftOneOutIsToldFromOneThatLostIt) {
  Job job(1, bf16, 0.25F);
  trace::Run run = job.run();
  run.values.erase("w2/clipped_grad");
  EXPECT_TRUE(was_not_clipped(run, "w2/clipped_grad"));
  EXPECT_FALSE(was_not_clipped(run, "w2/grad"));
  EXPECT_FALSE(was_not_clipped(run, "another/clipped_grad"));
  std::erase_if(run.values, [](const auto& one) { return one.first.ends_with("/clipped_grad"); });
  EXPECT_FALSE(was_not_clipped(run, "w2/clipped_grad"));  // nobody clips
}

TEST(Clip, ThatBeginsBeforeTheSumOverRanksIsToldOnce) {
  const auto of = [](const std::string& id) {
    return Finding{id, "structure", infinite, "replicas disagree: ranks 0 and 1 hold ..."};
  };
  const auto tensor = std::make_shared<const Tensor>(1, 1);
  const trace::Run clips(merged_of({{"a/grad", tensor}, {"a/clipped_grad", tensor}},
                                   {{"a/grad", fp32}, {"a/clipped_grad", fp32}}));
  const trace::Run knows_no_clip(merged_of({{"a/grad", tensor}}, {{"a/grad", fp32}}));
  EXPECT_NE(said_too_early({of("a/grad"), of("b/grad")}, clips), "");
  EXPECT_EQ(said_too_early({of("a/grad"), of("b/grad")}, knows_no_clip), "");
  EXPECT_EQ(said_too_early({of("a/grad")}, clips), "");
  EXPECT_EQ(said_too_early({of("a/grad"), of("b/grad"), of("b/clipped_grad")}, clips), "");
  EXPECT_EQ(said_too_early({of("m0/a/out"), of("m0/b/out")}, clips), "");
}

TEST(Clip, OfWhatOneRunLacksIsLeftAlone) {
  Job job(1, bf16, 0.25F);
  job.gradients.pop_back();
  job.clipped.pop_back();
  EXPECT_TRUE(seen_of(Job(1, bf16, 0.25F), job).note.starts_with("4 gradients"));
  job.gradients.clear();
  EXPECT_EQ(seen_of(Job(1, bf16, 0.25F), job).note, "");
}

// Summands are rounded behind the clip, and added then: last bits off one factor.
TEST(Clip, OfSummandsIsNotJudged) {
  Job reference(2, fp32, 0.5F), job(1, fp32, 0.25F);
  for (float& v : job.clipped[3].values) v = std::nextafter(std::nextafter(v, 9.0F), 9.0F);
  ASSERT_FALSE(seen_of(reference, job).findings.empty());
  const ClipSeen seen = clips(reference.run(), job.run(), {}, true, {"w3/clipped_grad"},
                              [](const std::string&) { return true; }, {});
  EXPECT_TRUE(seen.findings.empty()) << seen.findings.front().detail;
  EXPECT_TRUE(seen.note.starts_with("4 gradients behind a clip are those before it")) << seen.note;
  EXPECT_TRUE(
      seen.note.ends_with("its size is not judged: 1 more is held in summands, which are "
                          "clipped before they are added"))
      << seen.note;
}

// A norm as jobs compute it.
struct Norm {
  std::size_t lanes = 8;       // partial sums side by side
  std::size_t shards = 1;      // of each gradient, added behind one another
  float counted = 1;           // how often the first gradient is
  const Format* kept = &fp32;  // of each gradient and of all
  bool added = true;           // 1e-6
  float limit = 1;
};

float sum_of_squares(const float* x, std::size_t n, std::size_t lanes) {
  std::vector<float> sums(lanes);
  for (std::size_t i = 0; i < n; ++i) sums[i % lanes] += x[i] * x[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

void clip(Job& job, const Norm& how) {
  float squares = 0;
  for (std::size_t i = 0; i < job.gradients.size(); ++i) {
    const Tensor& x = job.gradients[i];
    float sum = 0;
    for (std::size_t k = 0; k < how.shards; ++k) {
      const std::size_t begin = k * x.size() / how.shards, end = (k + 1) * x.size() / how.shards;
      sum += sum_of_squares(x.values.data() + begin, end - begin, how.lanes);
    }
    const float norm = round_to(std::sqrt(sum), *how.kept);
    squares += norm * norm * (i == 0 ? how.counted : 1);
  }
  const float norm = round_to(std::sqrt(squares), *how.kept);
  const float factor = std::min(1.0F, how.limit / (norm + (how.added ? 1e-6F : 0)));
  for (std::size_t i = 0; i < job.gradients.size(); ++i)
    job.clipped[i] = times(job.gradients[i], factor, job.format);
}

// A reference, a candidate and four twins, whose gradients differ by some parts in a thousand.
struct Jobs {
  Job reference, candidate;
  std::vector<Job> twins;

  Jobs(unsigned seed, const Format& format, const Norm& usual, const Norm& of_candidate,
       double apart = 0.003, std::size_t larger = 1)
      : reference(seed, format, 1, larger), candidate(other(seed, 1, format, apart, larger)) {
    clip(reference, usual);
    clip(candidate, of_candidate);
    for (unsigned k = 2; k < 6; ++k) {
      twins.push_back(other(seed, k, format, apart, larger));
      clip(twins.back(), usual);
    }
  }
  static Job other(unsigned seed, unsigned noise, const Format& format, double apart,
                   std::size_t larger) {
    Job job(seed, format, 1, larger);
    std::mt19937 random(noise);
    std::normal_distribution<double> normal;
    for (Tensor& x : job.gradients)
      x = times(std::move(x), static_cast<float>(1 + apart * normal(random)), format);
    return job;
  }
  ClipSeen seen(bool all = true) {
    std::vector<trace::Run> runs;
    for (Job& twin : twins) runs.push_back(twin.run());
    return clips(reference.run(), candidate.run(), runs, all, {},
                 [](const std::string&) { return true; }, {});
  }
  // That accuses nobody.
  std::string note() {
    const ClipSeen told = seen();
    EXPECT_TRUE(told.findings.empty()) << told.findings.front().detail;
    return told.note;
  }
};

TEST(ClipByNorm, HasOneLimitHoweverSquaresAreAdded) {
  int sized = 0, all = 0;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(effort(40)); ++seed) {
    for (const Format& format : {fp32, bf16}) {
      Norm usual{.added = seed % 2 == 0, .limit = 0.5F / static_cast<float>(seed)};
      Norm other = usual;
      other.lanes = seed % 3 == 0 ? 8 : 64;
      other.shards = 1 + seed % 4;
      Jobs jobs(seed, format, usual, other);
      sized += jobs.note().ends_with(", by their norm as in reference and twins") ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GE(sized, all * 3 / 4);  // a factor near a power of two leaves BF16's bits as they are
}

// A sum of as many numbers loses more than its last bits, and otherwise in another order.
TEST(ClipByNorm, HasOneLimitWhereManySquaresAreAddedInARow) {
  const Norm in_a_row{.lanes = 8}, spread{.lanes = 4096};
  Jobs jobs(3, fp32, in_a_row, spread, 0.003, 200);
  EXPECT_TRUE(jobs.note().ends_with(", by their norm as in reference and twins")) << jobs.note();
}

// The norm is off by half of what is counted once more.
TEST(ClipByNorm, ThatCountsAGradientTwiceIsFound) {
  int found = 0, all = 0;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(effort(20)); ++seed) {
    for (const Format& format : {fp32, bf16}) {
      Job job(seed, format, 1);
      std::vector<double> squares;
      for (const Tensor& x : job.gradients) {
        squares.push_back(
            std::inner_product(x.values.begin(), x.values.end(), x.values.begin(), 0.0));
      }
      const double whole = std::accumulate(squares.begin(), squares.end(), 0.0);
      const auto more = static_cast<float>(1e-3 * whole / squares[0]);  // a factor of 1 - 0.0005
      Jobs jobs(seed, format, {}, {.counted = 1 + more});
      const ClipSeen seen = jobs.seen();
      ++all;
      if (seen.findings.empty() && format == bf16) continue;  // a factor near a power of two
      ASSERT_EQ(seen.findings.size(), 1U) << seed << " " << format.name << " " << seen.note;
      ++found;
      const Finding& f = seen.findings.front();
      EXPECT_EQ(f.id, "w0/clipped_grad");  // stands for all
      EXPECT_EQ(f.statistic, "replay");
      EXPECT_GT(f.ratio, 1);
      EXPECT_NEAR(*f.expected / *f.value - 1, 5e-4, 2e-4);
    }
  }
  EXPECT_GE(found, all * 3 / 4);
}

// Its factor has eight bits: a healthy candidate's may be the next one.
TEST(ClipByNorm, InAShortFormatIsNotJudged) {
  for (unsigned seed = 1; seed <= static_cast<unsigned>(effort(100)); ++seed) {
    for (const double apart : {0.0002, 0.003}) {
      const Norm usual{.kept = &bf16};
      Jobs jobs(seed, bf16, usual, usual, apart);
      EXPECT_NE(jobs.note().find("its size is not judged: "), std::string::npos) << jobs.note();
    }
  }
}

// Of more gradients than were traced, and nobody says so. What they add varies by itself: that the runs fit a
// limit, and the candidate does not, is a rare chance.
TEST(ClipByNorm, OfOtherGradientsTooAccusesHardlyAnybody) {
  const int runs = effort(200);
  int accused = 0, judged = 0;
  for (int seed = 1; seed <= runs; ++seed) {
    Jobs jobs(static_cast<unsigned>(seed), bf16, {}, {});
    const auto forget = [](Job& job) {
      job.gradients.pop_back();
      job.clipped.pop_back();
    };
    forget(jobs.reference);
    forget(jobs.candidate);
    std::ranges::for_each(jobs.twins, forget);
    const ClipSeen seen = jobs.seen();
    accused += static_cast<int>(seen.findings.size());
    judged += seen.note.find("not judged") == std::string::npos ? 1 : 0;
    EXPECT_TRUE(jobs.seen(false).findings.empty());
    EXPECT_TRUE(
        jobs.seen(false).note.ends_with("others were clipped with them, which were not traced"));
  }
  EXPECT_LE(accused, 1 + runs / 50);
  EXPECT_LT(judged, runs);
}

TEST(ClipByNorm, IsNotJudgedWhereNothingTellsWhichItIs) {
  const auto why = [](Jobs jobs) { return jobs.note().substr(jobs.note().find("; ") + 2); };
  Jobs usual(1, bf16, {}, {});
  Jobs alone = usual;
  alone.twins.clear();
  EXPECT_EQ(why(alone), "its size is not judged: no twins of the reference have both");
  EXPECT_EQ(why(Jobs(1, bf16, {}, {}, 0)),
            "its size is not judged: reference and twins allow that it is a constant");
  EXPECT_EQ(why(Jobs(1, bf16, {.limit = 1e6F}, {.limit = 1e6F})),
            "its size is not judged: the reference clips nothing");
  EXPECT_EQ(why(Jobs(1, fp16, {}, {.counted = 2})),
            "its size is not judged: a norm in FP16 is hardly told from one in FP32");
  Jobs lacks = usual;
  lacks.candidate.gradients.pop_back();
  lacks.candidate.clipped.pop_back();
  EXPECT_EQ(why(lacks), "its size is not judged: the candidate lacks some");
  Jobs damaged(1, bf16, {}, {.counted = 2});
  damaged.candidate.gradients[0](0, 0) = std::numeric_limits<float>::infinity();
  EXPECT_EQ(why(damaged), "its size is not judged: not all of them are finite");
  Jobs zeros = usual;
  for (auto* of : {&zeros.candidate.gradients, &zeros.candidate.clipped}) {
    for (Tensor& x : *of) std::ranges::fill(x.values, 0.0F);
  }
  EXPECT_EQ(why(zeros), "its size is not judged: all of them are zero");
  Jobs another = usual;
  clip(another.twins[1], {.limit = 1.1F});
  EXPECT_EQ(why(another), "its size is not judged: in reference and twins it is not by their norm");
}

// A gradient that is wrong before changes the norm, and the limit stays.
TEST(ClipByNorm, OfAWrongGradientIsRight) {
  Jobs jobs(2, bf16, {}, {});
  for (Tensor& x : jobs.candidate.gradients) x = times(std::move(x), 1.3F, bf16);
  clip(jobs.candidate, {});
  EXPECT_TRUE(jobs.note().ends_with(", by their norm as in reference and twins")) << jobs.note();
}

// The whole way: what a producer traced before its clip and behind it.
class Clips : public WithTwinTraces {
 protected:
  static constexpr std::string_view end_ = "/main_grad";

  Clips() {
    options_.rules = {"twins", "replay"};
    for (const auto& [promise, trace] : {std::pair(&one_, &reference_), {&many_, &candidate_}}) {
      const Node& node = promise->nodes.front();  // somebody has to say how something was made
      trace->about[node.outputs.front()].made_by = MadeBy{node.op, node.inputs, 0, node.attributes};
    }
    for (const auto& [id, tensor] : r_.values) {
      if (id.ends_with(end_)) names_.push_back(id.substr(0, id.size() - end_.size()));
    }
    for (const std::string& name : names_) {
      for (const auto& [end, later] : {std::pair("/grad", 0U), {"/clipped_grad", 1U}}) {
        reference_.about[name + end].order = 1000000 + later;
        reference_.about[name + end].phase = Phase::reduce;
      }
    }
  }
  // Of the candidate `wrong` are multiplied once more.
  Verdict clipped(float by = 1, const std::string& wrong = "") {
    clip(reference_, 1, "");
    clip(candidate_, by, wrong);
    for (Trace& twin : twins_) clip(twin, 1, "");
    return verdict();
  }
  void clip(Trace& trace, float by, const std::string& wrong) {
    const Merged run = merge(trace);
    double squares = 0;
    const auto gradient = [&](const std::string& name) -> const Tensor& {
      return *run.values.at(name + std::string(end_));
    };
    for (const std::string& name : names_) {
      for (const float v : gradient(name).values) squares += double{v} * v;
    }
    const float factor = 0.01F / static_cast<float>(std::sqrt(squares));
    for (const std::string& name : names_) {
      const Tensor x = gradient(name),
                   y = times(x, name.starts_with(wrong) ? factor * by : factor, fp32);
      for (RankRecord& rank : trace.ranks) {
        rank.shards.erase(name + std::string(end_));
        rank.shards[name + "/grad"] = {whole(x.rows, x.cols), x, fp32};
        rank.shards[name + "/clipped_grad"] = {whole(x.rows, x.cols), y, fp32};
      }
    }
  }
  std::vector<std::string> names_;
};

TEST_F(Clips, OfAHealthyRunAreSaidToBeRight) {
  const Verdict v = clipped();
  EXPECT_TRUE(v.findings.empty()) << text_report(v);
  for (const char* note :
       {" behind a clip are those before it, times ", "the norm of all gradients is 1 ",
        "the norm of all gradients behind the clip is 1 "}) {
    EXPECT_TRUE(std::ranges::any_of(
        v.notes, [&](const std::string& one) { return one.find(note) != std::string::npos; }))
        << note << text_report(v);
  }
}

// Each of the two norms has half of the level that one alone has.
TEST_F(Clips, ShareTheLevelOfAllGradientsTogether) {
  const auto found = [](const Verdict& v) {
    for (const std::string& note : v.notes) {
      const std::size_t at = note.find("; 1 +- ");
      if (note.starts_with("the norm of all gradients is") && at != note.npos)
        return std::stod(note.substr(at + 7));
    }
    return 0.0;
  };
  const double with_clip = found(clipped());
  std::vector<Trace*> all{&reference_, &candidate_};
  for (Trace& twin : twins_) all.push_back(&twin);
  for (Trace* trace : all) {
    for (RankRecord& rank : trace->ranks) {
      for (const std::string& name : names_) rank.shards.erase(name + "/clipped_grad");
    }
  }
  const double alone = found(verdict());
  EXPECT_GT(alone, 0);
  EXPECT_NEAR(with_clip / alone, student_quantile(0.01 / 28, 4) / student_quantile(0.01 / 14, 4),
              0.05);
}

TEST_F(Clips, ByAnotherFactorOfOneGradientAreToBlame) {
  const Verdict v = clipped(1.00001F, names_[3]);
  ASSERT_EQ(v.exit_code(), 1) << text_report(v);
  EXPECT_EQ(v.blamed, names_[3] + "/clipped_grad");
  EXPECT_EQ(v.blamed_by, "replay");
}

// Behind the clip the norm says more than any gradient: it is the limit.
TEST_F(Clips, ByAnotherNormAreFoundInAllOfThemTogether) {
  const Verdict v = clipped(0.99998F);
  ASSERT_EQ(v.exit_code(), 1) << text_report(v);
  EXPECT_TRUE(v.blamed.ends_with("/clipped_grad")) << v.blamed;
}

// All gradients behind the clip are wrong then, and one before it.
TEST_F(Clips, ThatAreWrongSinceOneGradientIsAreNotToBlame) {
  const auto norm = [&](const std::string& name) {
    const Tensor& x = *r_.values.at(name + std::string(end_));
    return std::inner_product(x.values.begin(), x.values.end(), x.values.begin(), 0.0);
  };
  const std::string wrong = *std::ranges::max_element(names_, {}, norm);
  change(wrong + std::string(end_), [](Tensor& x) { scale(x, 2); });
  const Verdict v = clipped();
  ASSERT_EQ(v.exit_code(), 1) << text_report(v);
  EXPECT_EQ(v.blamed, wrong + "/grad");
  EXPECT_GT(v.findings.size(), names_.size() / 2);
  EXPECT_EQ(v.unexplained, 0U) << text_report(v);
}

}  // namespace
}  // namespace plumb::clip_test

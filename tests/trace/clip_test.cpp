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

namespace plumb {
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

  Job(unsigned seed, const Format& of, float factor) : format(of) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const std::size_t rows : {40, 7, 1, 90, 12}) {
      Tensor x(rows, 33);
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
  return clips(reference.run(), candidate.run(), [](const std::string&) { return true; }, {});
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

TEST(Clip, OfWhatOneRunLacksIsLeftAlone) {
  Job job(1, bf16, 0.25F);
  job.gradients.pop_back();
  job.clipped.pop_back();
  EXPECT_TRUE(seen_of(Job(1, bf16, 0.25F), job).note.starts_with("4 gradients"));
  job.gradients.clear();
  EXPECT_EQ(seen_of(Job(1, bf16, 0.25F), job).note, "");
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
}

}  // namespace
}  // namespace plumb

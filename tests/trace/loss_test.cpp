// Does a gradient fit its logits where a loss made it, in either formula and every format; is one that
// another formula made found; and does it accuse nobody where the reference has another loss?
#include "trace/loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "bounds/machine.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/twin_traces.hpp"
#include "trace/report/report.hpp"

namespace plumb::loss_test {
namespace {

// A loss written by hand, as programs do it: in FP32, rounded once at the end.
struct Loss {
  bool of_logarithm = false;  // exp(x - lse); else exp(x - m) / sum
  float more = 0;             // columns of zeros that the sum counts besides
  float smoothing = 0;
  float hotter = 1;
  std::size_t parts = 1;     // of the sum
  bool own_largest = false;  // of each part, and no other's
  float weight = 1.0F / 77;
  float last_row = 1;  // times its weight
  float z = 0;         // times the square of the logarithm, added to the loss
};

struct Drawn {
  Tensor x, g;
  std::vector<std::size_t> labels;
  Format format;
  LossFit fit(const ReplayOptions& options = {}) const {
    return fit_of_loss(Whole(x), of(g), options);
  }
  Whole of(const Tensor& gradient) const {
    return Whole(std::make_shared<const Tensor>(gradient), format);
  }
};

Tensor gradient(const Tensor& x, const std::vector<std::size_t>& labels, const Loss& loss,
                const Format& format) {
  Tensor g(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const float* row = x.row(t);
    std::vector<float> largest(loss.parts, *std::max_element(row, row + x.cols));
    float sum = 0;
    std::vector<float> e(x.cols);
    for (std::size_t p = 0; p < loss.parts; ++p) {
      const std::size_t begin = p * x.cols / loss.parts, end = (p + 1) * x.cols / loss.parts;
      if (loss.own_largest) largest[p] = *std::max_element(row + begin, row + end);
      float part = 0;
      for (std::size_t v = begin; v < end; ++v) {
        e[v] = std::exp((row[v] - largest[p]) * loss.hotter);
        part += e[v];
      }
      sum += part;
    }
    if (loss.more > 0) sum += loss.more * std::exp(-largest[0]);
    const float lse = largest[0] + std::log(sum),
                w = loss.weight * (t + 1 == x.rows ? loss.last_row : 1);
    for (std::size_t v = 0; v < x.cols; ++v) {
      float p = loss.of_logarithm ? std::exp(row[v] - lse) : e[v] / sum;
      p *= 1 + 2 * loss.z * lse;
      if (v == labels[t]) p -= 1 - loss.smoothing;
      p -= loss.smoothing / static_cast<float>(x.cols);
      g(t, v) = round_to(p * w, format);
    }
  }
  return g;
}

Drawn draw(unsigned seed, const Loss& loss, const Format& format, double size = 2) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(size));
  Drawn d{Tensor(2 + random() % 40, 2 + random() % 300), {}, {}, format};
  const float shift = 10 * normal(random);
  for (float& v : d.x.values) v = round_to(normal(random) + shift, format);
  for (std::size_t t = 0; t < d.x.rows; ++t) d.labels.push_back(random() % d.x.cols);
  d.g = gradient(d.x, d.labels, loss, format);
  return d;
}

TEST(Loss, FitsItsLogitsInEitherFormulaAndEveryFormat) {
  const Machine* card = find_machine("libraries");
  ASSERT_NE(card, nullptr);
  for (int seed = 0; seed < effort(60); ++seed) {
    Loss loss;
    loss.of_logarithm = seed % 2 == 0;
    loss.parts = 1 + static_cast<std::size_t>(seed) % 3;
    loss.weight = seed % 5 == 0 ? 4096 : 1.0F / static_cast<float>(1 + seed);
    for (const Format& format : {fp32, bf16, fp16}) {
      const Drawn d = draw(static_cast<unsigned>(seed), loss, format, seed % 4 == 0 ? 30 : 2);
      for (const Machine* machine : {static_cast<const Machine*>(nullptr), card}) {
        ReplayOptions options;
        options.machine = machine;
        const LossFit fit = d.fit(options);
        EXPECT_EQ(fit.refused, "");
        EXPECT_TRUE(fit.fits()) << seed << " " << format.name << " " << fit.least << " "
                                << fit.most;
        EXPECT_LE(fit.least, loss.weight * (1 + 1e-5)) << seed << " " << format.name;
        EXPECT_GE(fit.most, loss.weight * (1 - 1e-5)) << seed << " " << format.name;
      }
    }
  }
}

// Of a mean over its own share a rank has a larger gradient: below the smallest normal number that rounds
// once more where it is divided by the number of ranks.
TEST(Loss, FitsNearZeroWhatWasDividedByANumberOfRanks) {
  const auto fits_of = [](unsigned seed, bool twice) {
    Loss loss;
    loss.weight = 1.0F / 8192;
    Drawn d = draw(seed, loss, fp16);
    loss.weight *= 2;
    d.g = gradient(d.x, d.labels, loss, twice ? fp16 : fp32);
    for (float& g : d.g.values) g = round_to(g / 2, fp16);
    return d.fit({}).fits();
  };
  for (unsigned seed = 0; seed < static_cast<unsigned>(effort(60)); ++seed) {
    EXPECT_TRUE(fits_of(seed, true)) << seed;
    EXPECT_TRUE(fits_of(seed, false)) << seed;
  }
}

// Each of them is of a size that BF16 hides in every single number.
TEST(Loss, OfAnotherFormulaFitsNoWeight) {
  const std::map<std::string, Loss> wrong{
      {"a column more", {.more = 1}},
      {"smoothed", {.smoothing = 0.01F}},
      {"hotter", {.hotter = 1.01F}},
      {"a largest of each part", {.parts = 2, .own_largest = true}},
      {"another weight of the last row", {.last_row = 1.02F}}};
  for (const auto& [name, loss] : wrong) {
    for (const Format& format : {fp32, bf16}) {
      Drawn d = draw(5, {}, format);
      ASSERT_TRUE(d.fit().fits());
      d.g = gradient(d.x, d.labels, loss, format);
      const LossFit fit = d.fit();
      EXPECT_FALSE(fit.fits()) << name << " " << format.name << " " << fit.least << " " << fit.most;
      const double w = fit.nearest(), low = fit.asks_least.ratio(w), high = fit.asks_most.ratio(w);
      EXPECT_GT(high, 1) << name;
      EXPECT_TRUE(fit.most <= 0 || std::fabs(low - high) < 1e-6 * high) << name;
    }
  }
}

TEST(Loss, SaysNothingOfLabelsAndWeight) {
  Drawn d = draw(3, {}, bf16);
  std::rotate(d.labels.begin(), d.labels.begin() + 1, d.labels.end());
  d.g = gradient(d.x, d.labels, {.weight = 0.5}, bf16);
  EXPECT_TRUE(d.fit().fits());
}

TEST(Loss, LeavesOutRowsThatDoNotCountAndThoseThatAreNotFinite) {
  Drawn d = draw(3, {}, bf16);
  ASSERT_GT(d.x.rows, 3U);
  EXPECT_EQ(d.fit().rows, d.x.rows);
  std::fill_n(d.g.row(0), d.g.cols, 0.0F);
  d.x(1, 1) = std::numeric_limits<float>::infinity();
  d.g(2, 0) = std::numeric_limits<float>::infinity();
  EXPECT_EQ(d.fit().rows, d.x.rows - 3);
  EXPECT_TRUE(d.fit().fits());
  std::ranges::fill(d.g.values, 0.0F);
  EXPECT_FALSE(d.fit().fits());  // no row says anything
}

// Many rows at a time, and the last few.
TEST(Loss, IsOfAllRowsHoweverManyAreJudgedAtATime) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Drawn d{Tensor(700, 1000), {}, std::vector<std::size_t>(700, 3), bf16};
  for (float& v : d.x.values) v = round_to(normal(random), bf16);
  d.g = gradient(d.x, d.labels, {}, bf16);
  EXPECT_EQ(d.fit().rows, 700U);
  EXPECT_TRUE(d.fit().fits());
  d.g(699, 5) *= 1.1F;
  const LossFit fit = d.fit();
  EXPECT_FALSE(fit.fits());
  const Finding::At at = fit.asks_least.at.row == 699 ? fit.asks_least.at : fit.asks_most.at;
  EXPECT_EQ(at.row, 699U);
  EXPECT_EQ(at.column, 5U);
}

class Losses : public WithTwinTraces {
 protected:
  const std::string gradient_ = "m0/head/grad_out", out_ = "m0/head/out";

  Losses() {
    options_.rules = {"replay"};
    options_.only = "^m0/head/(out|grad_out)$";
    for (const auto& [promise, trace] : {std::pair(&one_, &reference_), {&many_, &candidate_}}) {
      for (const Node& node : promise->nodes) {
        if (node.outputs.front() != out_) continue;
        trace->about[out_].made_by = MadeBy{node.op, node.inputs, 0, node.attributes};
      }
    }
  }
  // In place of what the run made of its own logits.
  void lose(Trace& trace, const Loss& loss) {
    const Merged run = merge(trace);
    const Tensor &x = *run.values.at(out_), &g = *run.values.at(gradient_);
    std::vector<std::size_t> labels;
    for (std::size_t t = 0; t < g.rows; ++t) {
      labels.push_back(
          static_cast<std::size_t>(std::min_element(g.row(t), g.row(t) + g.cols) - g.row(t)));
    }
    for (RankRecord& rank : trace.ranks) {
      rank.shards[gradient_] = {whole(x.rows, x.cols), gradient(x, labels, loss, bf16), bf16};
    }
  }
  static bool any_starts_with(const std::vector<std::string>& all, const std::string& with) {
    return std::ranges::any_of(all, [&](const auto& one) { return one.starts_with(with); });
  }
};

TEST_F(Losses, AreThoseOfTheFirstGradientOfAMicroBatch) {
  const trace::Run run(reference_);
  std::string ids;
  for (const Logits& of : logits_of(run, reference_.about))
    ids += of.out + " " + of.gradient + "\n";
  EXPECT_EQ(
      ids,
      "m0/head/out m0/head/grad_out\nm1/head/out m1/head/grad_out\nm2/head/out m2/head/grad_out\nm3/head/out m3/head/grad_out\n");
}

TEST_F(Losses, OfARunFit) {
  const Verdict v = verdict();
  EXPECT_TRUE(v.findings.empty()) << text_report(v);
  EXPECT_TRUE(any_starts_with(
      v.notes, gradient_ + " is what a cross entropy makes of its logits, but for a weight"))
      << text_report(v);
}

TEST_F(Losses, ThatFitNoWeightAreFoundAndToBlame) {
  lose(candidate_, {.more = 1});
  const Verdict v = verdict();
  ASSERT_EQ(v.exit_code(), 1) << text_report(v);
  EXPECT_EQ(v.blamed, gradient_);
  EXPECT_EQ(v.blamed_by, "replay");
  EXPECT_NE(v.findings.front().detail.find(
                "no weight makes it the gradient of a cross entropy of m0/head/out"),
            std::string::npos);
}

// Of another loss, as one with a small term beside, the reference's gradient may fit by chance, and the
// candidate's not: an element that is hardly more than its rounding off accuses nobody.
TEST_F(Losses, ThatAreHardlyMoreThanARoundingOffAreNotAccused) {
  std::size_t let_be = 0;
  for (int k = 14; k >= 5; --k) {
    lose(candidate_, {.hotter = 1 + std::ldexp(1.0F, -k)});
    const Verdict v = verdict();
    if (!v.findings.empty()) {
      EXPECT_GT(v.findings.front().ratio, 1);
      continue;
    }
    let_be += std::ranges::any_of(v.not_judged, [&](const NotJudged& one) {
      return one.id == gradient_ && one.why.starts_with("it is hardly more than a rounding off");
    });
    EXPECT_GT(k, 5);
  }
  EXPECT_GT(let_be, 0U);
}

// Numbers of FP32 that are said to be BF16's have their own last bit.
TEST(Loss, OfAFormatThatItsNumbersAreNotIsHeldToTheirOwn) {
  Drawn d = draw(5, {.smoothing = 1e-4F}, fp32);
  d.format = bf16;
  EXPECT_FALSE(d.fit().fits());
  Drawn sound = draw(5, {}, fp32);
  sound.format = bf16;
  EXPECT_TRUE(sound.fit().fits());
}

// Two healthy runs of a loss with a small term beside the cross entropy, whatever its size.
TEST(Loss, OfAnotherKindAccusesAtMostAtItsLevel) {
  constexpr double level = 0.01;
  const int runs = effort(300);
  ReplayOptions options;
  options.false_alarm = level;
  for (const std::size_t rows : {4, 16}) {
    for (const float z : {3e-6F, 1e-5F, 3e-5F, 1e-4F}) {
      int accused = 0;
      for (int seed = 0; seed < runs; ++seed) {
        const Loss loss{.weight = 1.0F / 64, .z = z};
        const auto run = [&](unsigned of) {
          std::mt19937 random(of);
          std::normal_distribution<float> normal;
          Trace trace;
          trace.ranks.resize(1);
          Tensor x(rows, 64);
          for (float& v : x.values) v = round_to(2.4F * normal(random), bf16);
          std::vector<std::size_t> labels;
          for (std::size_t t = 0; t < rows; ++t) labels.push_back(random() % x.cols);
          const Tensor g = gradient(x, labels, loss, bf16);
          trace.ranks[0].shards["head/out"] = {whole(rows, x.cols), x, bf16};
          trace.ranks[0].shards["head/grad_out"] = {whole(rows, x.cols), g, bf16};
          trace.about["head/grad_out"].order = 1;
          return trace;
        };
        const auto of = static_cast<unsigned>(2 * seed);
        const Trace r = run(of), c = run(of + 1);
        const LossesSeen seen = losses(
            trace::Run(r), r.about, trace::Run(c), [](const auto&) { return true; }, options,
            Hands());
        accused += seen.findings.empty() ? 0 : 1;
      }
      EXPECT_LE(accused, level * runs + 3 * std::sqrt(level * runs)) << rows << " " << z;
    }
  }
}

// Its weight may be wrong, of which the loss's logits say nothing.
TEST_F(Losses, ThatFitAcquitNothing) {
  lose(candidate_, {.weight = 1.0F / 38});
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 3) << text_report(v);
  // And its logits: what these are made from is not looked at.
  EXPECT_EQ(v.unexplained, 2U) << text_report(v);
  EXPECT_TRUE(any_starts_with(v.notes, gradient_ + " is what a cross entropy makes"))
      << text_report(v);
}

TEST_F(Losses, OfNoRowSayNothing) {
  lose(candidate_, {.weight = 0});
  const Verdict v = verdict();
  EXPECT_TRUE(v.findings.empty()) << text_report(v);
  EXPECT_FALSE(any_starts_with(v.notes, gradient_ + " is what")) << text_report(v);
  EXPECT_EQ(v.exit_code(), 3);
}

// A card that rounds to nearest and has no bound of a softmax says so; no reference is called wrong for that.
TEST_F(Losses, AreNotJudgedWhereACardRefusesWithItsReason) {
  const Merged run = merge(reference_);
  const Whole x(run.values.at(out_), bf16), g(run.values.at(gradient_), bf16);
  const auto refuses = [&](const Machine& machine) {
    options_.replay.machine = &machine;
    return !fit_of_loss(x, g, options_.replay).refused.empty();
  };
  if (std::ranges::none_of(all_machines(), refuses)) FAIL() << "no card refuses a softmax";
  lose(candidate_, {.more = 1});
  const trace::Run r(reference_), c(candidate_);
  const LossesSeen seen =
      losses(r, reference_.about, c, [&](const std::string& id) { return id == gradient_; },
             options_.replay, {});
  ASSERT_EQ(seen.not_judged.size(), 1U);
  EXPECT_EQ(seen.not_judged.front().id, gradient_);
  EXPECT_TRUE(seen.of_no_loss.empty());
  EXPECT_TRUE(seen.findings.empty());
}

TEST_F(Losses, AreNotJudgedWhereTheReferenceHasAnother) {
  lose(reference_, {.smoothing = 0.1F});
  lose(candidate_, {.more = 1, .smoothing = 0.1F});
  const Verdict v = verdict();
  EXPECT_TRUE(v.findings.empty()) << text_report(v);
  EXPECT_TRUE(any_starts_with(
      v.notes, gradient_ + " is not what a cross entropy makes of its logits, in the reference"))
      << text_report(v);
}

}  // namespace
}  // namespace plumb::loss_test

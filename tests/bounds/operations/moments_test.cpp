// Are errors as large as the moments say? The goal of the theory, 0.9 to 1.1, operation by
// operation.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "bounds/examples/shaped.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::moments_test {
namespace {

double drawn(bool positive, std::uint64_t call, std::uint64_t input, std::uint64_t element) {
  const double x = normal_at(1000 * call + input, element);
  return positive ? std::fabs(x) + 0.25 : x;
}

struct Kind {
  const char* id;
  const char* shape = "12x60";
  bool ring = false;  // over two ranks
  int chain = 0;      // terms that are summed apart
};

class Moments : public testing::TestWithParam<Kind> {};

// Errors within a call share sources, those of different calls nothing: the margin is four standard
// errors of the calls' mean squares.
TEST_P(Moments, HaveTheSizeOfTheErrors) {
  const std::string id = GetParam().id;
  for (const Format& inputs : {fp32, bf16}) {
    for (const bool positive : {false, true}) {
      std::vector<double> mean_squares;
      std::size_t violations = 0;
      const int calls = std::max(100, effort(100));
      for (int call = 1; call <= calls; ++call) {
        Example e = shaped_example(id, GetParam().shape, inputs, [&](auto i, auto k) {
          return drawn(positive, static_cast<std::uint64_t>(call), i, k);
        });
        if (GetParam().ring) {
          e.how.parts = 2;
          e.how.tokens = {2, static_cast<int>(e.inputs[0].rows), 0, true};
        }
        if (GetParam().chain > 0) e.attributes["chain"] = GetParam().chain;
        Comparison seen;
        judge(e, evaluation_of(e), seen, Mode::moments);
        violations += seen.violations;
        if (seen.elements >= 60) mean_squares.push_back(seen.rms() * seen.rms());
      }
      const std::string cell =
          id + " " + std::string(inputs.name) + (positive ? " positive" : " zero-mean");
      EXPECT_EQ(violations, 0U) << cell;
      // Sums of two short numbers and scaled ones are exact.
      const bool few = mean_squares.size() < static_cast<std::size_t>(calls);
      EXPECT_TRUE(!few || inputs == bf16) << cell;
      if (few) continue;
      double mean = 0, square = 0;
      for (const double m : mean_squares) {
        mean += m / calls;
        square += m * m / calls;
      }
      const double margin = 4 * std::sqrt(std::max(square - mean * mean, 0.0) / calls);
      EXPECT_LT(margin, 0.25) << cell;
      EXPECT_GT(mean, 0.81 - margin) << cell;
      EXPECT_LT(mean, 1.21 + margin) << cell;
      RecordProperty(cell, std::to_string(std::sqrt(mean)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Bounds, Moments,
    testing::Values(Kind{"gemm", "8x200x20"}, Kind{"gemm", "8x200x20", false, 24},
                    Kind{"grouped_wgrad", "60x16", false, 4}, Kind{"add"}, Kind{"dropout"},
                    Kind{"sum"}, Kind{"column_sum", "30x70"}, Kind{"rmsnorm"}, Kind{"rmsnorm_grad"},
                    Kind{"rmsnorm_wgrad", "30x70"}, Kind{"layernorm"}, Kind{"layernorm_grad"},
                    Kind{"layernorm_wgrad", "30x70"}, Kind{"rope"}, Kind{"head_norm"},
                    Kind{"head_norm_grad"}, Kind{"head_norm_wgrad", "30x210"},
                    Kind{"shared_key_grad", "80x60"}, Kind{"attention", "12x30"},
                    Kind{"attention_grad", "12x30"}, Kind{"attention", "12x30", true},
                    Kind{"attention_grad", "12x30", true}, Kind{"softmax"}, Kind{"softmax_grad"},
                    Kind{"log_sum_exp", "80x30"}, Kind{"softmax_merge", "24x20"}, Kind{"gelu"},
                    Kind{"gelu_grad"}, Kind{"gelu_erf"}, Kind{"gelu_erf_grad"}, Kind{"silu"},
                    Kind{"silu_grad"}, Kind{"squared_relu"}, Kind{"swiglu"}, Kind{"swiglu_grad"},
                    Kind{"cross_entropy", "80x30"}, Kind{"cross_entropy_grad"}, Kind{"quantize"},
                    Kind{"scale"}, Kind{"adam"}, Kind{"router"}, Kind{"router_grad"},
                    Kind{"dispatch_grad"}, Kind{"grouped_gemm", "16x60"},
                    Kind{"grouped_wgrad", "60x16"}, Kind{"grouped_column_sum", "60x40"},
                    Kind{"combine"}, Kind{"combine_grad"}, Kind{"combine_weight_grad", "80x30"}),
    [](const auto& parameter) {
      return std::string(parameter.param.id) + (parameter.param.ring ? "_ring" : "") +
             (parameter.param.chain > 0 ? "_chains" : "");
    });

// An expert's count is the same for every token, and so is what is lost of it: a bias.
TEST(ErrorMoments, ForetellsWhatIsLostOfCounts) {
  std::vector<double> means;  // of the scores of a call
  for (std::uint64_t call = 1; call <= 60; ++call) {
    const Example e = shaped_example("router_grad", "32x252", fp32,
                                     [&](auto i, auto k) { return drawn(false, call, i, k); });
    const auto moments = tolerance_of(e, Mode::moments);
    const Tensor computed = evaluation_of(e)[0];
    const Matrix<double> value = value_of(e)[0];
    double sum = 0;
    for (std::size_t k = 0; k < value.size(); ++k) {
      const double error = static_cast<double>(computed.values[k]) - value.values[k];
      sum += (error - moments->bias[0].values[k]) / moments->bound[0].values[k];
    }
    means.push_back(sum / static_cast<double>(value.size()));
  }
  const double n = static_cast<double>(means.size());
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / n;
  double square = 0;
  for (const double m : means) square += (m - mean) * (m - mean) / (n - 1);
  EXPECT_LT(std::sqrt(square / n), 0.03);
  EXPECT_NEAR(mean, 0, 4 * std::sqrt(square / n));
}

TEST(ErrorMoments, BiasIsFromTheValueAsGiven) {
  const Example e = shaped_example("add", "4x4", fp32);
  std::vector<const Matrix<double>*> inputs{&e.inputs[0], &e.inputs[1]};
  auto values = value_of(e);
  values[0].values[3] += 1e-3;
  const auto moved =
      find_operation("add")->tolerance({inputs, e.attributes, e.how, Mode::moments, 0, values});
  EXPECT_NEAR(moved->bias[0].values[3], -1e-3, 1e-12);
  EXPECT_EQ(moved->bias[0].values[2], 0);
}

}  // namespace
}  // namespace plumb::moments_test

// How far is a bound from the largest error that is seen? Products and norms of six distributions,
// three modes where sums round to nearest, and products on matrix units that truncate.
#include <cmath>
#include <numbers>

#include "bounds/mma.hpp"
#include "bounds/number/philox.hpp"
#include "bounds/number/rounding.hpp"
#include "experiments/experiment.hpp"
#include "kernels/mma/product.hpp"

namespace plumb {
namespace {

constexpr std::size_t side = 40;  // 1,600 outputs
constexpr double sigmas = 6;      // of the moments
constexpr double delta = 1e-9;    // of probabilistic

// One number of the distribution; `at` says which.
double draw(const std::string& distribution, std::uint64_t key, std::uint64_t at) {
  const auto normal = [&](std::uint64_t lane) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform(key + 2 * lane, at)));
    return radius * std::cos(2 * std::numbers::pi * uniform(key + 2 * lane + 1, at));
  };
  if (distribution == "positive") return uniform(key, at);
  if (distribution == "lognormal") return std::exp(normal(0));
  if (distribution == "constant") return 0.7;
  if (distribution == "heavy-tailed") {  // Student's t with three degrees
    const double a = normal(1), b = normal(2), c = normal(3);
    return normal(0) / std::sqrt((a * a + b * b + c * c) / 3);
  }
  return normal(0);  // zero-mean, cancelling
}

Matrix<double> matrix(const std::string& distribution, std::size_t rows, std::size_t cols,
                      const Format& format, std::uint64_t key) {
  Matrix<double> m(rows, cols);
  for (std::size_t e = 0; e < m.size(); ++e) {
    m.values[e] = round_to(draw(distribution, key, e), format, {.saturate = true});
  }
  return m;
}

struct Seen {
  double nearest = 0;    // largest error / bound
  double looseness = 0;  // largest bound / largest error
};

Seen compared(const Tensor& computed, const Matrix<double>& truth, const Matrix<double>& bound) {
  Seen seen;
  double largest_error = 0, largest_bound = 0;
  for (std::size_t e = 0; e < truth.size(); ++e) {
    const double error = std::fabs(static_cast<double>(computed.values[e]) - truth.values[e]);
    if (error > 0) seen.nearest = std::max(seen.nearest, error / bound.values[e]);
    largest_error = std::max(largest_error, error);
    largest_bound = std::max(largest_bound, bound.values[e]);
  }
  seen.looseness = largest_error > 0 ? largest_bound / largest_error : 0;
  return seen;
}

struct Question {
  std::string operation, distribution;
  std::size_t n;
  std::vector<Matrix<double>> inputs;
  Attributes attributes;
};

Question asked(const std::string& operation, const std::string& distribution, std::size_t n,
               const Format& format) {
  Question q{
      operation, distribution, n, {}, {{"eps", 1e-5}, {"transpose_a", 0}, {"transpose_b", 1}}};
  const auto give = [&](std::size_t rows, std::size_t cols, std::uint64_t key) {
    q.inputs.push_back(matrix(distribution, rows, cols, format, key));
  };
  if (operation == "gemm") {
    give(side, n, 100);
    give(side, n, 200);
    if (distribution == "cancelling") {  // neighbours along the sum add up to little
      for (std::size_t i = 0; i < side; ++i) {
        for (std::size_t k = 1; k < n; k += 2) {
          q.inputs[0](i, k) = -q.inputs[0](i, k - 1);
          q.inputs[1](i, k) = round_to(q.inputs[1](i, k - 1) * (1 + 0x1p-6), format);
        }
      }
    }
  } else {
    give(side, n, 100);
    q.inputs.push_back(matrix("positive", n, 1, format, 300));
    if (operation == "layernorm") q.inputs.push_back(matrix("zero-mean", n, 1, format, 400));
  }
  return q;
}

void add(Table& rows, const std::vector<std::string>& key, std::size_t outputs, const Seen& seen,
         const std::string& refused) {
  std::vector<std::string> row = key;
  row.push_back(std::to_string(outputs));
  row.push_back(refused.empty() ? cell(seen.looseness) : "-");
  row.push_back(refused.empty() ? cell(seen.nearest) : "-");
  row.push_back(refused.empty() ? "-" : refused);
  rows.add(row);
}

void on_nearest(Table& rows, const Question& q, Mode mode) {
  const std::vector<std::string> key{
      q.operation, std::string(name_of(mode)), std::to_string(q.n), q.distribution, "ieee", "bf16"};
  if (rows.has(key)) return;
  const Operation& operation = *find_operation(q.operation);
  const Evaluation how{1, fp32, fp32};
  RealRoundings real;
  ExactRoundings none;
  std::vector<Tensor> narrow;
  for (const Matrix<double>& input : q.inputs) narrow.push_back(converted<float>(input));
  Call<float> computed{{}, q.attributes, how, real};
  Call<double> meant{{}, q.attributes, how, none};
  ToleranceCall ask{{}, q.attributes, how, mode, delta, {}};
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    computed.inputs.push_back(&narrow[i]);
    meant.inputs.push_back(&q.inputs[i]);
    ask.inputs.push_back(&q.inputs[i]);
  }
  const std::vector<Matrix<double>> truth = operation.value(meant);
  ask.values = truth;
  const Outcome<Tolerance> t = operation.tolerance(ask);
  if (!t) return add(rows, key, truth[0].size(), {}, t.error().detail);
  Matrix<double> bound = t->bound[0];
  if (mode == Mode::moments) {
    for (std::size_t e = 0; e < bound.size(); ++e) {
      bound.values[e] = sigmas * bound.values[e] + std::fabs(t->bias[0].values[e]);
    }
  }
  add(rows, key, truth[0].size(), compared(operation.evaluate(computed)[0], truth[0], bound), "");
}

void on_unit(Table& rows, const std::string& machine, const std::string& label, const Mma& unit,
             const std::string& distribution, std::size_t n) {
  const std::vector<std::string> key{"gemm",       "deterministic", std::to_string(n),
                                     distribution, machine,         label};
  if (rows.has(key)) return;
  const Question q = asked("gemm", distribution, n, unit.input);
  const Tensor a = converted<float>(q.inputs[0]), b = converted<float>(q.inputs[1]);
  const View<double> wide_a = view(q.inputs[0]), wide_b = view(q.inputs[1], true);
  add(rows, key, side * side,
      compared(mma_product(view(a), view(b, true), unit), product(wide_a, wide_b),
               mma_bound(wide_a, wide_b, unit)),
      "");
}

void run(Table& rows, const Effort& effort) {
  for (const std::size_t n : {256, 1024, 4096}) {
    for (const std::string distribution :
         {"zero-mean", "positive", "lognormal", "heavy-tailed", "cancelling", "constant"}) {
      if (effort.out_of_time()) return;
      for (const std::string operation : {"gemm", "rmsnorm", "layernorm"}) {
        const Question q = asked(operation, distribution, n, bf16);
        for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
          on_nearest(rows, q, mode);
        }
      }
      for (const Machine& machine : all_machines()) {
        for (const Format& input : {fp16, bf16, e4m3fn}) {
          const std::optional<Mma> unit = machine.mma(input);
          if (!unit) continue;
          on_unit(rows, machine.id, std::string(input.name), *unit, distribution, n);
          if (input.bits > 8) continue;
          Mma promoted = *unit;
          promoted.promoted_after = 128;
          on_unit(rows, machine.id, std::string(input.name) + " promoted every 128", promoted,
                  distribution, n);
        }
      }
      effort.progress(std::to_string(n) + " " + distribution);
    }
  }
}

}  // namespace

extern const Experiment bound_tightness{
    .name = "bound-tightness",
    .question = "How far is each bound from the largest error among 1,600 outputs?",
    .columns = {"operation", "mode", "n", "distribution", "machine", "inputs", "outputs",
                "bound_over_largest_error", "largest_error_over_bound", "refused"},
    .keys = 6,
    .run = run,
};

}  // namespace plumb

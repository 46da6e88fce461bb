// Are errors as large as the moments say? Z-scores of every operation that has moments, and of
// products in known orders and on matrix units: four distributions, FP32 and short inputs.
#include <array>
#include <cmath>

#include "bounds/examples/shaped.hpp"
#include "bounds/mma.hpp"
#include "bounds/on_machine.hpp"
#include "experiments/distributions.hpp"
#include "experiments/experiment.hpp"
#include "kernels/mma/product.hpp"
#include "kernels/ordered/product.hpp"
#include "trace/levels.hpp"

namespace plumb::experiments {
namespace {

constexpr std::size_t scores = 50'000;  // of a row, times the effort
// Errors of a row of a tensor share a sum: of 32 calls with 32 rows the RMS is known to 2 %.
constexpr std::uint64_t calls = 32;
constexpr std::array tails{1e-2, 1e-4, 1e-6};  // two-sided, of a normal score

struct Scores {
  std::size_t count = 0;
  std::size_t missed = 0;  // errors other than the bias where nothing is left to chance
  double sum = 0, squares = 0;
  std::array<std::size_t, tails.size()> beyond{};
  std::string why;

  void add(const Matrix<float>& computed, const Matrix<double>& value, const Tolerance& t,
           std::size_t output) {
    static const auto limits = [] {
      std::array<double, tails.size()> z{};
      for (std::size_t i = 0; i < z.size(); ++i) z[i] = normal_quantile(tails[i] / 2);
      return z;
    }();
    for (std::size_t e = 0; e < computed.size(); ++e) {
      const double sigma = t.bound[output].values[e];
      const double error = static_cast<double>(computed.values[e]) - value.values[e];
      const double off = error - t.bias[output].values[e];
      if (sigma == 0) {
        missed += std::fabs(off) > 0x1p-40 * std::fabs(value.values[e]) ? 1 : 0;
        continue;
      }
      const double z = off / sigma;
      ++count;
      sum += z;
      squares += z * z;
      for (std::size_t i = 0; i < limits.size(); ++i) beyond[i] += std::fabs(z) > limits[i] ? 1 : 0;
    }
  }
};

struct Subject {
  std::string operation, machine, shape;
  Format inputs;
  std::function<Tensor(const Tensor&, const Tensor&, std::uint64_t)> product;  // of machines
};

std::vector<Subject> all_subjects() {
  std::vector<Subject> subjects;
  for (const std::string& id : shaped_operations()) {
    for (const Format& inputs : {fp32, bf16}) {
      subjects.push_back({id, "ieee", id == "gemm" ? "32x256x32" : "32x252", inputs, {}});
    }
  }
  for (const Machine& machine : all_machines()) {
    if (const std::optional<Order> order = machine.order()) {
      for (const Format& inputs : {fp32, bf16}) {
        subjects.push_back({"gemm", machine.id, "32x1024x32", inputs,
                            [order](const Tensor& a, const Tensor& b, std::uint64_t key) {
                              return ordered_product(view(a), view(b), *order, key);
                            }});
      }
    }
    for (const Format& inputs : {fp16, bf16, e4m3fn}) {
      const std::optional<Mma> unit = machine.mma(inputs);
      if (!unit) continue;
      subjects.push_back({"gemm", machine.id, "32x1024x32", inputs,
                          [unit](const Tensor& a, const Tensor& b, std::uint64_t) {
                            return mma_product(view(a), view(b), *unit);
                          }});
    }
  }
  return subjects;
}

Scores scores_of(const Subject& subject, const std::string& distribution, std::size_t wanted) {
  Scores seen;
  for (std::uint64_t call = 0; seen.count < wanted || call < calls; ++call) {
    const Example e = shaped_example(
        subject.operation, subject.shape, subject.inputs, [&](auto input, auto element) {
          return draw_from(distribution, 1000 * (call + 1) + 100 * input, element);
        });
    const std::vector<Matrix<double>> values = value_of(e);
    std::vector<const Matrix<double>*> inputs;
    for (const Matrix<double>& input : e.inputs) inputs.push_back(&input);
    const auto t =
        tolerance_on(*find_machine(subject.machine), *find_operation(e.id),
                     {inputs, e.attributes, e.how, Mode::moments, 0, values}, subject.inputs);
    if (!t) {
      seen.why = t.error().detail;
      return seen;
    }
    const std::vector<Tensor> computed =
        subject.product ? std::vector{subject.product(converted<float>(e.inputs[0]),
                                                      converted<float>(e.inputs[1]), call)}
                        : evaluation_of(e);
    for (std::size_t o = 0; o < computed.size(); ++o) seen.add(computed[o], values[o], *t, o);
    if (call > 20 && seen.count == 0) return seen;  // exact, always
    if (call >= 2'000) return seen;                 // one element a call, or less
  }
  return seen;
}

void run(Table& rows, const Effort& effort) {
  const std::size_t wanted = scores * static_cast<std::size_t>(effort.scale);
  for (const Subject& subject : all_subjects()) {
    for (const std::string distribution : {"zero-mean", "positive", "lognormal", "heavy-tailed"}) {
      if (effort.out_of_time()) return;
      std::vector<std::string> row{subject.operation, subject.machine,
                                   std::string(subject.inputs.name), distribution};
      if (rows.settled(row)) continue;
      const Scores seen = scores_of(subject, distribution, wanted);
      const double n = static_cast<double>(seen.count);
      row.push_back(std::to_string(seen.count));
      row.push_back(seen.count > 0 ? cell(std::sqrt(seen.squares / n)) : "-");
      row.push_back(seen.count > 0 ? cell(seen.sum / n) : "-");
      for (std::size_t i = 0; i < tails.size(); ++i) {
        row.push_back(std::to_string(seen.beyond[i]));
        row.push_back(cell(tails[i] * n));
      }
      row.push_back(std::to_string(seen.missed));
      row.push_back(seen.why.empty() ? "-" : seen.why);
      rows.add(row);
      effort.progress(subject.operation + " on " + subject.machine + ", " + distribution);
    }
  }
}

}  // namespace

extern const Experiment moments{
    .name = "moments",
    .question = "Are errors as large as the moments say: z-scores, their size and tails?",
    .columns = {"operation", "machine", "inputs", "distribution", "scores", "z_rms", "z_mean",
                "beyond_1e-2", "expected_1e-2", "beyond_1e-4", "expected_1e-4", "beyond_1e-6",
                "expected_1e-6", "missed", "refused"},
    .keys = 4,
    .run = run,
};

}  // namespace plumb::experiments

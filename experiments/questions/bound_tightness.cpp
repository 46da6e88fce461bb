// How far is a bound from the largest error that is seen? Products, softmax and norms of six
// distributions in three modes: sums in any order, in known orders, on matrix units that truncate.
#include <cmath>
#include <optional>

#include "bounds/mma.hpp"
#include "bounds/tolerance.hpp"
#include "experiments/distributions.hpp"
#include "experiments/experiment.hpp"
#include "experiments/healthy.hpp"
#include "kernels/mma/product.hpp"
#include "kernels/ordered/product.hpp"
#include "number/rounding.hpp"

namespace plumb::experiments {
namespace {

constexpr double sigmas = 6;    // of the moments
constexpr double delta = 1e-9;  // of probabilistic

Table::Row row_of(const std::vector<std::string>& key, std::size_t outputs, const Compared& seen,
                  const std::string& refused) {
  std::vector<std::string> row = key;
  row.push_back(std::to_string(outputs));
  row.push_back(refused.empty() ? cell(seen.looseness) : "-");
  row.push_back(refused.empty() ? cell(seen.nearest) : "-");
  row.push_back(refused.empty() ? "-" : refused);
  return row;
}

std::vector<std::string> key_of(const Question& q, Mode mode, const std::string& machine,
                                const std::string& inputs, const Format& result) {
  return {q.operation, std::string(name_of(mode)), std::to_string(q.n), q.distribution, machine,
          inputs,      std::string(result.name)};
}

// The operation's own tolerance: sums in any order, or the one that its file promises.
void on_nearest(Table& rows, const Question& q, const Format& input, Mode mode) {
  const auto key = key_of(q, mode, "ieee", std::string(input.name), fp32);
  const Operation& operation = *find_operation(q.operation);
  const Evaluation how{1, fp32, fp32};
  RealRoundings real;
  ExactRoundings none;
  std::vector<Tensor> narrow;
  for (const Matrix<double>& matrix : q.inputs) narrow.push_back(converted<float>(matrix));
  Call<float> computed{{}, q.attributes, how, real};
  Call<double> meant{{}, q.attributes, how, none};
  ToleranceCall ask{{}, q.attributes, how, mode, delta, {}};
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    computed.inputs.push_back(&narrow[i]);
    meant.inputs.push_back(&q.inputs[i]);
    ask.inputs.push_back(&q.inputs[i]);
  }
  const std::vector<Matrix<double>> values = operation.value(meant);
  const Matrix<double> truth = true_result(q);
  ask.values = values;
  const Outcome<Tolerance> t = operation.tolerance(ask);
  if (!t) return rows.add(row_of(key, truth.size(), {}, t.error().detail));
  Matrix<double> bound = t->bound[0];
  if (mode == Mode::moments) {
    for (std::size_t e = 0; e < bound.size(); ++e) {
      bound.values[e] = sigmas * bound.values[e] + std::fabs(t->bias[0].values[e]);
    }
  }
  rows.add(row_of(key, truth.size(), compared(operation.evaluate(computed)[0], truth, bound), ""));
}

// `name`: the question without its inputs, which are drawn where a row is missing.
void nearest_in_every_mode(Table& rows, const Question& name, const Format& input) {
  std::optional<Question> q;
  for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
    if (rows.settled(key_of(name, mode, "ieee", std::string(input.name), fp32))) continue;
    if (!q) q = asked(name.operation, name.distribution, name.n, input);
    on_nearest(rows, *q, input, mode);
  }
}

Matrix<double> bound_of(const SumErrors& errors, Mode mode) {
  Matrix<double> bound = errors.worst;
  const double lambda = std::sqrt(2 * std::log(2 * static_cast<double>(bound.size()) / delta));
  for (std::size_t e = 0; e < bound.size(); ++e) {
    const double bias = std::fabs(errors.bias.values[e]);
    if (mode == Mode::moments)
      bound.values[e] = bias + sigmas * std::sqrt(errors.variance.values[e]);
    if (mode == Mode::probabilistic) bound.values[e] = errors.likely(e, lambda);
  }
  return bound;
}

// A product whose order of sums is known: FP32 results in all modes, BF16 ones as they are stored.
void on_described(Table& rows, const Question& q, const std::string& machine,
                  const std::string& inputs, Tensor computed, const SumErrors& errors) {
  const Matrix<double> truth = true_result(q);
  const bool repeated = repeats(q.inputs[0]) || repeats(q.inputs[1]);
  std::vector<Table::Row> group;
  for (const Mode mode : {Mode::deterministic, Mode::probabilistic, Mode::moments}) {
    const bool refused = repeated && mode != Mode::deterministic;
    group.push_back(row_of(key_of(q, mode, machine, inputs, fp32), truth.size(),
                           compared(computed, truth, bound_of(errors, mode)),
                           refused ? std::string(data_repeat) : ""));
  }
  Matrix<double> bound = bound_of(errors, repeated ? Mode::deterministic : Mode::probabilistic);
  for (std::size_t e = 0; e < bound.size(); ++e) {
    bound.values[e] += ulp(std::fabs(truth.values[e]) + bound.values[e], bf16) / 2;
  }
  round_in_place(computed.values, bf16);
  group.push_back(row_of(key_of(q, Mode::probabilistic, machine, inputs, bf16), truth.size(),
                         compared(computed, truth, bound), ""));
  rows.add_group(group);
}

void in_order(Table& rows, const Machine& machine, const Format& input,
              const std::string& distribution, std::size_t n) {
  const Order order = machine.order().value();
  const std::string inputs(input.name);
  const Question name{"gemm", distribution, n, {}, {}};
  if (rows.settled(key_of(name, Mode::probabilistic, machine.id, inputs, bf16))) return;
  const Question q = asked("gemm", distribution, n, input);
  const Tensor a = converted<float>(q.inputs[0]), b = converted<float>(q.inputs[1]);
  on_described(rows, q, machine.id, inputs, ordered_product(view(a), view(b, true), order),
               errors_in_order(view(q.inputs[0]), view(q.inputs[1], true), order));
}

void on_unit(Table& rows, const Machine& machine, const Mma& unit, const std::string& distribution,
             std::size_t n) {
  const std::string inputs =
      std::string(unit.input.name) +
      (unit.promoted_after > 0 ? " promoted every " + std::to_string(unit.promoted_after) : "");
  const Question name{"gemm", distribution, n, {}, {}};
  if (rows.settled(key_of(name, Mode::probabilistic, machine.id, inputs, bf16))) return;
  const Question q = asked("gemm", distribution, n, unit.input);
  const Tensor a = converted<float>(q.inputs[0]), b = converted<float>(q.inputs[1]);
  on_described(rows, q, machine.id, inputs, mma_product(view(a), view(b, true), unit),
               mma_errors(view(q.inputs[0]), view(q.inputs[1], true), unit));
}

void on_machine(Table& rows, const Machine& machine, const std::string& distribution,
                std::size_t n) {
  if (machine.order()) {
    for (const Format& input : {fp32, bf16}) in_order(rows, machine, input, distribution, n);
  }
  for (const Format& input : {fp16, bf16, e4m3fn}) {
    const std::optional<Mma> unit = machine.mma(input);
    if (!unit) continue;
    on_unit(rows, machine, *unit, distribution, n);
    if (input.bits > 8) continue;
    Mma promoted = *unit;
    promoted.promoted_after = 128;
    on_unit(rows, machine, promoted, distribution, n);
  }
}

void run(Table& rows, const Effort& effort) {
  for (const std::size_t n : {256, 1024, 4096}) {
    for (const std::string distribution : distributions) {
      if (effort.out_of_time()) return;
      for (const std::string operation : {"gemm", "softmax", "rmsnorm", "layernorm"}) {
        for (const Format& input : {fp32, bf16}) {
          nearest_in_every_mode(rows, {operation, distribution, n, {}, {}}, input);
        }
      }
      for (const Machine& machine : all_machines()) on_machine(rows, machine, distribution, n);
      effort.progress(std::to_string(n) + " " + distribution);
    }
  }
}

}  // namespace

extern const Experiment bound_tightness{
    .name = "bound-tightness",
    .question = "How far is each bound from the largest error among 1,600 outputs?",
    .columns = {"operation", "mode", "n", "distribution", "machine", "inputs", "result", "outputs",
                "bound_over_largest_error", "largest_error_over_bound", "refused"},
    .keys = 7,
    .run = run,
};

}  // namespace plumb::experiments

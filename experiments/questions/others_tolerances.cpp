// What do the tolerances that others use accept, and whom do they accuse, next to ours?
//
// A healthy evaluation in FP32 (sums in the order that `ieee` names: any) of FP32 inputs, or of
// BF16 inputs with the result rounded to BF16, against the truth. Ours: worst case; 1e-9 for any
// violation among the outputs; the same where the order of the product's sum is known to be
// sequential.
#include <cmath>

#include "bounds/on_machine.hpp"
#include "bounds/tolerance.hpp"
#include "experiments/distributions.hpp"
#include "experiments/experiment.hpp"
#include "experiments/healthy.hpp"
#include "number/rounding.hpp"

namespace plumb::experiments {
namespace {

constexpr double delta = 1e-9;  // of probabilistic

struct Case {
  Question question;
  Format result;
  Tensor computed;
  Matrix<double> truth;
};

double norm(const Matrix<double>& x) {
  double squares = 0;
  for (const double v : x.values) squares += v * v;
  return std::sqrt(squares);
}

// The error that a rule accepts of one element, from its true and its computed value.
struct Rule {
  std::string name, source;
  std::string operation;  // the only one it is for; empty: any
  std::string result;     // the same for formats
  double (*accepts)(double truth, double computed, const Case& c);
};

bool narrow(const Case& c) { return c.result == bf16; }
double eps(const Case& c) { return 2 * c.result.unit_roundoff(); }  // as C and PyTorch say

// Sources: bounds/SOURCES.md.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {"torch assert_close", "PyTorch-close", "", "",
       [](double r, double, const Case& c) {
         return 1e-5 + (narrow(c) ? 1.6e-2 : 1.3e-6) * std::fabs(r);
       }},
      {"Highway 96 eps", "Highway-close", "gemm", "fp32",
       [](double r, double, const Case&) { return 96 * 0x1p-23 * std::max(std::fabs(r), 1.0); }},
      {"llm.c", "llm.c-close", "", "bf16",
       [](double r, double, const Case&) { return 1e-4 + 0.079 * std::fabs(r); }},
      {"CUTLASS relaxed", "CUTLASS-close", "gemm", "",
       [](double r, double x, const Case&) { return 0.1 * (std::fabs(r) + std::fabs(x)); }},
      {"rocBLAS", "rocBLAS-close", "gemm", "",
       [](double, double, const Case& c) {
         return static_cast<double>(c.question.n) * (narrow(c) ? 0.1 : 0x1p-23);
       }},
      {"oneDNN", "oneDNN-close", "softmax", "",
       [](double r, double, const Case& c) {
         return (narrow(c) ? 1 : 10) * eps(c) * std::fabs(r);
       }},
  };
  return all;
}

std::vector<std::string> key_of(const std::string& rule, const Case& c) {
  return {rule, c.question.operation, std::to_string(c.question.n), c.question.distribution,
          std::string(c.result.name)};
}

// `zeros`: how many elements of an output of nothing but zeros the rule would accept.
void add(std::vector<Table::Row>& rows, const std::string& rule, const Case& c,
         const Compared& seen, std::size_t zeros, const std::string& source) {
  std::vector<std::string> row = key_of(rule, c);
  row.push_back(std::to_string(c.truth.size()));
  row.push_back(cell(seen.looseness));
  row.push_back(cell(seen.nearest));
  row.push_back(std::to_string(seen.outside));
  row.push_back(std::to_string(zeros));
  row.push_back(source);
  rows.push_back(std::move(row));
}

// Adds a rule that takes a share of the norm of all elements together.
void by_norm(std::vector<Table::Row>& rows, const Case& c, const std::string& rule, double share,
             const std::string& source) {
  Matrix<double> error = c.truth;
  for (std::size_t e = 0; e < error.size(); ++e) {
    error.values[e] -= static_cast<double>(c.computed.values[e]);
  }
  const double off = norm(error), accepted = share * norm(c.truth);
  add(rows, rule, c,
      {off / accepted, off > 0 ? accepted / off : 0, off > accepted ? error.size() : 0}, 0, source);
}

void ours(std::vector<Table::Row>& rows, const Case& c, const std::string& name,
          const char* machine, Mode mode) {
  const Question& q = c.question;
  const Operation& operation = *find_operation(q.operation);
  ExactRoundings none;
  Call<double> meant{{}, q.attributes, {1, fp32, c.result}, none};
  for (const Matrix<double>& input : q.inputs) meant.inputs.push_back(&input);
  const std::vector<Matrix<double>> values = operation.value(meant);
  const ToleranceCall ask{meant.inputs, q.attributes, meant.how, mode, delta, values};
  const Outcome<Tolerance> t = tolerance_on(*find_machine(machine), operation, ask, c.result);
  if (!t) return;  // that is said by bound-tightness
  std::size_t zeros = 0;
  for (std::size_t e = 0; e < c.truth.size(); ++e) {
    zeros += std::fabs(c.truth.values[e]) <= t->bound[0].values[e] ? 1 : 0;
  }
  add(rows, name, c, compared(c.computed, c.truth, t->bound[0]), zeros, "-");
}

void judged(Table& rows, const std::string& operation, const std::string& distribution,
            std::size_t n, const Format& result) {
  Case c{{operation, distribution, n, {}, {}}, result, {}, {}};
  if (rows.settled(key_of("plumb 1e-9", c))) return;
  c.question = asked(operation, distribution, n, result);
  RealRoundings real;
  std::vector<Tensor> narrowed;
  for (const Matrix<double>& input : c.question.inputs) narrowed.push_back(converted<float>(input));
  Call<float> call{{}, c.question.attributes, {1, fp32, result}, real};
  for (const Tensor& input : narrowed) call.inputs.push_back(&input);
  c.computed = find_operation(operation)->evaluate(call)[0];
  c.truth = true_result(c.question);
  std::vector<Table::Row> group;
  for (const Rule& rule : rules()) {
    if (!rule.operation.empty() && rule.operation != operation) continue;
    if (!rule.result.empty() && rule.result != result.name) continue;
    Matrix<double> accepted = c.truth;
    std::size_t zeros = 0;
    for (std::size_t e = 0; e < accepted.size(); ++e) {
      const double r = c.truth.values[e];
      accepted.values[e] = rule.accepts(r, static_cast<double>(c.computed.values[e]), c);
      zeros += std::fabs(r) <= rule.accepts(r, 0, c) ? 1 : 0;
    }
    add(group, rule.name, c, compared(c.computed, c.truth, accepted), zeros, rule.source);
  }
  by_norm(group, c, "Megatron-LM 8.29 %", 0.0829, "Megatron-LM");
  if (result == fp32) by_norm(group, c, "Ginkgo 10 eps", 10 * 0x1p-23, "Ginkgo-close");
  ours(group, c, "plumb worst case", "ieee", Mode::deterministic);
  if (operation == "gemm") {
    ours(group, c, "plumb 1e-9 order known", "ieee-sequential", Mode::probabilistic);
  }
  ours(group, c, "plumb 1e-9", "ieee", Mode::probabilistic);
  rows.add_group(group);
}

void run(Table& rows, const Effort& effort) {
  for (const std::size_t n : {256, 4096}) {
    for (const std::string distribution : distributions) {
      for (const std::string operation : {"gemm", "softmax", "rmsnorm"}) {
        for (const Format& result : {fp32, bf16}) {
          if (effort.out_of_time()) return;
          judged(rows, operation, distribution, n, result);
        }
      }
      effort.progress(std::to_string(n) + " " + distribution);
    }
  }
}

}  // namespace

extern const Experiment others_tolerances{
    .name = "others-tolerances",
    .question = "What do the tolerances that others use accept, and whom do they accuse?",
    .columns = {"rule", "operation", "n", "distribution", "result", "outputs",
                "tolerance_over_largest_error", "largest_error_over_tolerance", "outside",
                "zeros_accepted", "source"},
    .keys = 5,
    .run = run,
};

}  // namespace plumb::experiments

// Is any error outside its bound? Every operation and every described machine, random and
// adversarial inputs; FP64 values for all elements, MPFR for a hundredth of them.
#include <array>
#include <cmath>

#include "bounds/examples/example.hpp"
#include "bounds/mma.hpp"
#include "bounds/on_machine.hpp"
#include "experiments/experiment.hpp"
#include "kernels/mma/product.hpp"
#include "kernels/ordered/product.hpp"

namespace plumb::experiments {
namespace {

constexpr std::array modes{Mode::deterministic, Mode::probabilistic, Mode::moments};
constexpr double delta = 1e-3;               // of probabilistic, per call
constexpr std::size_t elements = 15'000;     // of a row, times the effort
constexpr std::size_t one_in = 100;          // elements that MPFR judges
constexpr std::array beyond{3.0, 4.0, 5.0};  // deviations

// One evaluation, with its tolerance and its truth.
struct Case {
  std::vector<Tensor> computed;
  std::vector<Matrix<double>> values;
  std::function<Outcome<Tolerance>(Mode)> tolerance;
  std::function<std::vector<Matrix<BigFloat>>()> truth;
};

struct Subject {
  std::string name;
  std::function<Case(Draw&)> draw;
};

Subject of_operation(const Operation& operation) {
  return {std::string(operation.id), [&operation](Draw& draw) {
            const Example e = example_of(operation.id, draw);
            return Case{evaluation_of(e), value_of(e),
                        [e](Mode mode) { return tolerance_of(e, mode, delta); },
                        [e] { return truth_of(e); }};
          }};
}

// A product on a machine whose sums are described; `compute` is its emulation.
Subject of_product(const Machine& machine, const Format& input,
                   std::function<Tensor(View<float>, View<float>, std::uint64_t)> compute) {
  const std::string name = "gemm on " + machine.id + ", " + std::string(input.name);
  return {name, [&machine, input, compute](Draw& draw) {
            Example e{"gemm", {}, {{"transpose_a", 0}, {"transpose_b", 1}}, {}};
            const std::size_t k = draw.between(1, draw.between(0, 19) == 0 ? 1500 : 64);
            for (const std::size_t rows : {draw.between(1, 12), draw.between(2, 48)}) {
              Matrix<double> m = draw.matrix(rows, k, fp32);
              for (double& x : m.values) x = round_to(x, input, {.saturate = true});
              e.inputs.push_back(std::move(m));
            }
            e.how.output = draw.coin() ? bf16 : fp32;
            const Tensor a = converted<float>(e.inputs[0]), b = converted<float>(e.inputs[1]);
            Tensor c = compute(view(a), view(b, true), draw.between(1, 1'000'000));
            round_in_place(c.values, e.how.output);
            const auto values = value_of(e);
            const auto tolerance = [&machine, input, e, values](Mode mode) {
              return tolerance_on(
                  machine, *find_operation("gemm"),
                  {{&e.inputs[0], &e.inputs[1]}, e.attributes, e.how, mode, delta, values}, input);
            };
            return Case{{std::move(c)}, values, tolerance, [e] { return truth_of(e); }};
          }};
}

std::vector<Subject> all_subjects() {
  std::vector<Subject> subjects;
  for (const Operation* operation : all_operations()) subjects.push_back(of_operation(*operation));
  for (const Machine& machine : all_machines()) {
    if (const std::optional<Order> order = machine.order()) {
      for (const Format& input : {fp32, bf16}) {
        subjects.push_back(of_product(machine, input, [order](auto a, auto b, auto key) {
          return ordered_product(a, b, *order, key);
        }));
      }
    }
    for (const Format& input : {fp16, bf16, tf32, e4m3fn, e5m2}) {
      const std::optional<Mma> unit = machine.mma(input);
      if (!unit) continue;
      subjects.push_back(of_product(
          machine, input, [unit](auto a, auto b, auto) { return mma_product(a, b, *unit); }));
    }
  }
  return subjects;
}

struct Tally {
  std::size_t calls = 0, refused = 0, elements = 0, violations = 0, calls_violated = 0;
  std::size_t exact_elements = 0, exact_violations = 0;
  double largest = 0, squares = 0;  // of error / bound, or of z-scores
  std::size_t scores = 0;
  std::array<std::size_t, beyond.size()> far{};

  void score(double z) {
    ++scores;
    squares += z * z;
    for (std::size_t i = 0; i < beyond.size(); ++i) far[i] += std::fabs(z) > beyond[i] ? 1 : 0;
  }
};

void judge_moments(const Case& c, const Tolerance& t, Tally& tally) {
  for (std::size_t o = 0; o < c.computed.size(); ++o) {
    for (std::size_t e = 0; e < c.computed[o].size(); ++e) {
      const double sigma = t.bound[o].values[e];
      if (sigma == 0) continue;
      const double error = static_cast<double>(c.computed[o].values[e]) - c.values[o].values[e];
      ++tally.elements;
      tally.score((error - t.bias[o].values[e]) / sigma);
    }
  }
}

void judge_bound(const Case& c, const Tolerance& t, bool exactly, Tally& tally) {
  const std::size_t before = tally.violations;
  const auto truth = exactly ? c.truth() : std::vector<Matrix<BigFloat>>();
  for (std::size_t o = 0; o < c.computed.size(); ++o) {
    for (std::size_t e = 0; e < c.computed[o].size(); ++e) {
      const auto computed = static_cast<double>(c.computed[o].values[e]);
      const double bound = t.bound[o].values[e];
      const double error = std::fabs(computed - c.values[o].values[e]);
      ++tally.elements;
      tally.violations += error <= bound ? 0 : 1;
      if (error > 0) tally.largest = std::max(tally.largest, error / bound);
      if (!exactly) continue;
      ++tally.exact_elements;
      // FP64 may underflow on the way to a value: nothing is said of what lies below 2^-900.
      const double distance = truth[o].values[e].distance_from(computed);
      tally.exact_violations += distance <= bound + 0x1p-900 ? 0 : 1;
    }
  }
  tally.calls_violated += tally.violations > before ? 1 : 0;
}

std::vector<std::string> row_of(const std::vector<std::string>& key, Mode mode, const Tally& t) {
  std::vector<std::string> row = key;
  for (const std::size_t n : {t.calls, t.refused, t.elements}) row.push_back(std::to_string(n));
  if (mode == Mode::moments) {
    for (int i = 0; i < 5; ++i) row.push_back("-");
    const double scores = std::max(1.0, static_cast<double>(t.scores));
    row.push_back(t.scores == 0 ? "-" : cell(std::sqrt(t.squares / scores)));
    for (const std::size_t n : t.far) row.push_back(std::to_string(n));
    return row;
  }
  for (const std::size_t n :
       {t.violations, t.calls_violated, t.exact_elements, t.exact_violations}) {
    row.push_back(std::to_string(n));
  }
  row.push_back(cell(t.largest));
  for (int i = 0; i < 4; ++i) row.push_back("-");
  return row;
}

void run(Table& rows, const Effort& effort) {
  const std::size_t wanted = elements * static_cast<std::size_t>(effort.scale);
  for (const Subject& subject : all_subjects()) {
    for (const std::string kind : input_kinds) {
      const auto key = [&](Mode mode) {
        return std::vector<std::string>{subject.name, std::string(name_of(mode)), kind};
      };
      if (effort.out_of_time()) return;
      if (rows.settled(key(modes.back()))) continue;
      std::array<Tally, modes.size()> tallies;
      std::size_t seen = 0, judged_exactly = 0;
      for (unsigned seed = 1; seen < wanted; ++seed) {
        Draw draw(kind, seed);
        const Case c = subject.draw(draw);
        const bool exactly = judged_exactly * one_in <= seen;
        for (const Tensor& y : c.computed) {
          seen += y.size();
          judged_exactly += exactly ? y.size() : 0;
        }
        for (std::size_t m = 0; m < modes.size(); ++m) {
          ++tallies[m].calls;
          const auto t = c.tolerance(modes[m]);
          if (!t) ++tallies[m].refused;
          if (t && modes[m] == Mode::moments) judge_moments(c, *t, tallies[m]);
          if (t && modes[m] != Mode::moments) judge_bound(c, *t, exactly, tallies[m]);
        }
      }
      std::vector<Table::Row> group;
      for (std::size_t m = 0; m < modes.size(); ++m) {
        group.push_back(row_of(key(modes[m]), modes[m], tallies[m]));
      }
      rows.add_group(group);
      effort.progress(subject.name + ", " + kind + ": " + std::to_string(tallies[0].violations) +
                      " of " + std::to_string(tallies[0].elements) + " outside");
    }
  }
}

}  // namespace

extern const Experiment soundness{
    .name = "soundness",
    .question = "Is any error outside its bound, for any operation, mode, machine, kind of input?",
    .columns = {"operation", "mode", "inputs", "calls", "refused", "elements", "violations",
                "calls_violated", "mpfr_elements", "mpfr_violations", "largest_error_over_bound",
                "z_rms", "z_beyond_3", "z_beyond_4", "z_beyond_5"},
    .keys = 3,
    .run = run,
};

}  // namespace plumb::experiments

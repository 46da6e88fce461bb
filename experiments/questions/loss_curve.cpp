// From which step on would a person who compares curves of loss or gradient norm see a bug, and what
// does a check say at the first step? Runs with a bug, and without it in several layouts, from the
// same weights over the same data.
#include <fmt/format.h>

#include <map>

#include "experiments/curves.hpp"
#include "experiments/experiment.hpp"
#include "experiments/tiny.hpp"
#include "model/data/text.hpp"
#include "model/run/training.hpp"
#include "model/step/apart.hpp"

namespace plumb::experiments {
namespace {

constexpr int steps = 4000, together = 25;  // a row is the mean of so many steps

struct Watched {
  const char *family, *layout, *bug;
};
constexpr const char* none = "none";
constexpr Watched runs[] = {
    {"gpt", "dp1", none},
    {"gpt", "tp2", none},
    {"gpt", "tp2,sp", none},
    {"gpt", "cp2", none},
    {"gpt", "cp2:ring", none},
    {"gpt", "dp2", none},
    {"gpt", "tp2", "embedding-mask-on-shifted-ids"},
    {"gpt", "cp2", "cp-gradient-scale"},
    {"gpt", "dp2", "dp-gradient-scale"},
    {"gpt", "tp2,sp", "sp-norm-grad-not-reduced"},
    {"gpt", "cp2:ring", "cp-attention-dqkv-wrong"},
    {"gpt", "tp2", "one-masked-entry"},
    {"gpt-moe", "dp1", none},
    {"gpt-moe", "tp2", none},
    {"gpt-moe", "tp2,sp", none},
    {"gpt-moe", "tp2,sp", "sp-router-grad-not-reduced"},
};

std::vector<std::string> key_of(const Watched& run, int step) {
  return {run.family, run.bug, run.layout, std::to_string(step)};
}

// By the default rules; who reads curves has none. At the rate that the first step of many has.
std::vector<std::string> checked(const Watched& run, const Start& start, const Joints& joints) {
  if (std::string(run.layout) == "dp1") return {"-", "-"};  // the reference itself
  const CheckOptions options;
  const ExecutedReference reference(start);
  const Trace candidate = run_candidate(start, joints).trace;
  const Verdict verdict = check(reference.to_judge(), candidate, merge(candidate), options);
  return {std::to_string(verdict.findings.size()), verdict.blamed.empty() ? "-" : verdict.blamed};
}

// One run. Each rank goes on from its own state, also where a bug drives replicas apart.
std::vector<Table::Row> rows_of(const Watched& run, const Effort& effort) {
  const Start first = start_of(tiny_model(run.family), find_recipe("bf16"),
                               parse_layout(run.layout), default_text());
  Joints joints;
  if (run.bug != std::string(none)) find_bug(run.bug).plant(joints, {}, first.run.config);
  std::vector<Table::Row> rows;
  std::vector<Values> states;
  double loss = 0, norm = 0;
  const auto add = [&](int step, int n, const std::vector<std::string>& said) {
    Table::Row row = key_of(run, step);
    row.insert(row.end(), {fmt::format("{:.6g}", loss / n), fmt::format("{:.6g}", norm / n)});
    row.insert(row.end(), said.begin(), said.end());
    rows.push_back(row);
  };
  go_through(first, default_text(), steps, [&](Start now) {
    const int step = now.run.step;
    const bool begins = step == 1;
    const auto said = begins ? checked(run, now, joints) : std::vector<std::string>{"-", "-"};
    now.run.traced = false;
    Trace made = train_step_apart(now.run, now.leaves, states, joints, find_backend("reference"));
    loss += number_in(made, "loss/out");
    norm += number_in(made, "clip/grad_norm");
    if (begins) add(1, 1, said);
    if (step % together == 0) {
      add(step, together, said);
      loss = norm = 0;
    }
    if (step % 100 == 0) {
      effort.progress(std::string(run.bug) + " " + run.layout + " step " + std::to_string(step));
    }
    Values values = merge(made).values;
    states = states_apart(now.run, std::move(made));
    return values;
  });
  return rows;
}

void run(Table& rows, const Effort& effort) {
  for (const Watched& each : runs) {
    if (effort.out_of_time()) return;
    if (rows.settled(key_of(each, steps))) continue;
    rows.add_group(rows_of(each, effort));
  }
}

// The first step by itself, then means of 50 steps, at each 25.
struct Seen {
  std::vector<int> steps;
  CurveOf points;
  double last = 0;

  void add(int step, double value) {
    if (step > together) {
      steps.push_back(step);
      points.push_back((last + value) / 2);
    } else if (step == 1) {
      steps.push_back(step);
      points.push_back(value);
    }
    last = value;
  }
  // Mean of the last tenth of the run.
  double end() const {
    const std::size_t n = points.size() / 10;
    double sum = 0;
    for (std::size_t i = points.size() - n; i < points.size(); ++i) sum += points[i];
    return sum / static_cast<double>(n);
  }
};

using Of = std::vector<std::string>;  // family, bug, layout

void judge(Table& out, const std::map<Of, Seen>& curves, const std::map<Of, Of>& checks,
           const char* name) {
  for (const auto& [of, seen] : curves) {
    if (of[1] == none) continue;
    std::vector<CurveOf> healthy;
    CurveOf ends;
    for (const auto& [other, curve] : curves) {
      if (other[0] != of[0] || other[1] != none) continue;
      healthy.push_back(curve.points);
      ends.push_back(curve.end());
    }
    const Band band = band_of(healthy);
    for (const double k : {0.5, 1.0, 2.0, 4.0}) {
      const auto from = seen_from(seen.points, band, k);
      Table::Row row = of;
      row.insert(row.end(),
                 {name, cell(k), from ? std::to_string(seen.steps[*from]) : "never",
                  cell(seen.end()), cell(std::ranges::min(ends)), cell(std::ranges::max(ends))});
      row.insert(row.end(), checks.at(of).begin(), checks.at(of).end());
      out.add(row);
    }
  }
}

Table rates(const Table& rows) {
  Table out({"family", "bug", "layout", "curve", "k", "seen_from_step", "end", "healthy_end_least",
             "healthy_end_most", "findings_at_step_1", "blamed_at_step_1"},
            5);
  std::map<Of, Seen> losses, norms;
  std::map<Of, Of> checks;
  for (const Table::Row& row : rows.rows()) {
    const Of of{row.begin(), row.begin() + 3};
    const int step = std::stoi(row[3]);
    losses[of].add(step, std::stod(row[rows.column("loss")]));
    norms[of].add(step, std::stod(row[rows.column("grad_norm")]));
    if (step == 1) checks[of] = {row[rows.column("findings")], row[rows.column("blamed")]};
  }
  judge(out, losses, checks, "loss");
  judge(out, norms, checks, "grad_norm");
  return out;
}

}  // namespace

extern const Experiment loss_curve{
    .name = "loss-curve",
    .question =
        "From which step on would a person who compares curves see a bug that a check finds in the "
        "first step?",
    .columns = {"family", "bug", "layout", "step", "loss", "grad_norm", "findings", "blamed"},
    .keys = 4,
    .run = run,
    .trained_states = "none",
    .rates = rates,
};

}  // namespace plumb::experiments

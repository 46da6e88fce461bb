// What does a bug that a check finds in one step cost who trains on? Every bug of the catalogue for
// 2000 steps of a tiny model, beside healthy runs of the same model over the same data: when would the
// curve that the run reports show it, and how much worse is the model at the end, by a right step's
// loss over batches that it has not seen?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "experiments/costs.hpp"
#include "experiments/experiment.hpp"
#include "experiments/tiny.hpp"
#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "model/run/training.hpp"
#include "model/step/apart.hpp"
#include "trace/execute.hpp"

namespace plumb::experiments {
namespace {

constexpr int steps = 2000, together = 50;  // a row is the mean of so many steps
constexpr int unseen = 40;                  // batches that judge what was learnt

// A run: a bug, or none, in one layout of one model.
struct Learning {
  const Bug* bug;  // null: none
  Config config;
  std::string recipe, layout;

  Table::Row key(int step) const {
    return {model(), recipe, layout, bug == nullptr ? healthy_run : std::string(bug->id),
            std::to_string(step)};
  }
  // The family, and what is other than in the tiny model.
  std::string model() const {
    std::string text = family_of(config);
    const Config plain = tiny_model(text);
    for (const Size& size : sizes()) {
      const int value = config.*size.field;
      if (value == plain.*size.field) continue;
      text += " " + std::string(size.name) + "=" + text_of(size, value);
    }
    return text;
  }
};

// Each bug in the first family that it bites in, after the healthy runs that it is held against.
std::vector<Learning> all_runs() {
  std::vector<Learning> broken, runs;
  std::set<Table::Row> known;
  for (const Bug* bug : all_bugs()) {
    const Needs& needs = bug->needs;
    Learning run{bug, tiny_model(needs.family(needs.families.front())), std::string(needs.recipe),
                 std::string(needs.layout)};
    needs.complete(run.config);
    broken.push_back(run);
    run.bug = nullptr;
    for (const std::string& layout : {run.layout, std::string("dp1"), std::string("dp2"),
                                      std::string("tp2"), std::string("tp2,sp")}) {
      run.layout = layout;
      if (known.insert(run.key(0)).second) runs.push_back(run);
    }
  }
  runs.insert(runs.end(), broken.begin(), broken.end());
  return runs;
}

// The loss of a right step, without a layout, from what a run has learnt.
double right_loss(const Start& now) {
  const Training& run = now.run;
  const Values step = reference(plan(run.config, run.recipe, {}, run.step), now.leaves);
  return static_cast<double>(step.at("loss/out")->values[0]);
}

// Steps over ranks. Each rank goes on from its own state, also where a bug drives replicas apart;
// not under ZeRO, where ranks keep shares, nor where a bug is in what a rank keeps between steps.
class Ranks {
 public:
  explicit Ranks(const Learning& of)
      : apart_(parse_layout(of.layout).zero == 0 &&
               !(of.bug != nullptr && of.bug->in_the_next_step)) {
    if (of.bug != nullptr) of.bug->plant(joints_, {}, of.config);
  }
  Trace step(Start& now) {
    now.run.traced = false;
    const Backend& backend = find_backend("reference");
    return apart_ ? train_step_apart(now.run, now.leaves, states_, joints_, backend)
                  : train_step(now.run, now.leaves, joints_, backend, threads(), &stale_);
  }
  // What the step after starts from.
  Values went(const Start& now, Trace made) {
    Values values = merge(made).values;
    if (apart_) states_ = states_apart(now.run, std::move(made));
    return values;
  }

 private:
  bool apart_;
  Joints joints_;
  std::vector<Values> states_;
  std::vector<StaleGradients> stale_;
};

std::vector<Table::Row> rows_of(const Learning& of) {
  Ranks ranks(of);
  std::vector<Table::Row> rows;
  double sum = 0, unseen_sum = 0;
  Values learnt;
  const Start first =
      start_of(of.config, find_recipe(of.recipe), parse_layout(of.layout), default_text());
  go_through(first, default_text(), steps + unseen, [&](Start now) {
    const int step = now.run.step;
    if (step > steps) {
      unseen_sum += right_loss(now);
      return learnt;
    }
    Trace made = ranks.step(now);
    sum += number_in(made, "loss/out");
    if (step % together == 0) {
      Table::Row row = of.key(step);
      row.insert(row.end(), {fmt::format("{:.6g}", sum / together), "-"});
      rows.push_back(std::move(row));
      sum = 0;
    }
    return learnt = ranks.went(now, std::move(made));
  });
  rows.back().back() = fmt::format("{:.6g}", unseen_sum / unseen);
  return rows;
}

// Of a run whose ranks do not have what they need for the next step.
std::vector<Table::Row> no_rows_of(const Learning& of) {
  std::vector<Table::Row> rows;
  for (int step = together; step <= steps; step += together) {
    Table::Row row = of.key(step);
    row.insert(row.end(), {"-", "-"});
    rows.push_back(std::move(row));
  }
  return rows;
}

void run(Table& rows, const Effort& effort) {
  for (const Learning& each : all_runs()) {
    if (effort.out_of_time()) return;
    if (rows.settled(each.key(steps))) continue;
    const Table::Row key = each.key(steps);
    effort.progress(key[3] + " " + key[0] + " " + key[1] + " " + key[2]);
    try {
      rows.add_group(rows_of(each));
    } catch (const Failure& why) {
      effort.progress(key[3] + ": its ranks cannot go on: " + why.what());
      rows.add_group(no_rows_of(each));
    }
  }
}

}  // namespace

extern const Experiment training_cost{
    .name = "training-cost",
    .question = "What does each bug cost who trains on, and would the curve of the loss tell?",
    .columns = columns_of_costs(),
    .keys = 5,
    .run = run,
    .trained_states = "none",
    .rates = rates_of_costs,
};

}  // namespace plumb::experiments

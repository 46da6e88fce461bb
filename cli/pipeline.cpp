#include "cli/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/columns.hpp"
#include "cli/values.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "paper_repro/evidence.hpp"

namespace plumb::cli {
namespace {

using nlohmann::json;

constexpr std::array grains{Grain::operation, Grain::layer, Grain::micro_batch};
constexpr std::array options{"--check-steps", "--piece", "--backward", "--send"};

// The default rules, with the merging and reading that they need, at their dearest.
double measured_steps() {
  const paper_repro::Evidence rows = paper_repro::committed_evidence();
  double most = 0;
  for (const paper_repro::Row& row : rows.rows("step-cost")) {
    most = std::max(most, row.number("twins_and_replay"));
  }
  return most;
}

Grain grain_named(const std::string& name) {
  return *std::ranges::find_if(grains, [&](Grain grain) { return name == name_of(grain); });
}

json row_of(const char* order, const Orders& orders, const Layout& l, const CheckPieces& check,
            Filling filling) {
  const Bubbles seen = bubbles_of(orders, l.stages(), check.tasks, filling);
  filling.fill = Fill::polled;
  const Bubbles polled = bubbles_of(orders, l.stages(), check.tasks, filling);
  return {{"order", order},
          {"waits", seen.share},
          {"used", seen.used},
          {"fits", seen.fitted},
          {"steps", seen.steps()},
          {"slow_down", seen.slow_down},
          {"slow_down_unforeseen", polled.slow_down}};
}

std::string per_cent(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

void CheckPieces::add_to(CLI::App& verb) {
  verb.add_option("--check-steps", steps,
                  "what a check of a step costs, in steps of one device (as the rows of step-cost "
                  "say)")
      ->check(numbers(1e-3, 1e6));
  verb.add_option("--piece", piece,
                  "what ranks do of a check at a time: operation (the largest product), layer or "
                  "micro-batch (a chunk's)")
      ->capture_default_str()
      ->check(CLI::IsMember({"operation", "layer", "micro-batch"}));
  verb.add_option("--backward", tasks.backward, "what a backward costs, in forwards")
      ->capture_default_str()
      ->check(numbers(1e-3, 1e3));
  verb.add_option("--send", tasks.send,
                  "what a message between stages costs, in forwards of a chunk")
      ->capture_default_str()
      ->check(numbers(0, 1e3));
  for (const char* option : options) verb.get_option(option)->group("Waits in a pipeline");
}

void CheckPieces::refuse_odd(const CLI::App& verb, const Layout& layout) const {
  if (layout.pp > 1) return;
  for (const char* option : options) {
    if (verb.count(option) == 0) continue;
    throw Failure(std::string(option) + " is for ranks that wait in a pipeline, and " +
                  name_of(layout) + " has one stage; say ppN in --layout, or leave it out");
  }
}

json pipeline_of(const Config& c, const Layout& l, const CheckPieces& check) {
  const int n = c.micro_batches / l.dp;
  const double steps = check.steps > 0 ? check.steps : measured_steps();
  const double chunk_layers = static_cast<double>(c.blocks()) / l.stages();
  Filling filling;
  filling.work = steps * l.vpp * n * (check.tasks.forward + check.tasks.backward);
  filling.piece = size_of(grain_named(check.piece), c, chunk_layers);
  json rows = json::array();
  rows.push_back(row_of("as run here", schedule(l.pp, l.stages(), n), l, check, filling));
  if (l.vpp > 1 && n % l.pp == 0) {
    rows.push_back(row_of("interleaved", interleaved(l.pp, l.vpp, n), l, check, filling));
  }
  return {{"ranks", l.pp},
          {"chunks", l.vpp},
          {"micro_batches", n},
          {"published_waits", published_share(l.pp, l.vpp, n)},
          {"check_steps", steps},
          {"check_steps_by", check.steps > 0 ? "--check-steps" : "rows of step-cost"},
          {"piece", check.piece},
          {"piece_forwards", filling.piece},
          {"orders", rows}};
}

void tell_pipeline(const json& p) {
  std::vector<std::vector<std::string>> rows;
  for (const json& row : p["orders"]) {
    const int steps = row["steps"];
    rows.push_back({row["order"], per_cent(row["waits"]), per_cent(row["used"]),
                    per_cent(row["fits"]), steps == 0 ? "never" : fmt::format("{}", steps),
                    per_cent(row["slow_down_unforeseen"])});
  }
  fmt::print("\n{}({} of {}, {}; published waits: {})\n",
             in_columns({{"order of the pipeline"},
                         {"ranks wait", true},
                         {"used", true},
                         {"of a check", true},
                         {"steps for one", true},
                         {"slower, unforeseen", true}},
                        rows),
             how_many(p["ranks"].get<std::size_t>(), "rank"),
             how_many(p["chunks"].get<std::size_t>(), "chunk"),
             how_many(p["micro_batches"].get<std::size_t>(), "micro-batch", "micro-batches"),
             per_cent(p["published_waits"]));
  fmt::print(
      "(a check of the step before: {:.3g} steps of one device by {}, in pieces of {:.2g} forwards of "
      "a chunk, each begun if it ends before the wait does; last column: begun while there is a wait)\n",
      p["check_steps"].get<double>(), p["check_steps_by"].get<std::string>(),
      p["piece_forwards"].get<double>());
}

}  // namespace plumb::cli

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "cli/colour.hpp"
#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/verbs.hpp"
#include "number/words.hpp"
#include "trace/placements/blocks.hpp"
#include "trace/selection.hpp"
#include "trace/store/store.hpp"

namespace plumb::cli {
namespace {

struct Line {
  std::string id, format;
  std::size_t rows, cols;
  About about;
  double rms, largest;

  std::string shape() const {
    return about.shape.empty() ? fmt::format("{} x {}", rows, cols) : text_of_extents(about.shape);
  }
};

// Of what is no short format: as its file has it, so FP64 or whole numbers.
std::string format_in(const Trace& trace, const std::string& id, const Whole& t) {
  for (const RankRecord& rank : trace.ranks) {
    const auto shard = rank.shards.find(id);
    if (shard == rank.shards.end() || !shard->second.in_file) continue;
    if (shard->second.format == fp32) {
      return std::string(name_of(shard->second.in_file->numbers.stored));
    }
  }
  return std::string(t.format.name);
}

Line line_of(const std::string& id, const Whole& t, const Trace& trace) {
  double squares = 0, largest = 0;
  Reading reading(t);
  by_stretches(t.size(), [&](std::size_t first, std::size_t n) {
    for (const float x : std::span(reading(first, n), n)) {
      squares += static_cast<double>(x) * x;
      largest = std::max(largest, std::fabs(static_cast<double>(x)));
    }
    return true;
  });
  const double rms = t.size() == 0 ? 0 : std::sqrt(squares / static_cast<double>(t.size()));
  const auto says = trace.about.find(id);
  return {id,
          format_in(trace, id, t),
          t.rows,
          t.cols,
          says == trace.about.end() ? About() : says->second,
          rms,
          largest};
}

struct Inspected {
  Manifest manifest;
  std::vector<Line> lines;
  std::vector<Finding> findings;
};

Inspected inspected(const std::string& folder, const std::string& only,
                    const std::string& placement) {
  const Selection select(only, "");
  const Trace trace = read_trace(folder, placement.empty() ? Overrides() : Overrides(placement));
  Run run(trace);
  std::map<std::string, Shown> shown;
  Inspected seen{trace.manifest, {}, {}};
  for (const auto& [id, tensor] : run.values) {
    shown.emplace(id, look_at(tensor));
    if (select(id)) seen.lines.push_back(line_of(id, tensor, trace));
  }
  run.tell(shown);
  seen.findings = run.findings;
  if (run.values.empty() && seen.findings.empty()) {
    throw Failure(folder + " has no tensor; trace again, or see what only and skip left");
  }
  if (seen.lines.empty() && !only.empty()) {
    throw Failure("--only '" + only + "' matches no id of " + folder +
                  "; without it all are listed");
  }
  seen.findings.insert(seen.findings.end(), run.not_finite.begin(), run.not_finite.end());
  return seen;
}

void tell(const Inspected& seen) {
  fmt::print("producer {}, {}, step {}\n", seen.manifest.producer,
             how_many(static_cast<std::size_t>(seen.manifest.world_size), "rank"),
             seen.manifest.step);
  for (const auto* settings : {&seen.manifest.settings, &seen.manifest.may_differ}) {
    for (const auto& [key, value] : *settings) fmt::print("  {} {}\n", key, value);
  }
  std::vector<Column> columns{{}, {"", true}, {}, {}, {}};
  const bool named =
      std::ranges::any_of(seen.lines, [](const Line& l) { return !l.about.own_name.empty(); });
  if (named) columns.emplace_back();
  std::vector<std::vector<std::string>> rows;
  for (const Line& l : seen.lines) {
    rows.push_back({l.id, l.shape(), l.format, fmt::format("rms {:.4g}", l.rms),
                    fmt::format("largest {:.4g}", l.largest)});
    if (named) rows.back().push_back(l.about.own_name);
  }
  fmt::print("{}", in_columns(columns, rows));
  for (const Finding& f : seen.findings) say("finding: {} {}\n", f.id, f.detail);
}

void tell_json(const Inspected& seen) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const Line& l : seen.lines) {
    tensors.push_back({{"id", l.id},
                       {"rows", l.rows},
                       {"columns", l.cols},
                       {"format", l.format},
                       {"rms", l.rms},
                       {"largest", l.largest}});
    if (!l.about.shape.empty()) tensors.back()["shape"] = l.about.shape;
    if (!l.about.own_name.empty()) tensors.back()["own_name"] = l.about.own_name;
  }
  print_document("plumb-inspect/1", {{"producer", seen.manifest.producer},
                                     {"ranks", seen.manifest.world_size},
                                     {"step", seen.manifest.step},
                                     {"settings", seen.manifest.settings},
                                     {"may_differ", seen.manifest.may_differ},
                                     {"tensors", tensors},
                                     {"findings", json_of(seen.findings)}});
}

}  // namespace

void add_inspect(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("inspect", "what is in a trace");
  static std::string folder, only, placement, reference;
  static bool as_json = false, suggest = false;
  verb->add_option("TRACE", folder, "a trace")->required();
  verb->add_option("--only", only, "only ids that match this regular expression");
  add_placement(*verb, placement);
  auto* look = verb->add_flag("--suggest", suggest,
                              "look for the placement under which the pieces of each tensor fit");
  verb->add_option("--reference", reference, "trace of the reference: its values tell fits apart")
      ->needs(look);
  add_json(*verb, as_json);
  verb->callback([&chosen] {
    chosen = [] {
      if (suggest) return suggest_placements(folder, {only, placement, reference}, as_json);
      const Inspected seen = inspected(folder, only, placement);
      as_json ? tell_json(seen) : tell(seen);
      return 0;
    };
  });
}

}  // namespace plumb::cli

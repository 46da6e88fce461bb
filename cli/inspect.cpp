#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/colour.hpp"
#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/verbs.hpp"
#include "number/words.hpp"
#include "trace/selection.hpp"
#include "trace/store/store.hpp"

namespace plumb::cli {
namespace {

struct Line {
  std::string id, format;
  std::size_t rows, cols;
  double rms, largest;
};

Line line_of(const std::string& id, const Tensor& t, const Format& format) {
  double squares = 0, largest = 0;
  for (const float x : t.values) {
    squares += static_cast<double>(x) * x;
    largest = std::max(largest, std::fabs(static_cast<double>(x)));
  }
  const double rms = t.size() == 0 ? 0 : std::sqrt(squares / static_cast<double>(t.size()));
  return {id, std::string(format.name), t.rows, t.cols, rms, largest};
}

struct Inspected {
  Manifest manifest;
  std::vector<Line> lines;
  std::vector<Finding> findings;
};

Inspected inspected(const std::string& folder, const std::string& only) {
  const Selection select(only, "");
  const Trace trace = read_trace(folder);
  const Merged merged = merge(trace);
  Inspected seen{trace.manifest, {}, merged.findings};
  for (const auto& [id, tensor] : merged.values) {
    if (select(id)) seen.lines.push_back(line_of(id, *tensor, merged.formats.at(id)));
  }
  if (seen.lines.empty()) {
    throw Failure("--only '" + only + "' matches no id of " + folder +
                  "; without it all are listed");
  }
  seen.findings.insert(seen.findings.end(), merged.not_finite.begin(), merged.not_finite.end());
  return seen;
}

void tell(const Inspected& seen) {
  fmt::print("producer {}, {}, step {}\n", seen.manifest.producer,
             how_many(static_cast<std::size_t>(seen.manifest.world_size), "rank"),
             seen.manifest.step);
  for (const auto& [key, value] : seen.manifest.settings) fmt::print("  {} {}\n", key, value);
  std::vector<std::vector<std::string>> rows;
  for (const Line& l : seen.lines) {
    rows.push_back({l.id, fmt::format("{} x {}", l.rows, l.cols), l.format,
                    fmt::format("rms {:.4g}", l.rms), fmt::format("largest {:.4g}", l.largest)});
  }
  fmt::print("{}", in_columns({{}, {"", true}, {}, {}, {}}, rows));
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
  }
  print_document("plumb-inspect/1", {{"producer", seen.manifest.producer},
                                     {"ranks", seen.manifest.world_size},
                                     {"step", seen.manifest.step},
                                     {"settings", seen.manifest.settings},
                                     {"tensors", tensors},
                                     {"findings", json_of(seen.findings)}});
}

}  // namespace

void add_inspect(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("inspect", "what is in a trace");
  static std::string folder, only;
  static bool as_json = false;
  verb->add_option("TRACE", folder, "a trace")->required();
  verb->add_option("--only", only, "only ids that match this regular expression");
  add_json(*verb, as_json);
  verb->callback([&chosen] {
    chosen = [] {
      const Inspected seen = inspected(folder, only);
      as_json ? tell_json(seen) : tell(seen);
      return 0;
    };
  });
}

}  // namespace plumb::cli

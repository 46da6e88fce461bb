#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/verbs.hpp"
#include "number/words.hpp"
#include "trace/selection.hpp"
#include "trace/store/store.hpp"

namespace plumb::cli {
namespace {

void print(const std::string& id, const Tensor& t, const Format& format) {
  double squares = 0, largest = 0;
  for (const float x : t.values) {
    squares += static_cast<double>(x) * x;
    largest = std::max(largest, std::fabs(static_cast<double>(x)));
  }
  const double rms = t.size() == 0 ? 0 : std::sqrt(squares / static_cast<double>(t.size()));
  fmt::print("{:<48} {:>5} x {:<5} {:<6} rms {:.4g}  largest {:.4g}\n", id, t.rows, t.cols,
             format.name, rms, largest);
}

}  // namespace

void add_inspect(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("inspect", "what is in a trace");
  static std::string folder, only;
  verb->add_option("TRACE", folder, "a trace")->required();
  verb->add_option("--only", only, "only ids that match this regular expression");
  verb->callback([&chosen] {
    chosen = [] {
      const Selection select(only, "");
      const Trace trace = read_trace(folder);
      const Merged merged = merge(trace);
      if (std::ranges::none_of(merged.values, [&](const auto& v) { return select(v.first); })) {
        throw Failure("--only '" + only + "' matches no id of " + folder +
                      "; without it all are listed");
      }
      const auto ranks = static_cast<std::size_t>(trace.manifest.world_size);
      fmt::print("producer {}, {}, step {}\n", trace.manifest.producer, how_many(ranks, "rank"),
                 trace.manifest.step);
      for (const auto& [key, value] : trace.manifest.settings) fmt::print("  {} {}\n", key, value);
      for (const auto& [id, tensor] : merged.values) {
        if (select(id)) print(id, *tensor, merged.formats.at(id));
      }
      for (const auto& findings : {merged.findings, merged.not_finite}) {
        for (const Finding& f : findings) fmt::print("finding: {} {}\n", f.id, f.detail);
      }
      return 0;
    };
  });
}

}  // namespace plumb::cli

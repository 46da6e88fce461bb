#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "cli/colour.hpp"
#include "cli/stop.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/merge.hpp"
#include "trace/sketch.hpp"
#include "trace/store/store.hpp"
#include "trace/store/write_format2.hpp"

namespace plumb::cli {
namespace {

Tile tile_from(const std::string& text) {
  Tile tile;
  char end = 0;
  const bool two = std::sscanf(text.c_str(), "%4zux%4zu%c", &tile.rows, &tile.columns, &end) == 2;
  if (two && std::has_single_bit(tile.rows) && std::has_single_bit(tile.columns)) return tile;
  throw Failure("--tile is ROWSxCOLUMNS, powers of two, as 16x16, and not '" + text + "'");
}

std::size_t explained(const Abouts& all) {
  return static_cast<std::size_t>(
      std::ranges::count_if(all, [](const auto& one) { return one.second.made_by.has_value(); }));
}

double megabytes(const Trace& trace, bool as_stored) {
  double bytes = 0;
  for (const RankRecord& rank : trace.ranks) {
    for (const auto& [id, shard] : rank.shards) {
      const double bits = as_stored ? shard.format.bits : 32;
      bytes += static_cast<double>(shard.rows() * shard.cols()) * bits / 8;
    }
  }
  return bytes / 1e6;
}

void say_what_is_not_whole(const Trace& trace) {
  Run run(trace);
  run.tell({});
  if (run.findings.empty()) return;
  const Finding& f = run.findings.front();
  say("note: the trace is not whole, nor is its sketch: {} {}{}\n", f.id, f.detail,
      run.findings.size() == 1
          ? ""
          : fmt::format(", and {} more (plumb inspect lists them)", run.findings.size() - 1));
}

}  // namespace

void add_sketch(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("sketch", "a trace in tiles, for runs too large to keep");
  static std::string trace, out, tile = "16x16";
  static SketchOptions options;
  verb->add_option("TRACE", trace, "trace of one step")->required();
  verb->add_option("-o,--output", out, "folder to write, a trace of version 2")
      ->required()
      ->check(new_traces());
  verb->add_option("--tile", tile,
                   "largest tile of a tensor, ROWSxCOLUMNS, powers of two; smaller "
                   "tensors have smaller ones")
      ->capture_default_str();
  verb->add_option("--shards", options.shards,
                   "into how many equal parts a dimension may be cut in any of the runs: no tile "
                   "crosses these")
      ->capture_default_str()
      ->check(whole_numbers(1, 1 << 20));
  verb->add_option("--seed", options.seed, "of the draw: the same for all that are compared")
      ->capture_default_str();
  verb->footer(
      "Sketch the reference, the candidate and the twins alike, and give them to plumb check: twins\n"
      "are the tolerance of sketches, too. Vectors are kept, so that their updates are replayed; all\n"
      "other replay needs the traces themselves.");
  verb->callback([&chosen] {
    chosen = [] {
      options.most = tile_from(tile);
      options.threads = std::max(std::thread::hardware_concurrency(), 1U);
      if (!traces_of(trace).empty())
        throw Failure(trace + " is a run of several steps; name the trace of one of them");
      name_what_was_left(out);
      const Loaded whole = load_to_check(trace);
      const Trace small = sketched(whole.trace, options);
      write_format2(small, out);
      fmt::print("{} in {}: {:.3g} MB of {:.3g}\n", how_many(small.about.size(), "tensor"), out,
                 megabytes(small, false), megabytes(whole.trace, true));
      say_what_is_not_whole(whole.trace);
      if (whole.trace.messages) fmt::print("left out: its collectives\n");
      const Abouts before = whole.trace.graph ? said_by(*whole.trace.graph) : whole.trace.about;
      const std::size_t left_out = explained(before) - explained(small.about);
      if (left_out > 0) {
        fmt::print(
            "left out: how {} made, so that their settings, as a rate of learning, are not compared\n",
            how_many(left_out, "tensor is", "tensors are"));
      }
      return 0;
    };
  });
}

}  // namespace plumb::cli

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

constexpr double most_slow_down = 0.02;  // the goal of the project

// What a check costs, in steps of one device, at its dearest.
double check_steps(const Evidence& evidence) {
  double most = 0;
  for (const Row& row : evidence.rows("step-cost")) {
    most = std::max(most, row.number("twins_and_replay"));
  }
  return most;
}

// The order as published: this program's own waits longer where stages take turns.
bool counts(const Row& row) {
  return row["piece"] == "operation" &&
         (row["chunks"] == "1" ? row["order"] == "as-run" : row["order"] == "interleaved");
}

// Shares of a check that one step's waits take.
struct Shapes {
  std::map<std::pair<int, int>, std::map<int, double>> shares;  // by ranks and chunks, batches
  std::size_t whole = 0, of = 0;
  double least = 1e300, most = 0;
};

Shapes shapes_of(const Evidence& evidence, double check) {
  Shapes all;
  for (const Row& row : evidence.rows("bubbles")) {
    if (!counts(row)) continue;
    const double share = row.number("done_steps") / check;
    const auto number = [&](const char* column) { return static_cast<int>(row.number(column)); };
    all.shares[{number("ranks"), number("chunks")}][number("micro_batches")] = share;
    all.whole += share >= 1 ? 1 : 0;
    ++all.of;
    all.least = std::min(all.least, share);
    all.most = std::max(all.most, share);
  }
  if (all.of == 0) throw NotMeasured{"rows of bubbles in pieces of an operation"};
  return all;
}

std::string table_of(const Shapes& shapes) {
  std::vector<std::string> heading{"ranks", "chunks on each"};
  std::vector<std::vector<std::string>> rows;
  std::map<int, bool> batches;
  for (const auto& [shape, of] : shapes.shares) {
    for (const auto& [n, share] : of) batches[n] = true;
  }
  for (const auto& [n, there] : batches) heading.push_back(fmt::format("{} micro-batches", n));
  for (const auto& [shape, of] : shapes.shares) {
    rows.push_back({std::to_string(shape.first), std::to_string(shape.second)});
    for (const auto& [n, there] : batches) {
      const auto found = of.find(n);
      rows.back().push_back(found == of.end() ? "" : fmt::format("{:.1f} %", 100 * found->second));
    }
  }
  return table(heading, rows);
}

struct Middle {
  double low, middle, high;
};
// The quartiles of a column, the lower neighbours of the exact ones.
Middle middle_of(const Rows& rows, const char* column) {
  std::vector<double> all;
  for (const Row& row : rows) all.push_back(row.number(column));
  std::ranges::sort(all);
  const auto at = [&](std::size_t quarters) { return all[(all.size() - 1) * quarters / 4]; };
  return {at(1), at(2), at(3)};
}
std::string told(const Middle& m) {
  return fmt::format("{:.1f} % ({:.1f} to {:.1f})", 100 * m.middle, 100 * m.low, 100 * m.high);
}

// Steps that two ranks really made.
struct Real {
  std::vector<std::vector<std::string>> rows;
  double least_slow = 1e300, most_slow = -1e300, least_used = 1e300, most_used = 0;
};

Real real_steps(const Evidence& evidence) {
  const Rows& all = evidence.rows("bubbles-run");
  Real real;
  for (const std::string& world : values_of(all, "world")) {
    const Rows of_world = where(all, {{"world", world}});
    for (const std::string& layout : values_of(of_world, "layout")) {
      const Rows rows = where(of_world, {{"layout", layout}});
      const Middle slow = middle_of(rows, "slow_down"), used = middle_of(rows, "used");
      real.most_slow = std::max(real.most_slow, slow.middle);
      real.least_slow = std::min(real.least_slow, slow.middle);
      real.most_used = std::max(real.most_used, used.middle);
      real.least_used = std::min(real.least_used, used.middle);
      real.rows.push_back({world, layout, std::to_string(rows.size()),
                           told(middle_of(rows, "waits")), told(used),
                           told(middle_of(rows, "fits_of_all")), told(slow)});
    }
  }
  return real;
}

Answer judge(const Evidence& evidence) {
  const double check = check_steps(evidence);
  const Shapes shapes = shapes_of(evidence, check);
  const Real real = real_steps(evidence);
  const bool light = real.most_slow < most_slow_down;
  return {
      light && shapes.whole == shapes.of ? Agreement::yes
      : light && shapes.least > 0        ? Agreement::partly
                                         : Agreement::no,
      fmt::format(
          "the waits of one step take {:.1f} to {:.0f} % of a check, which is {:.1f} steps of work; two "
          "real ranks fill {:.0f} to {:.0f} % of theirs, and their steps get {:+.1f} to {:+.1f} % "
          "longer",
          100 * shapes.least, 100 * shapes.most, check, 100 * real.least_used, 100 * real.most_used,
          100 * real.least_slow, 100 * real.most_slow),
      {},
      "Share of a check that the waits of one step take, simulated:\n\n" + table_of(shapes) +
          "\nReal steps of two ranks, median (quartiles):\n\n" +
          table({"world", "layout", "pairs of steps", "ranks wait", "of that used for replay",
                 "of all operations replayed", "forward and backward longer by"},
                real.rows)};
}

}  // namespace

extern const Claim b20_a_check_fits_into_bubbles{
    .id = "B20",
    .says = "A check of a step fits into the idle slots of a pipeline",
    .where = "goes beyond: PipeFill runs other jobs there",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "Fits: the waits of one step take all of a check by the default rules, in every shape, and "
        "forward and backward of real steps get longer by less than 2 % (median). Partly: waits of "
        "several steps do. 1F1B, or the interleaved order as published; backward twice a forward.",
    .rows =
        {{"bubbles", "as-run 4 1 "},
         {"step-cost", "",
          "tests/bench/workflow.cpp: build/bench/bench_workflow --benchmark_format=csv >step-cost.csv"},
         {"bubbles-run", "",
          "tests/bench/bubbles.cpp: build/bench/bench_bubbles >bubbles-run.csv"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

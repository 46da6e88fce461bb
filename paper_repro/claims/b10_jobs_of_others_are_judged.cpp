#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

// Mistakes that a rule may miss: SMALL of examples/torch/run.py.
constexpr std::array<std::string_view, 9> small{"smoothing", "padded",    "label",
                                                "reduce",    "ends",      "duplicate",
                                                "epsilon",   "positions", "balance"};

bool is_healthy(const Row& row) { return row.is("run", "healthy"); }
bool is_small(const Row& row) {
  return std::ranges::any_of(small, [&](std::string_view name) { return row.is("run", name); });
}

void count(Share& share, bool hit) {
  ++share.of;
  share.hits += hit ? 1 : 0;
}
std::string said(const Share& share) {
  return share.of > 0 ? fmt::format("{} of {}", share.hits, share.of) : "-";
}

const Row* healthy_of(const Rows& all, const Row& of) {
  for (const Row& row : all) {
    const auto alike = [&](const char* name) { return row[name] == of[name]; };
    if (is_healthy(row) && alike("example") && alike("format") && alike("weights") && alike("seed"))
      return &row;
  }
  return nullptr;
}

// A mistake that does nothing in a run, as a norm for clipping that lies below the limit either way:
// acquitted, and exactly as far off as the healthy run.
bool is_idle(const Row& row, const Rows& all) {
  const Row* healthy = healthy_of(all, row);
  return row.is("exit_code", "0") && healthy != nullptr &&
         row["farthest"] == (*healthy)["farthest"];
}

// The smallest flat margin that accuses no healthy run of a cell: the best that a constant can be.
double fitted(const Rows& all, const Row& of) {
  double margin = 0;
  for (const Row& row : where(all, {{"example", of["example"]},
                                    {"format", of["format"]},
                                    {"weights", of["weights"]},
                                    {"run", "healthy"}})) {
    margin = std::max(margin, row.number("farthest"));
  }
  return margin;
}

struct Seen {
  Share accused, undecided, close;      // of healthy runs; `close`: accused by assert_close
  Share right, flat;                    // of large mistakes
  Share ours, flat_small, fitted_flat;  // of small ones
  double near = 0, least = 1;           // share foretold: its sum, the smallest
  std::size_t foretold = 0, idle = 0;

  void add(const Row& row, const Rows& all) {
    const bool found = row.is("exit_code", "1");
    if (is_healthy(row)) {
      count(accused, found);
      count(undecided, row.is("exit_code", "3"));
      count(close, row.yes("assert_close_found"));
      if (row.number("differ") < 20) return;  // a share of few says little
      near += row.number("near");
      least = std::min(least, row.number("near"));
      ++foretold;
    } else if (is_small(row)) {
      count(ours, found);
      count(flat_small, row.yes("flat_found"));
      count(fitted_flat, row.yes("flat_found") || row.number("farthest") > fitted(all, row));
    } else if (is_idle(row, all)) {
      ++idle;
    } else {
      count(right, row.yes("right"));
      count(flat, row.yes("flat_found"));
    }
  }
};

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("foreign-jobs");
  std::vector<std::vector<std::string>> rows;
  Seen whole;
  for (const std::string& example : values_of(all, "example")) {
    for (const std::string weights : {"random", "trained"}) {
      Seen seen;
      for (const Row& row : where(all, {{"example", example}, {"weights", weights}})) {
        seen.add(row, all);
        whole.add(row, all);
      }
      const bool foretold = seen.foretold > 0;
      const double mean = seen.near / static_cast<double>(std::max<std::size_t>(seen.foretold, 1));
      rows.push_back({example, weights, said(seen.accused), said(seen.right), said(seen.ours),
                      said(seen.flat_small), said(seen.fitted_flat),
                      foretold ? fmt::format("{:.1f} %", 100 * mean) : "equal in all bits",
                      foretold ? fmt::format("{:.1f} %", 100 * seen.least) : "-"});
    }
  }
  return {
      whole.right.hits == whole.right.of ? Agreement::yes : Agreement::partly,
      fmt::format(
          "{} large mistakes caught and blamed right (8.29 % finds {}; {} more changed nothing); of small ones {} caught, "
          "by 8.29 % {}, by the smallest margin that accuses no healthy run of the cell {}; {} "
          "healthy runs undecided; assert_close accuses {}",
          said(whole.right), whole.flat.hits, whole.idle, said(whole.ours), whole.flat_small.hits,
          whole.fitted_flat.hits, whole.undecided.hits, whole.close.hits),
      whole.accused,
      table({"program", "weights", "healthy runs accused", "large mistakes caught, blamed right",
             "small ones caught", "by 8.29 %", "by a margin fitted to the cell",
             "foretold within [0.8, 1.25], mean", "least"},
            rows)};
}

}  // namespace

extern const Claim b10_jobs_of_others_are_judged{
    .id = "B10",
    .says = "Jobs of PyTorch and Megatron are judged by twins made in their own framework",
    .where = "goes beyond: the paper's estimate is one perturbed run",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "Ten programs on two Gloo processes, three large mistakes each and eight small ones, FP32 and "
        "BF16, random weights and those of 300 steps on text.",
    .rows = {{"foreign-jobs", "",
              "examples/torch/run.py: run.py PLUMB FOLDER --rows foreign-jobs.csv"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
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

// A mistake that does nothing in a run, as a norm for clipping that lies below the limit either way.
bool is_idle(const Row& row) { return !is_healthy(row) && row.is("changes", "0"); }

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
  Share accused, undecided, close, moved;  // of healthy runs; by assert_close, perturbation
  Share right, flat, moved_large;          // of large mistakes
  Share ours, flat_small, fitted_flat, moved_small;  // of small ones
  double near = 0, least = 1;                        // share foretold: its sum, the smallest
  std::size_t foretold = 0, idle = 0;

  void add(const Row& row, const Rows& all) {
    const bool found = row.is("exit_code", "1");
    if (is_healthy(row)) {
      count(accused, found);
      count(undecided, row.is("exit_code", "3"));
      count(close, row.yes("assert_close_found"));
      count(moved, row.yes("perturbation_found"));
      if (row.number("differ") < 20) return;  // a share of few says little
      near += row.number("near");
      least = std::min(least, row.number("near"));
      ++foretold;
    } else if (is_idle(row)) {
      ++idle;
    } else if (is_small(row)) {
      count(ours, found);
      count(flat_small, row.yes("flat_found"));
      count(moved_small, row.yes("perturbation_found"));
      count(fitted_flat, row.yes("flat_found") || row.number("farthest") > fitted(all, row));
    } else {
      count(right, row.yes("right"));
      count(flat, row.yes("flat_found"));
      count(moved_large, row.yes("perturbation_found"));
    }
  }
};

// Predicted over observed, each the root of a mean square over the seeds of a cell.
bool is_foretold(const Row& tensor) {
  const double ratio = std::sqrt(tensor.number("predicted") / tensor.number("observed"));
  return ratio >= 0.8 && ratio <= 1.25;
}

struct Foretold {
  Share tensors, cells;  // of cells: those with 97 % of their tensors or more
};

Foretold foretold(const Rows& tensors, const std::string& example, std::string_view weights) {
  Foretold all;
  for (const char* format : {"fp32", "bf16"}) {
    Share cell;
    for (const Row& row : tensors) {
      if (row.is("example", example) && row.is("weights", weights) && row.is("format", format) &&
          row.number("observed") > 0)
        count(cell, is_foretold(row));
    }
    all.tensors.hits += cell.hits;
    all.tensors.of += cell.of;
    if (cell.of > 0) count(all.cells, 100 * cell.hits >= 97 * cell.of);
  }
  return all;
}

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("foreign-jobs");
  const Rows& tensors = evidence.rows("foreign-tensors");
  Foretold of_all;
  std::vector<std::vector<std::string>> rows;
  Seen whole;
  for (const std::string& example : values_of(all, "example")) {
    for (const std::string weights : {"random", "trained"}) {
      Seen seen;
      for (const Row& row : where(all, {{"example", example}, {"weights", weights}})) {
        seen.add(row, all);
        whole.add(row, all);
      }
      const Foretold over_seeds = foretold(tensors, example, weights);
      for (auto share : {&Foretold::tensors, &Foretold::cells}) {
        (of_all.*share).hits += (over_seeds.*share).hits;
        (of_all.*share).of += (over_seeds.*share).of;
      }
      const bool differs = seen.foretold > 0;
      const double mean = seen.near / static_cast<double>(std::max<std::size_t>(seen.foretold, 1));
      rows.push_back({example, weights, said(seen.accused), said(seen.right), said(seen.ours),
                      said(seen.flat_small), said(seen.fitted_flat), said(seen.moved),
                      said(seen.moved_large), said(seen.moved_small), said(over_seeds.tensors),
                      differs ? fmt::format("{:.1f} %", 100 * mean) : "equal in all bits",
                      differs ? fmt::format("{:.1f} %", 100 * seen.least) : "-"});
    }
  }
  return {
      whole.right.hits == whole.right.of ? Agreement::yes : Agreement::partly,
      fmt::format(
          "{} large mistakes caught and blamed right (8.29 % finds {}; {} more changed nothing); of small ones {} caught, "
          "by 8.29 % {}, by the smallest margin that accuses no healthy run of the cell {}; {} "
          "healthy runs undecided; assert_close accuses {}; the paper's rule finds {} large and {} small "
          "mistakes, and accuses {} of {} healthy runs; over the seeds {} tensors foretold within "
          "[0.8, 1.25], 97 % of them in {} cells",
          said(whole.right), whole.flat.hits, whole.idle, said(whole.ours), whole.flat_small.hits,
          whole.fitted_flat.hits, whole.undecided.hits, whole.close.hits, whole.moved_large.hits,
          whole.moved_small.hits, whole.moved.hits, whole.moved.of, said(of_all.tensors),
          said(of_all.cells)),
      whole.accused,
      table({"program", "weights", "healthy runs accused", "large mistakes caught, blamed right",
             "small ones caught", "by 8.29 %", "by a margin fitted to the cell",
             "healthy runs accused by the paper's rule", "large mistakes found by it",
             "small ones found by it", "tensors foretold within [0.8, 1.25], over the seeds",
             "of a single run, mean", "least"},
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
        "Fifteen programs on two Gloo processes, three large mistakes each and nine small ones, FP32 "
        "and BF16, random weights and those of 300 steps on text. How far a single run lies off "
        "scatters; what twins foretell is its root mean square, so that is held against theirs over "
        "the seeds, tensor by tensor. The paper's rule: twice what a reference differs by of which "
        "each number behind the embedding was moved by an epsilon.",
    .rows = {{"foreign-jobs", "",
              "examples/torch/run.py: run.py PLUMB FOLDER --rows foreign-jobs.csv"},
             {"foreign-tensors", "",
              "examples/torch/run.py: run.py PLUMB FOLDER --tensors foreign-tensors.csv"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

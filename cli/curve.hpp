// cli/curve.hpp: the loss of each step of a training run: rows for other programs, a picture for
// people.
//
// TESTED   tests/cli/curve_test.cpp
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::cli {

class Curve {
 public:
  // --curve of a verb.
  void add_to(CLI::App& verb);
  bool is_asked_for() const { return !file_.empty(); }
  void add(int step, double loss) { steps_.emplace_back(step, loss); }
  // The step of a trace, if it has its loss.
  void add(const Trace& trace);
  double last() const { return steps_.back().second; }
  // If it is asked for, writes steps and losses as CSV and prints where from and where to they went.
  void write() const;

 private:
  // Characters between the lowest and the highest loss; several steps share one where there are more
  // than `width`.
  std::string picture(std::size_t width) const;

  std::string file_;
  std::vector<std::pair<int, double>> steps_;
};

}  // namespace plumb::cli

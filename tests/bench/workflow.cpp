// The cost of the paper's workflow, in steps of the single-device reference: the reference once more
// with its input perturbed (the estimate), tracing into memory and to files, comparing; and of the
// default rules beside it. Bytes of a trace over those of the run's state (weights and Adam's two
// moments in FP32). In turn (round-robin), process CPU time, medians of ratios.
//
// Rows for claim E11 of paper_repro:
//   build/bench/bench_workflow --benchmark_format=csv >step-cost.csv
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "experiments/trial.hpp"
#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"
#include "trace/execute.hpp"
#include "trace/memory.hpp"
#include "trace/store/store.hpp"

namespace plumb {
namespace {

namespace fs = std::filesystem;

const bool as_the_program_does = (keep_freed_memory(), true);

template <class Work>
double seconds(const Work& work) {
  const double start = process_seconds();
  work();
  return process_seconds() - start;
}

double bytes_of(const fs::path& folder) {
  double bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += static_cast<double>(entry.file_size());
  }
  return bytes;
}

double bytes_of_state(const Merged& merged) {
  double numbers = 0;
  for (const auto& [id, tensor] : merged.values) {
    if (id.ends_with("/exp_avg")) numbers += static_cast<double>(tensor->size());
  }
  return 3 * 4 * numbers;
}

void workflow(benchmark::State& state, const char* family, const char* recipe) {
  const Start start =
      start_of(config_of(family), find_recipe(recipe), parse_layout("dp2,tp2,sp"), default_text());
  const Trace candidate = run_candidate(start).trace;
  const fs::path folder =
      fs::temp_directory_path() / ("plumb-workflow-" + std::to_string(getpid()));
  std::map<std::string, std::vector<double>> ratios;
  for (auto _ : state) {
    Trace reference, perturbed;
    const double step = seconds([&] { reference = run_reference(start); });
    const double run = seconds([&] { (void)run_candidate(start); });
    const double estimate = seconds([&] { perturbed = run_perturbed(start, 1); });
    const double write = seconds([&] { write_trace(candidate, folder); });
    CheckOptions paper, ours;
    paper.rules = {"perturbation"};
    paper.perturbed = &perturbed;
    ratios["estimate"].push_back(estimate / step);
    ratios["candidate"].push_back(run / step);
    ratios["write"].push_back(write / step);
    ratios["compare"].push_back(seconds([&] { (void)check(reference, candidate, paper); }) / step);
    ratios["twins_and_replay"].push_back(seconds([&] { (void)check(reference, candidate, ours); }) /
                                         step);
    ratios["trace_bytes_over_state"].push_back(bytes_of(folder) / bytes_of_state(merge(reference)));
    fs::remove_all(folder);
  }
  for (auto& [name, seen] : ratios) state.counters[name] = median(seen);
}

BENCHMARK_CAPTURE(workflow, gpt bf16, "gpt", "bf16")->Iterations(9)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(workflow, llama bf16, "llama", "bf16")
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(workflow, gpt fp8 delayed, "gpt", "fp8-delayed")
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb

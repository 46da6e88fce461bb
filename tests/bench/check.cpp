// The cost of judging: reference, four twins, comparison and replay, in steps of the reference; and
// the cost of the FP32 step over ranks, against this core's peak of fused multiply-adds and against
// PyTorch (where Debian's python3-torch is, and OpenBLAS for it), at h = 256, 4 layers, 4 heads, 4
// sequences of 128 tokens; and the cost of tracing it. In turn (round-robin), process CPU time,
// medians of ratios. Goals: a full check <= 7 reference steps; the step <= PyTorch's, and at 55 %
// of the peak.
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "experiments/trial.hpp"
#include "model/data/text.hpp"
#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"
#include "trace/memory.hpp"

namespace plumb {
namespace {

const bool as_the_program_does = (keep_freed_memory(), true);

template <class Work>
double seconds(const Work& work) {
  const double start = process_seconds();
  work();
  return process_seconds() - start;
}

void check_of_a_step(benchmark::State& state, const char* family) {
  const Start start =
      start_of(config_of(family), find_recipe("bf16"), parse_layout("dp2,tp2,sp"), default_text());
  const Trace candidate = run_candidate(start).trace;
  CheckOptions twins, with_replay;
  twins.rules = {"twins"};
  std::vector<double> ours, twins_only, both;
  for (auto _ : state) {
    Trace reference;
    const double step = seconds([&] { reference = run_reference(start); });
    const double by_twins = seconds([&] { (void)check(reference, candidate, twins); });
    const double by_both = seconds([&] { (void)check(reference, candidate, with_replay); });
    const double run = seconds([&] { (void)run_candidate(start); });
    twins_only.push_back((step + by_twins) / step);
    both.push_back((step + by_both) / step);
    ours.push_back(run / step);
  }
  state.counters["reference, twins, compare"] = median(twins_only);
  state.counters["with replay"] = median(both);
  state.counters["candidate"] = median(ours);
}

// Multiply-adds of a step's products: a third forward, two thirds backward.
double products_of(const Config& c) {
  const double tokens = static_cast<double>(c.tokens()) * c.micro_batches, width = c.width;
  const double layer = width * (c.qkv_width() + width + c.fc1_width(c.hidden) + c.hidden);
  const double attention = 2.0 * c.sequence * width;
  return 3 * tokens * (c.layers * (layer + attention) + width * c.vocabulary());
}

// Fused multiply-adds a second, of as many chains as registers hold, for so many seconds at least:
// a processor runs slower after the first millisecond of wide instructions. Here alone a compiler
// may fuse.
#ifndef __clang__
__attribute__((optimize("fp-contract=fast")))
#endif
double
peak(double seconds) {
#ifdef __clang__
#pragma clang fp contract(fast)
#endif
  using Lanes = float __attribute__((vector_size(64)));
  constexpr std::size_t chains = 24, rounds = 100'000;
  std::array<float, 2> numbers{0.999F, 0.001F};
  benchmark::DoNotOptimize(numbers);
  const Lanes factor = Lanes{} + numbers[0], addend = Lanes{} + numbers[1];
  std::array<Lanes, chains> sums;
  sums.fill(addend);
  const double start = process_seconds();
  double taken = 0;
  std::size_t blocks = 0;
  for (; taken < seconds; ++blocks) {
    for (std::size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
      for (Lanes& sum : sums) sum = sum * factor + addend;
    }
    taken = process_seconds() - start;
  }
  Lanes all = addend;
  for (const Lanes& sum : sums) all += sum;
  benchmark::DoNotOptimize(all);
  return static_cast<double>(chains * sizeof(Lanes) / sizeof(float) * rounds * blocks) / taken;
}

// The same step in PyTorch on one core, in seconds; 0 where Debian's python3 has none.
double torch_seconds(const Config& c) {
  const std::string command = std::string("OMP_NUM_THREADS=1 /usr/bin/python3 ") +
                              PLUMB_SOURCE_DIR "/tests/bench/torch_step.py " +
                              std::to_string(c.width) + " " + std::to_string(c.layers) + " " +
                              std::to_string(c.heads) + " " + std::to_string(c.hidden) + " " +
                              std::to_string(c.vocabulary()) + " " + std::to_string(c.sequence) +
                              " " + std::to_string(c.sequences);
  double taken = 0;
  if (FILE* from = popen(command.c_str(), "r")) {
    if (std::fscanf(from, "%lf", &taken) != 1) taken = 0;
    if (pclose(from) != 0) taken = 0;
  }
  return taken;
}

void fp32_step(benchmark::State& state, const char* backend) {
  try {
    find_backend(backend);
  } catch (const Failure& e) {
    return state.SkipWithError(e.what());
  }
  Config c = config_of("gpt");
  c.width = 256;
  c.heads = c.kv_heads = 4;
  c.hidden = 1024;
  c.sequence = 128;
  c.micro_batches = 1;
  c.vocabulary_padding = 256;
  const Start traced = start_of(c, find_recipe("fp32"), parse_layout("dp1,tp1"), default_text());
  Start start = traced;
  start.run.traced = false;
  std::vector<double> of_peak, of_torch, of_trace;
  for (auto _ : state) {
    const double step = seconds([&] { (void)run_candidate(start, nullptr, {}, backend); });
    of_trace.push_back(seconds([&] { (void)run_candidate(traced, nullptr, {}, backend); }) / step);
    of_peak.push_back(products_of(c) / step / peak(step));
    if (const double torch = torch_seconds(c); torch > 0) of_torch.push_back(step / torch);
  }
  state.counters["of the peak"] = median(of_peak);
  state.counters["traced/untraced"] = median(of_trace);
  if (of_torch.empty()) {
    state.SetLabel("no PyTorch here: python3-torch, libopenblas0");
  } else {
    state.counters["step/torch"] = median(of_torch);
  }
}

BENCHMARK_CAPTURE(check_of_a_step, gpt, "gpt")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_of_a_step, llama, "llama")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fp32_step, reference, "reference")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fp32_step, eigen, "eigen")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fp32_step, onednn, "onednn")->Iterations(7)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb

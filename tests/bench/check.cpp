// The cost of judging: reference, four twins, comparison and replay, in steps of the reference, as one
// process does that makes both runs; with the reference judged, too, as two traces are checked; and
// the cost of the FP32 step over ranks, against this core's peak of fused multiply-adds and against
// PyTorch (Debian's python3-torch with OpenBLAS, and that of the interpreter PLUMB_TORCH_PYTHON), at
// h = 256, 4 layers, 4 heads, 4 sequences of 128 tokens; and the cost of tracing it. In turn
// (round-robin), process CPU time, medians of ratios. Goals: reference, twins and comparison <= 5
// reference steps, with replay <= 6.5; the step over ranks <= PyTorch's, and at 55 % of the peak.
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/trial.hpp"
#include "model/data/text.hpp"
#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"
#include "trace/memory.hpp"
#include "trace/merge.hpp"

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
  std::vector<double> ours, twins_only, both, traces;
  for (auto _ : state) {
    std::optional<ExecutedReference> reference;
    const double step = seconds([&] { reference.emplace(start); });
    const auto judged_by = [&](const CheckOptions& options) {
      return seconds(
          [&] { (void)check(reference->to_judge(), candidate, merge(candidate), options); });
    };
    const double by_twins = judged_by(twins), by_both = judged_by(with_replay);
    const double of_traces =
        seconds([&] { (void)check(reference->trace(), candidate, with_replay); });
    const double run = seconds([&] { (void)run_candidate(start); });
    twins_only.push_back((step + by_twins) / step);
    both.push_back((step + by_both) / step);
    traces.push_back((step + of_traces) / step);
    ours.push_back(run / step);
  }
  state.counters["reference, twins, compare"] = median(twins_only);
  state.counters["with replay"] = median(both);
  state.counters["and the reference judged"] = median(traces);
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

// A step in somebody's PyTorch.
struct Peer {
  double seconds = 0;  // 0: there is none, or none that would be a fair peer
  std::string words;   // version and BLAS, or what is wrong
};

// The same step in the PyTorch of that interpreter, on one core.
Peer torch_step(const std::string& python, const Config& c) {
  const std::string command =
      "OMP_NUM_THREADS=1 " + python + " " + PLUMB_SOURCE_DIR "/tests/bench/torch_step.py " +
      std::to_string(c.width) + " " + std::to_string(c.layers) + " " + std::to_string(c.heads) +
      " " + std::to_string(c.hidden) + " " + std::to_string(c.vocabulary()) + " " +
      std::to_string(c.sequence) + " " + std::to_string(c.sequences);
  Peer peer;
  if (FILE* from = popen(command.c_str(), "r")) {
    char words[200] = "";
    if (std::fscanf(from, "%lf %199[^\n]", &peer.seconds, words) == 2) peer.words = words;
    if (pclose(from) != 0) peer = {};
  }
  return peer;
}

// Debian's, and that of the interpreter that PLUMB_TORCH_PYTHON names: the newest, say.
std::vector<std::string> pythons() {
  std::vector<std::string> all{"/usr/bin/python3"};
  if (const char* other = std::getenv("PLUMB_TORCH_PYTHON")) all.emplace_back(other);
  return all;
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
  std::vector<double> of_peak, of_trace;
  std::map<std::string, std::vector<double>> of_torch;  // by version and BLAS
  for (auto _ : state) {
    const double step = seconds([&] { (void)run_candidate(start, nullptr, {}, backend); });
    of_trace.push_back(seconds([&] { (void)run_candidate(traced, nullptr, {}, backend); }) / step);
    of_peak.push_back(products_of(c) / step / peak(step));
    for (const std::string& python : pythons()) {
      const Peer peer = torch_step(python, c);
      if (peer.words.empty()) continue;
      of_torch[peer.words].push_back(peer.seconds > 0 ? step / peer.seconds : 0);
    }
  }
  state.counters["of the peak"] = median(of_peak);
  state.counters["traced/untraced"] = median(of_trace);
  std::string label;
  for (const auto& [words, ratios] : of_torch) {
    label += (label.empty() ? "" : "; ") + words;
    if (ratios.front() > 0) state.counters["step/" + words] = median(ratios);
  }
  state.SetLabel(label.empty() ? "no PyTorch here: python3-torch, libopenblas0" : label);
}

BENCHMARK_CAPTURE(check_of_a_step, gpt, "gpt")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_of_a_step, llama, "llama")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fp32_step, reference, "reference")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fp32_step, eigen, "eigen")->Iterations(7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fp32_step, onednn, "onednn")->Iterations(7)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb

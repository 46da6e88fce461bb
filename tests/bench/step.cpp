// What emulation and twins cost, as ratios within one run: steps of the reference in FP32 and BF16,
// a twin of dp2,tp2, and the exact step, taken in turn (round-robin), thread CPU time. Goals: bf16
// <= 1.3 x fp32; a twin <= 1.5 x the BF16 reference step.
#include <benchmark/benchmark.h>

#include <array>
#include <functional>
#include <vector>

#include "experiments/trial.hpp"
#include "model/data/text.hpp"
#include "model/plan.hpp"
#include "tests/bench/clock.hpp"
#include "trace/execute.hpp"

namespace plumb {
namespace {

void steps(benchmark::State& state, const char* family) {
  const Extent extent{Phase::reduce};
  const auto started = [&](const char* recipe) {
    return start_of(config_of(family), find_recipe(recipe), {}, default_text());
  };
  const Start full = started("fp32"), half = started("bf16");
  const Graph graph32 = plan(full.run.config, full.run.recipe, {});
  const Graph graph16 = plan(half.run.config, half.run.recipe, {});
  const Graph split = plan(half.run.config, half.run.recipe, parse_layout("dp2,tp2"));
  const Values base = reference(graph16, half.leaves, extent);
  const std::array<std::function<void()>, 4> variants{
      [&] { benchmark::DoNotOptimize(reference(graph32, full.leaves, extent)); },
      [&] { benchmark::DoNotOptimize(reference(graph16, half.leaves, extent)); },
      [&] { benchmark::DoNotOptimize(twin(split, graph16, base, 1, 1, extent)); },
      [&] { benchmark::DoNotOptimize(exact(graph16, half.leaves, extent)); }};
  for (const auto& variant : variants) variant();  // warm
  std::array<std::vector<double>, 3> ratios;
  for (auto _ : state) {
    std::array<double, 4> seconds{};
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const double before = cpu_seconds();
      variants[v]();
      seconds[v] = cpu_seconds() - before;
    }
    ratios[0].push_back(seconds[1] / seconds[0]);
    ratios[1].push_back(seconds[2] / seconds[1]);
    ratios[2].push_back(seconds[3] / seconds[1]);
  }
  state.counters["bf16/fp32"] = median(ratios[0]);
  state.counters["twin/bf16"] = median(ratios[1]);
  state.counters["exact/bf16"] = median(ratios[2]);
}

BENCHMARK_CAPTURE(steps, gpt, "gpt")->Iterations(15)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, llama, "llama")->Iterations(15)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb

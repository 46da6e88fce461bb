// The cost of emulation and twins, as ratios within one run: steps of the reference in FP32, BF16
// and FP8, twins of dp2,tp2, and the exact step, taken in turn (round-robin), thread CPU time.
// Goals: bf16 <= 1.1 x and fp8 <= 1.3 x fp32; a twin <= 1.2 x its reference step.
#include <benchmark/benchmark.h>

#include <array>
#include <functional>
#include <vector>

#include "experiments/trial.hpp"
#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"
#include "trace/boundaries.hpp"
#include "trace/memory.hpp"

namespace plumb {
namespace {

const bool as_the_program_does = (keep_freed_memory(), true);

// A recipe's reference, its twin in dp2,tp2 and its exact run.
struct Runs {
  Start start;
  Graph one, split;
  Values base;

  Runs(const char* family, const char* recipe)
      : start(start_of(config_of(family), find_recipe(recipe), {}, default_text())),
        one(plan(start.run.config, start.run.recipe, {})),
        split(plan(start.run.config, start.run.recipe, parse_layout("dp2,tp2"))),
        base(reference(one, start.leaves, extent)) {}

  void step() const { benchmark::DoNotOptimize(reference(one, start.leaves, extent)); }
  void twin_of_it() const {
    benchmark::DoNotOptimize(meet(one, base, split, nullptr, 1, 1, extent));
  }
  void exact_step() const { benchmark::DoNotOptimize(exact(one, start.leaves, extent)); }

  static constexpr Extent extent{Phase::reduce};
};

void steps(benchmark::State& state, const char* family) {
  const Runs full(family, "fp32"), half(family, "bf16"), eighth(family, "fp8-current");
  const std::array<std::function<void()>, 6> variants{
      [&] { full.step(); },       [&] { half.step(); },         [&] { eighth.step(); },
      [&] { half.twin_of_it(); }, [&] { eighth.twin_of_it(); }, [&] { half.exact_step(); }};
  for (const auto& variant : variants) variant();  // warm
  struct Ratio {
    const char* name;
    std::size_t of, over;
    std::vector<double> seen = {};
  };
  std::array<Ratio, 5> ratios{Ratio{"bf16/fp32", 1, 0}, Ratio{"fp8/fp32", 2, 0},
                              Ratio{"twin/bf16", 3, 1}, Ratio{"twin/fp8", 4, 2},
                              Ratio{"exact/bf16", 5, 1}};
  for (auto _ : state) {
    std::array<double, variants.size()> seconds{};
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const double before = cpu_seconds();
      variants[v]();
      seconds[v] = cpu_seconds() - before;
    }
    for (Ratio& ratio : ratios) ratio.seen.push_back(seconds[ratio.of] / seconds[ratio.over]);
  }
  for (Ratio& ratio : ratios) state.counters[ratio.name] = median(ratio.seen);
}

BENCHMARK_CAPTURE(steps, gpt, "gpt")->Iterations(15)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, llama, "llama")->Iterations(15)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb

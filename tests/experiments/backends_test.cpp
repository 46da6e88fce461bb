// Whole steps on trained weights, with products of every backend: are healthy runs left alone, and
// is a bug blamed where it bites, whatever order sums are taken in?
#include <gtest/gtest.h>

#include "experiments/trial.hpp"
#include "kernels/backend.hpp"
#include "model/data/text.hpp"
#include "model/run/training.hpp"
#include "probe/calibrate.hpp"
#include "probe/machine_products.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::backends_test {
namespace {

using Case = std::tuple<const Backend*, const char*, const char*>;  // family, recipe

class Backends : public testing::TestWithParam<Case> {};

// How the unit of a backend multiplies, as a probe finds it out.
std::optional<Multiply> products_of(const Backend& backend) {
  probe::CalibrateOptions options;
  options.longest = 128;
  return probe::products_on(probe::calibrate(probe::subject_of(backend, bf16), options).card);
}

TEST_P(Backends, LeaveHealthyStepsAloneAndABugIsBlamed) {
  const auto& [backend, family, recipe] = GetParam();
  if (!backend->usable_here()) GTEST_SKIP() << backend->name << " is not usable on this machine";
  const std::string name(backend->name);
  const Training run = small_run(family, recipe);
  Start start = trained(start_of(run.config, run.recipe, run.layout, default_text()),
                        default_text(), 30, [](int, double) {});
  const Trace reference = run_reference(start);
  CheckOptions rarely;  // the bits of some backends are those of the processor
  rarely.false_alarm = 1e-5;
  // A GPU's unit cuts sums toward zero: twins multiply as it does (twins.md M9).
  const auto products = name == "cublas" ? products_of(*backend) : std::nullopt;
  if (products) rarely.multiply = &*products;
  for (const char* layout : {"dp2,tp2,sp", "cp2,pp2,zero1"}) {
    start.run.layout = parse_layout(layout);
    const Verdict verdict = check(reference, run_candidate(start, nullptr, {}, name).trace, rarely);
    EXPECT_EQ(verdict.exit_code(), 0) << layout << " " << verdict.blamed;
  }
  start.run.layout = parse_layout("tp2,sp");
  const Bug& bug = find_bug("sp-norm-grad-not-reduced");
  const Verdict verdict = check(reference, run_candidate(start, &bug, {}, name).trace, rarely);
  EXPECT_EQ(verdict.exit_code(), 1);
  EXPECT_EQ(verdict.blamed, bug.bites_at(start.run.config));
}

INSTANTIATE_TEST_SUITE_P(
    Of, Backends,
    testing::Combine(testing::ValuesIn(all_backends().begin(), all_backends().end()),
                     testing::Values("gpt", "llama-moe"), testing::Values("fp32", "bf16")),
    [](const auto& of) {
      std::string name(std::get<0>(of.param)->name);
      name += std::string("_") + std::get<1>(of.param) + "_" + std::get<2>(of.param);
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace plumb::backends_test

// Is a run left alone whose ranks add in another order than its promise says?
#include <gtest/gtest.h>

#include "experiments/other_orders.hpp"
#include "experiments/trial.hpp"
#include "model/plan/verify.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::benign_test {
namespace {

using Benign = std::tuple<AddingOrder, const char*, const char*>;  // recipe, layout

class OtherOrders : public testing::TestWithParam<Benign> {};

// Four ranks: two have one order.
TEST_P(OtherOrders, OfRanksAreNotAccused) {
  const auto& [order, recipe, layout] = GetParam();
  const auto world = threads_that_add(order);
  int other_bits = 0;
  for (int seed = 1; seed <= effort(2); ++seed) {
    const bool llama = layout == std::string("dp4") && seed % 2 == 0;  // its keys have two heads
    const Training run =
        small_run(llama ? "llama" : "gpt", recipe, layout, static_cast<std::uint64_t>(seed));
    const Start start = start_of(run.config, run.recipe, run.layout, small_text());
    const Trace plain = run_candidate(start, nullptr).trace;
    const Trace other = run_candidate(start, nullptr, {}, "reference", *world).trace;
    const Verdict v = check(run_reference(start), other, {});
    EXPECT_EQ(v.exit_code(), 0) << "seed " << seed << ": "
                                << (v.findings.empty()
                                        ? ""
                                        : v.findings[0].id + " " + v.findings[0].statistic + " " +
                                              v.findings[0].detail);
    EXPECT_TRUE(std::ranges::any_of(v.notes, [](const std::string& note) {
      return note.find("an order that nobody knows") != note.npos;
    }));
    const Merged a = merge(plain), b = merge_verified(other);
    for (const auto& [id, tensor] : a.values) {
      other_bits += b.values.at(id)->values != tensor->values ? 1 : 0;
    }
  }
  EXPECT_GT(other_bits, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, OtherOrders,
                         testing::Combine(testing::Values(AddingOrder::ring, AddingOrder::tree,
                                                          AddingOrder::backwards,
                                                          AddingOrder::switched),
                                          testing::Values("fp32", "bf16", "bf16-wire32"),
                                          testing::Values("tp4", "dp4")),
                         [](const auto& of) {
                           std::string name = std::string(name_of(std::get<0>(of.param))) + "_" +
                                              std::get<1>(of.param) + "_" + std::get<2>(of.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plumb::benign_test

// Shares among some of the data-parallel ranks: are healthy runs left alone, and is a share seen that
// is counted among all of them?
#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "model/joints/layout.hpp"
#include "model/run/start.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"

namespace plumb::hybrid_test {
namespace {

class Hybrid : public testing::TestWithParam<const char*> {
 protected:
  const Training run_ = small_run("gpt", "bf16", GetParam());
  const Start start_{run_, leaves_of_run(run_)};
  const Trace reference_ = run_reference(start_);
};

TEST_P(Hybrid, HealthyRunsAreAcquitted) {
  const Verdict verdict = check(reference_, run_candidate(start_).trace, {});
  EXPECT_TRUE(verdict.findings.empty())
      << verdict.findings.front().id << ": " << verdict.findings.front().detail;
  EXPECT_EQ(verdict.exit_code(), 0);
}

TEST_P(Hybrid, AShareOfAllRanksIsSeen) {
  Joints joints;
  joints.zero.share.replace([](const Where& where, std::size_t n, Slice) {
    return bounds::slice(n, where.dp_size, where.dp);
  });
  const Verdict verdict = check(reference_, run_candidate(start_, joints).trace, {});
  EXPECT_EQ(verdict.exit_code(), 1);
}

INSTANTIATE_TEST_SUITE_P(Of, Hybrid, testing::Values("dp4,zero1:2", "dp4,zero2:2", "dp4,zero3:2"));

}  // namespace
}  // namespace plumb::hybrid_test

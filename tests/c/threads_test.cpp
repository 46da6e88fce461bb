// May several threads call at once, and does it matter how the calling thread rounds?
#include <cfenv>
#include <cmath>
#include <thread>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "tests/c/calling.hpp"
#include "tests/cli/judging.hpp"

namespace plumb::threads_test {
namespace {

struct Bounds {
  int code = -1;
  std::vector<double> value, bound;
  std::string said;
  bool operator==(const Bounds&) const = default;
};

Bounds bounds_of_softmax(const Floats32& x, const Floats32& p, const char* machine) {
  Bounds all{-1, std::vector<double>(x.size()), std::vector<double>(x.size()), ""};
  Calling calling("softmax", machine);
  calling.in(tensor_of(x, {x.size() / 512, 512})).out(tensor_of(p, {x.size() / 512, 512}));
  calling.outputs[0].value = all.value.data();
  calling.outputs[0].bound = all.bound.data();
  plumb_result r{};
  all.code = plumb_judge(calling(), &r);
  all.said = r.explanation;
  plumb_free(&r);
  return all;
}

TEST(CThreads, GetTheVerdictsThatOneGets) {
  const std::vector<const char*> machines{"ieee", "libraries", "ieee-sequential", "ieee-pairwise",
                                          "no such machine"};
  std::vector<Floats32> x, p;
  std::vector<Bounds> alone;
  const std::size_t n = 20;
  for (std::size_t i = 0; i < n; ++i) {
    x.push_back(numbers(8 * 512, i));
    p.push_back(softmax(x.back(), 512, i % 3 == 0 ? 2 : ~std::size_t(0), 0));
    alone.push_back(bounds_of_softmax(x[i], p[i], machines[i % machines.size()]));
  }
  std::vector<Bounds> together(n);
  std::vector<std::string> errors(n);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      together[i] = bounds_of_softmax(x[i], p[i], machines[i % machines.size()]);
      errors[i] = plumb_last_error();
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(together[i].code, alone[i].code);
    EXPECT_EQ(together[i].said, alone[i].said);
    const bool refused = i % machines.size() == 4;
    EXPECT_EQ(alone[i].code == PLUMB_TROUBLE, refused);
    EXPECT_EQ(errors[i].empty(), !refused);
    EXPECT_TRUE(refused || together[i] == alone[i]);
  }
}

TEST(CThreads, MayRoundAndFlushAsTheyLike) {
  Floats32 x = numbers(8 * 512, 7);
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = std::ldexp(x[i], -130);  // subnormal
  const Floats32 p = softmax(x, 512);
  const Bounds before = bounds_of_softmax(x, p, "ieee");
  ASSERT_EQ(before.code, PLUMB_PASS);
  std::fenv_t kept;
  std::fegetenv(&kept);
  std::fesetround(FE_UPWARD);
#ifdef __SSE2__
  _mm_setcsr(_mm_getcsr() | 0x8040);  // results flushed, operands taken for zero
  const unsigned asked = _mm_getcsr() & 0xE040U;
#endif
  const Bounds now = bounds_of_softmax(x, p, "ieee");
  const int rounding = std::fegetround();
#ifdef __SSE2__
  const unsigned left = _mm_getcsr() & 0xE040U;
#endif
  std::fesetenv(&kept);
  EXPECT_EQ(rounding, FE_UPWARD);
#ifdef __SSE2__
  EXPECT_EQ(left, asked);
#endif
  EXPECT_TRUE(now == before);
}

}  // namespace
}  // namespace plumb::threads_test

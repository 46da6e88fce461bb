// Does the grammar say yes and no where it should?
#include "model/layout.hpp"

#include <gtest/gtest.h>

#include "bounds/outcome.hpp"

namespace plumb {
namespace {

TEST(Layout, ReadsItsGrammar) {
  EXPECT_EQ(parse_layout("dp2,tp4,sp"), (Layout{2, 4, true}));
  EXPECT_EQ(parse_layout("tp2"), (Layout{1, 2, false}));
  EXPECT_EQ(parse_layout(name_of(Layout{2, 4, true})), (Layout{2, 4, true}));
  for (const char* bad : {"tp", "tp0", "tp-1", "tp2,tp2", "xp2", "sp2", "tp999", "2", "tp2 dp2"}) {
    EXPECT_THROW(parse_layout(bad), Failure) << bad;
  }
}

TEST(Layout, MustDivideTheModel) {
  Config c = config_of("llama");  // 8 heads, 4 KV heads
  c.micro_batches = 4;
  EXPECT_NO_THROW(check_layout({4, 4, true}, c));
  EXPECT_THROW(check_layout({1, 3, false}, c), Failure);
  EXPECT_THROW(check_layout({1, 8, false}, c), Failure);
  EXPECT_THROW(check_layout({3, 1, false}, c), Failure);
}

}  // namespace
}  // namespace plumb

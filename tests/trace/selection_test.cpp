// Do regular expressions choose ids, and is no expression able to hang or crash the program?
#include "trace/selection.hpp"

#include <gtest/gtest.h>

#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::selection_test {
namespace {

TEST(Selection, ChoosesSkipsAndTakesAllByDefault) {
  EXPECT_TRUE(Selection("", "")("m0/loss/out"));
  const Selection some("layers\\.[01]\\.", "wgrad$");
  EXPECT_TRUE(some("m0/layers.1.attn.qkv/out"));
  EXPECT_FALSE(some("m0/layers.2.attn.qkv/out"));
  EXPECT_FALSE(some("m0/layers.1.attn.qkv/wgrad"));
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Selection, RefusesWhatIsNoExpressionInAShortSentence) {
  for (const std::string& bad :
       {std::string("("), std::string("["), std::string("*a"), repeated("(", 20000)}) {
    try {
      const Selection selection(bad, "");
      FAIL() << bad.substr(0, 10);
    } catch (const Failure& failure) {
      EXPECT_LT(std::string(failure.what()).size(), 250U);
    }
  }
}

TEST(Pattern, RewritesWhatItsGroupsHold) {
  const Pattern layer("^decoder\\.(\\d+)\\.(.*)$", "--x");
  EXPECT_EQ(layer.rewritten("decoder.12.fc", "layers.\\1.\\2/out"), "layers.12.fc/out");
  EXPECT_EQ(layer.rewritten("encoder.12.fc", "\\1"), "");
  EXPECT_EQ(layer.rewritten("decoder.12.fc", "\\7"), "");
}

TEST(Selection, NoExpressionHangsOrOverflows) {
  const std::string id = repeated("layers.", 100);
  EXPECT_FALSE(Selection(repeated("(.*)*", 20) + "#", "")(id));
  EXPECT_FALSE(Selection(repeated("ab", 40000), "")(id));
  EXPECT_TRUE(Selection(repeated("(", 20000) + repeated(")", 20000), "")(id));
}

}  // namespace
}  // namespace plumb::selection_test

// Is the name that was meant found, and nothing else suggested?
#include "number/words.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

namespace plumb::words_test {
namespace {

const std::vector<std::string> verbs{"demo", "bugs",  "catch",   "train",   "check", "localize",
                                     "run",  "paper", "inspect", "recipes", "bound"};

TEST(Words, AMistypedNameIsFound) {
  EXPECT_EQ(probably_meant("chekc", verbs), "check");
  EXPECT_EQ(probably_meant("localise", verbs), "localize");
  EXPECT_EQ(probably_meant("TRAIN", verbs), "train");
  EXPECT_EQ(probably_meant("insp", verbs), "inspect");
  EXPECT_EQ(probably_meant("H100", {"a100", "h100"}), "h100");
  EXPECT_EQ(probably_meant("zero-grad-missng", {"zero-grad-missing", "one-masked-entry"}),
            "zero-grad-missing");
}

TEST(Words, AnotherWordIsNot) {
  for (const char* word : {"help", "diff", "cmp", "list", "show", "version", "compare", "x", ""}) {
    EXPECT_EQ(probably_meant(word, verbs), "") << word;
  }
  EXPECT_EQ(probably_meant("fp8", {"fp8-block", "fp8-current"}), "") << "two begin so";
  EXPECT_EQ(probably_meant(std::string(100'000, 'a'), verbs), "");
}

TEST(Words, WhatIsSaidNamesOneOrAll) {
  EXPECT_EQ(unknown("verb", "chekc", verbs), "unknown verb 'chekc'; did you mean check?");
  EXPECT_EQ(unknown("family", "cnn", {"gpt", "llama"}), "unknown family 'cnn'; known: gpt, llama");
  EXPECT_EQ(how_many(1, "rank") + how_many(2, "entry", "entries"), "1 rank2 entries");
}

}  // namespace
}  // namespace plumb::words_test

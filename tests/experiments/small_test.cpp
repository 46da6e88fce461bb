// Is a trained state made once and kept, and another model's not taken for it?
#include "experiments/small.hpp"

#include <gtest/gtest.h>

#include "tests/support/rooms.hpp"

namespace plumb::small_test {
namespace {

Config tiny(int width) {
  Config config = small_model("gpt");
  config.layers = 1;
  config.width = width;
  config.hidden = 16;
  config.sequences = 1;
  config.micro_batches = 1;
  return config;
}

// A folder in memory. `made` counts.
struct Kept {
  std::map<std::string, Trace> folder = {};
  int made = 0;

  Effort effort() {
    Effort effort;
    effort.progress = [](const std::string&) {};
    effort.kept = [this](const std::string& name, const std::function<Trace()>& make) {
      if (!folder.contains(name)) {
        ++made;
        folder.emplace(name, make());
      }
      return folder.at(name);
    };
    return effort;
  }
};

TEST(SmallStates, AreMadeOnceAndKeptUnderANameOfTheirOwn) {
  Kept kept;
  const Trace& first = trained_once(tiny(16), 3, kept.effort());
  EXPECT_EQ(first.manifest.step, 3);
  EXPECT_EQ(&trained_once(tiny(16), 3, kept.effort()), &first);
  EXPECT_EQ(kept.made, 1);
  trained_once(tiny(16), 2, kept.effort());
  trained_once(tiny(48), 3, kept.effort());
  EXPECT_EQ(kept.made, 3);
  EXPECT_EQ(kept.folder.size(), 3U);
}

TEST(SmallStates, OfAnotherModelAreRefused) {
  Kept kept;
  trained_once(tiny(32), 2, kept.effort());
  ASSERT_EQ(kept.folder.size(), 1U);
  const Trace other = kept.folder.begin()->second;
  Effort wrong = kept.effort();
  wrong.kept = [&](const std::string&, const auto&) { return other; };
  try {
    trained_once(tiny(64), 2, wrong);
    FAIL() << "it was taken";
  } catch (const Failure& refused) {
    EXPECT_NE(std::string(refused.what()).find("is of another model"), std::string::npos);
  }
}

}  // namespace
}  // namespace plumb::small_test

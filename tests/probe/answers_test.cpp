// Does a calibration that was killed go on where it was, and end with the card of an undisturbed one?
#include "probe/answers.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>

#include "bounds/machine_card.hpp"
#include "number/outcome.hpp"
#include "probe/calibrate.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::answers_test {
namespace {

namespace fs = std::filesystem;

struct Killed {};

class KeptAnswers : public testing::Test {
 protected:
  KeptAnswers()
      : folder_(fs::temp_directory_path() / ("plumb-answers-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~KeptAnswers() override { fs::remove_all(folder_); }

  // Counts what it is asked, and is gone after `patience_` questions.
  Subject subject() {
    Subject is = subject_of(Emulated{.order = *parse_order("blocked 16")}, fp32);
    is.multiply = [this, sound = is.multiply](const std::vector<Operands>& asked) {
      count();
      return sound(asked);
    };
    is.functions["sqrt"] = [this](const std::vector<float>& x, const std::vector<float>&) {
      count();
      std::vector<float> y;
      for (const float each : x) y.push_back(std::sqrt(each));
      return y;
    };
    return is;
  }
  void count() {
    if (asked_ == patience_) throw Killed();
    ++asked_;
  }
  std::string card_of(const Subject& of) {
    CalibrateOptions options;
    options.longest = 32;
    options.arguments = 100;
    return text_of(calibrate(of, options).card);
  }
  std::string refusal(const std::string& of) {
    try {
      Answers answers(file(), of);
      (void)card_of(answers.resumed(subject()));
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  }
  fs::path file() const { return folder_ / "card.json.answers"; }

  fs::path folder_;
  std::size_t asked_ = 0, patience_ = std::size_t(-1);
};

TEST_F(KeptAnswers, OfAKilledCalibrationAreNotAskedForAgain) {
  const std::string whole = card_of(subject());
  const std::size_t questions = asked_;
  ASSERT_GT(questions, 20U);
  std::mt19937 random(1);
  for (int draw = 0; draw < effort(20); ++draw) {
    std::size_t all = 0;  // but for the first question, which each resumed one asks again
    std::string card;
    while (card.empty()) {
      asked_ = 0;
      patience_ = random() % questions;
      const bool twice = all > 1;
      try {
        Answers answers(file(), "mine");
        EXPECT_EQ(answers.kept(), all);
        card = card_of(answers.resumed(subject()));
        answers.remove();
      } catch (const Killed&) {
      }
      all += asked_ - (twice && asked_ > 0 ? 1 : 0);
    }
    EXPECT_EQ(card, whole);
    EXPECT_EQ(all, questions);
    EXPECT_TRUE(fs::is_empty(folder_));
  }
}

// A kill may cut the file off anywhere: what is whole before is kept.
TEST_F(KeptAnswers, ThatWereCutOffAreAskedForAgain) {
  const std::string whole = card_of(subject());
  std::mt19937 random(2);
  for (int draw = 0; draw < effort(20); ++draw) {
    patience_ = (asked_ = 0) + 15;
    {
      Answers answers(file(), "mine");
      EXPECT_THROW((void)card_of(answers.resumed(subject())), Killed);
    }
    const auto size = fs::file_size(file());
    fs::resize_file(file(), draw == 0 ? 7 : random() % size);  // 7: within the first line
    std::size_t kept = 0;
    patience_ = (asked_ = 0) + 20;
    {
      Answers answers(file(), "mine");
      kept = answers.kept();
      EXPECT_LT(kept, 15U);
      EXPECT_THROW((void)card_of(answers.resumed(subject())), Killed);
    }
    patience_ = std::size_t(-1);
    Answers answers(file(), "mine");
    EXPECT_EQ(answers.kept(), kept + 20 - (kept > 1 ? 1 : 0));
    EXPECT_EQ(card_of(answers.resumed(subject())), whole);
    answers.remove();
  }
}

// A flipped bit is no answer either.
TEST_F(KeptAnswers, ThatWereDamagedAreAskedForAgain) {
  patience_ = 15;
  {
    Answers answers(file(), "mine");
    EXPECT_THROW((void)card_of(answers.resumed(subject())), Killed);
  }
  {
    std::fstream damaged(file(), std::ios::binary | std::ios::in | std::ios::out);
    std::string first;
    std::getline(damaged, first);
    // A record begins with its question, and how many tables there are, each of so many rows and columns.
    damaged.seekp(static_cast<std::streamoff>(first.size() + 1 + 4 * 8 + 2)).put('!');
  }
  EXPECT_EQ(Answers(file(), "mine").kept(), 0U);
}

TEST_F(KeptAnswers, OfAnotherCalibrationAreRefusedAndStay) {
  { Answers answers(file(), "mine, seed 1"); }
  EXPECT_NE(refusal("mine, seed 2")
                .find("has answers of another subject, other options or another "
                      "build (mine, seed 1)"),
            std::string::npos);
  std::ofstream(file()) << "notes of mine";
  EXPECT_NE(refusal("mine").find("it is no file of answers"), std::string::npos);
  std::ifstream in(file());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "notes of mine");
}

// The same words for another calibration: its questions are others.
TEST_F(KeptAnswers, ToOtherQuestionsAreRefused) {
  patience_ = 15;
  {
    Answers answers(file(), "mine");
    Subject other = subject();
    other.input = bf16;
    EXPECT_THROW((void)card_of(answers.resumed(other)), Killed);
  }
  EXPECT_NE(refusal("mine").find("has the answer to another question than number 1"),
            std::string::npos);
}

// A kernel that was changed in between.
TEST_F(KeptAnswers, ThatTheSubjectNoLongerGivesAreRefused) {
  patience_ = 15;
  {
    Answers answers(file(), "mine");
    EXPECT_THROW((void)card_of(answers.resumed(subject())), Killed);
  }
  Subject other = subject();
  other.multiply = subject_of(Emulated{}, fp32).multiply;
  try {
    Answers answers(file(), "mine");
    (void)card_of(answers.resumed(other));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("first answer is another one"), std::string::npos);
  }
}

// One whose roundings are drawn never says the same twice, and is no other one for that.
TEST_F(KeptAnswers, OfASubjectThatVariesAreTaken) {
  const auto drawn = [] {
    return subject_of(Emulated{.order = {.rounding = Rounding::stochastic}}, fp32);
  };
  {
    Answers answers(file(), "mine");
    Subject asked = answers.resumed(drawn());
    for (int again = 0; again < 3; ++again)
      (void)asked.multiply({{Tensor(9, 9, 0.3F), Tensor(9, 9, 0.7F)}});
  }
  Subject later = drawn();
  (void)later.multiply({{Tensor(1, 1), Tensor(1, 1)}});  // its random words go on
  Answers answers(file(), "mine");
  EXPECT_NO_THROW(
      (void)answers.resumed(later).multiply({{Tensor(9, 9, 0.3F), Tensor(9, 9, 0.7F)}}));
}

TEST_F(KeptAnswers, HaveOneWriter) {
  const Answers answers(file(), "mine");
  EXPECT_NE(refusal("mine").find("is being written by another process"), std::string::npos);
}

}  // namespace
}  // namespace plumb::probe::answers_test

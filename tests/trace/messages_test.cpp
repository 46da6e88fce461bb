// Is what comes out of a collective held against what went in, and are records that are none refused?
#include "trace/messages.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "tests/support/rooms.hpp"
#include "tests/support/tensors.hpp"
#include "trace/message_parts.hpp"

namespace plumb::messages_test {
namespace {

namespace fs = std::filesystem;

constexpr float inf = std::numeric_limits<float>::infinity();

// A call as one rank records it.
struct Said {
  std::string text;  // op, and what else is said, without sizes
  std::vector<std::vector<float>> given, got;
};
Said sum(const std::string& group, std::vector<float> given, std::vector<float> got,
         const std::string& reduce = "sum") {
  return {R"("op":"all_reduce","reduce":")" + reduce + R"(","group":)" + group,
          {std::move(given)},
          {std::move(got)}};
}
Said moved(const std::string& op, std::vector<std::vector<float>> given,
           std::vector<std::vector<float>> got, const std::string& more = "") {
  return {"\"op\":\"" + op + "\"" + more + R"(,"group":[0,1])", std::move(given), std::move(got)};
}

class Messages : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("plumb-messages-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(int rank, const std::string& texts, const std::vector<Written>& tensors) const {
    std::string file = safetensors(tensors);
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    std::string header = file.substr(9, length - 2);
    header = "{\"__metadata__\":{" + texts + "}" + (header.empty() ? "" : "," + header) + "}";
    write_bytes(folder_ / ("messages_0000" + std::to_string(rank) + ".safetensors"),
                with_header(header, file.substr(8 + length)));
  }
  // `as`: how a file has numbers.
  using As = Written (*)(const std::string& name, std::vector<std::size_t> shape,
                         const std::vector<float>& values);
  void record(int rank, const std::vector<Said>& calls, As as = f32) const {
    std::string texts;
    std::vector<Written> tensors;
    for (std::size_t n = 0; n < calls.size(); ++n) {
      std::string text = "{" + calls[n].text;
      for (const auto& [name, pieces] :
           {std::pair("given", &calls[n].given), {"got", &calls[n].got}}) {
        std::vector<float> all;
        std::string sizes;
        for (const auto& piece : *pieces) {
          all.insert(all.end(), piece.begin(), piece.end());
          sizes += (sizes.empty() ? "" : ",") + std::to_string(piece.size());
        }
        text += std::string(",\"") + name + "\":[" + sizes + "]";
        if (all.empty()) continue;
        const std::string id = std::to_string(n) + "/" + name;
        tensors.push_back(as(id, {all.size()}, all));
      }
      std::string quoted;
      for (const char c : text + "}") quoted += (c == '"' ? "\\\"" : std::string(1, c));
      texts += (n == 0 ? "\"" : ",\"") + std::to_string(n) + "\":\"" + quoted + "\"";
    }
    write(rank, texts, tensors);
  }
  Replayed judged(int ranks = 2) const {
    return judge_messages(trace::read_messages(folder_, ranks));
  }
  // Of two ranks.
  Replayed judged(const std::vector<Said>& zero, const std::vector<Said>& one, As as = f32) const {
    record(0, zero, as);
    record(1, one, as);
    return judged();
  }
  void expect_refused(const std::string& because, int ranks = 2) const {
    try {
      trace::read_messages(folder_, ranks);
      ADD_FAILURE() << "was taken; expected: " << because;
    } catch (const Failure& failure) {
      const std::string said = failure.what();
      EXPECT_NE(said.find(because), said.npos) << said;
      EXPECT_EQ(said.find('\n'), said.npos) << said;
    }
  }
  fs::path folder_;
};

std::string said_of(const Replayed& seen) {
  return seen.findings.empty() ? ""
                               : seen.findings.front().id + ": " + seen.findings.front().detail;
}

TEST_F(Messages, SumsAreWhatTheirRanksGave) {
  const Replayed seen =
      judged({sum("[0,1]", {1, 2.5F}, {4, 2})}, {sum("[0,1]", {3, -0.5F}, {4, 2})});
  EXPECT_EQ(seen.ratios,
            (std::map<std::string, double>{{"messages/all_reduce 1 of ranks 0, 1", 0}}));
  EXPECT_TRUE(seen.findings.empty()) << said_of(seen);
}

TEST_F(Messages, OfAShortFormatMayLoseARoundingForEachAddition) {
  const float spacing = 1.0F / 128;  // of BF16 from 1 on
  const auto ratio = [&](float got) {
    const Replayed seen =
        judged({sum("[0,1]", {1}, {got})}, {sum("[0,1]", {spacing * 0.5F}, {got})}, bf16_tensor);
    return seen.ratios.begin()->second;
  };
  EXPECT_LE(ratio(1), 1);
  EXPECT_LE(ratio(1 + spacing), 1);
  EXPECT_GT(ratio(1), 0.99);  // half a spacing of a sum that begins a binade: as far as it can be
  EXPECT_GT(ratio(1 + 2 * spacing), 1);
  EXPECT_GT(ratio(1 - spacing), 1);
}

TEST_F(Messages, AnAverageIsDividedBeforeOrBehind) {
  const float third = 1.0F / 3;
  for (const float got : {third, std::nextafter(third, 1.0F)}) {
    const Replayed seen =
        judged({sum("[0,1]", {2 * third}, {got}, "avg")}, {sum("[0,1]", {0}, {got}, "avg")});
    EXPECT_TRUE(seen.findings.empty()) << said_of(seen);
  }
  const Replayed seen = judged({sum("[0,1]", {4}, {4}, "avg")}, {sum("[0,1]", {0}, {4}, "avg")});
  EXPECT_EQ(
      said_of(seen),
      "messages/all_reduce 1 of ranks 0, 1: 1 of the 1 number that rank 0 got are not the average "
      "of what ranks 0, 1 gave: number 0 is 4, and should be 2");
}

// With six digits both would be 2.
TEST_F(Messages, NumbersAreToldAsFarAsTheyDiffer) {
  const float got = 2 + 8 * std::numeric_limits<float>::epsilon();
  EXPECT_EQ(
      said_of(judged({sum("[0,1]", {1}, {got})}, {sum("[0,1]", {1}, {got})})),
      "messages/all_reduce 1 of ranks 0, 1: 1 of the 1 number that rank 0 got are not the sum of "
      "what ranks 0, 1 gave: number 0 is 2.00000095, and should be 2");
}

Written whole_numbers(const std::string& name, std::vector<std::size_t> shape,
                      const std::vector<float>& values) {
  return {name, "I32", std::move(shape),
          bytes_of(std::vector<std::int32_t>(values.begin(), values.end()))};
}

// Of 7 and 2 it is 4 or 5, and of -7 and -2 the same with their sign.
TEST_F(Messages, AnAverageOfWholeNumbersIsRoundedOrCut) {
  const auto findings = [&](float sign, float got) {
    return judged({sum("[0,1]", {sign * 7}, {got}, "avg")},
                  {sum("[0,1]", {sign * 2}, {got}, "avg")}, whole_numbers)
        .findings.size();
  };
  for (const float sign : {1.0F, -1.0F}) {
    EXPECT_EQ(findings(sign, sign * 4), 0U);
    EXPECT_EQ(findings(sign, sign * 5), 0U);
    EXPECT_EQ(findings(sign, sign * 3), 1U);
    EXPECT_EQ(findings(sign, sign * 6), 1U);
  }
}

// Each number is that many beyond 2^60, of which neither FP32 nor FP64 has the last bits.
Written large_numbers(const std::string& name, std::vector<std::size_t> shape,
                      const std::vector<float>& values) {
  std::vector<std::int64_t> all;
  for (const float x : values) all.push_back((std::int64_t(1) << 60) + static_cast<int>(x));
  return {name, "I64", std::move(shape), bytes_of(all)};
}
Written bytes_as(const char* type, const std::string& name, std::vector<std::size_t> shape,
                 const std::vector<float>& values) {
  return {name, type, std::move(shape),
          bytes_of(std::vector<std::uint8_t>(values.begin(), values.end()))};
}

TEST_F(Messages, WholeNumbersHaveEachOfTheirBits) {
  const auto broadcast = [&](float got) {
    const std::string root = R"(,"root":0)";
    return said_of(judged({moved("broadcast", {{1}}, {{1}}, root)},
                          {moved("broadcast", {}, {{got}}, root)}, large_numbers));
  };
  EXPECT_EQ(broadcast(1), "");
  EXPECT_NE(broadcast(0).find("number 0 is 1152921504606846976, and should be 1152921504606846977"),
            std::string::npos)
      << broadcast(0);
  const auto largest = [&](float got) {
    return judged({sum("[0,1]", {3}, {got}, "max")}, {sum("[0,1]", {2}, {got}, "max")},
                  large_numbers)
        .findings.size();
  };
  EXPECT_EQ(largest(3), 0U);
  EXPECT_EQ(largest(2), 1U);
}

// As libraries add them: a sum wraps around, one of truth values is whether any is true.
TEST_F(Messages, SumsOfBytesWrapAroundAndOfTruthValuesAreTrueOrNot) {
  const auto findings = [&](As as, float zero, float one, float got) {
    return judged({sum("[0,1]", {zero}, {got})}, {sum("[0,1]", {one}, {got})}, as).findings.size();
  };
  const As bytes = [](const auto& name, auto shape, const auto& values) {
    return bytes_as("U8", name, shape, values);
  };
  const As truth = [](const auto& name, auto shape, const auto& values) {
    return bytes_as("BOOL", name, shape, values);
  };
  EXPECT_EQ(findings(bytes, 200, 100, 44), 0U);
  EXPECT_EQ(findings(bytes, 200, 100, 45), 1U);
  EXPECT_EQ(findings(truth, 1, 1, 1), 0U);
  EXPECT_EQ(findings(truth, 0, 0, 0), 0U);
  EXPECT_EQ(findings(truth, 1, 0, 0), 1U);
}

// What FP32 would flush is not what FP16 does.
TEST_F(Messages, NumbersOfFp16NearZeroDoNotVanish) {
  const As half = [](const auto& name, auto shape, const auto& values) {
    std::vector<std::uint16_t> codes;
    for (const float x : values) codes.push_back(static_cast<std::uint16_t>(x));
    return Written{name, "F16", shape, bytes_of(codes)};
  };
  const auto findings = [&](float got) {  // codes of subnormal numbers
    return judged({sum("[0,1]", {100}, {got})}, {sum("[0,1]", {200}, {got})}, half).findings.size();
  };
  EXPECT_EQ(findings(300), 0U);
  EXPECT_EQ(findings(0), 1U);
  EXPECT_EQ(findings(100), 1U);
}

TEST_F(Messages, SaysWhatAWrongSumLooksLike) {
  const auto looks = [&](float zero, float one, float got) {
    return judged({sum("[0,1]", {zero, 1}, {got, 2})}, {sum("[0,1]", {one, 1}, {zero + one, 2})});
  };
  EXPECT_TRUE(looks(3, 5, 8).findings.empty());
  const Replayed wrong = looks(3, 5, 7);
  ASSERT_EQ(wrong.findings.size(), 1U);
  EXPECT_EQ(wrong.findings[0].rank, 0);
  EXPECT_EQ(wrong.findings[0].looks_like,
            "");  // element 1 is right, so no mistake of all of them is
  const auto all = [&](float got) {
    return judged({sum("[0,1]", {3}, {got})}, {sum("[0,1]", {5}, {got})}).findings.at(0).looks_like;
  };
  EXPECT_EQ(all(3), "what the rank gave itself: nothing was added");
  EXPECT_EQ(all(5), "the sum without what rank 0 gave");
  EXPECT_EQ(all(4), "the sum, divided by the number of ranks");
  EXPECT_EQ(all(16), "the sum times the number of ranks");
  EXPECT_EQ(all(11), "the sum with what rank 0 gave in it twice");
}

TEST_F(Messages, OverflowMayOverflowAndNothingElse) {
  const float large = std::numeric_limits<float>::max();
  EXPECT_TRUE(
      judged({sum("[0,1]", {large}, {inf})}, {sum("[0,1]", {large}, {inf})}).findings.empty());
  EXPECT_FALSE(judged({sum("[0,1]", {1}, {inf})}, {sum("[0,1]", {1}, {inf})}).findings.empty());
  EXPECT_FALSE(judged({sum("[0,1]", {inf}, {1})}, {sum("[0,1]", {1}, {1})}).findings.empty());
  EXPECT_TRUE(judged({sum("[0,1]", {inf}, {inf})}, {sum("[0,1]", {1}, {inf})}).findings.empty());
}

TEST_F(Messages, InfinitiesHaveTheirSign) {
  const float large = std::numeric_limits<float>::max();
  const auto right = [&](float a, float b, float got, const std::string& reduce = "sum") {
    return judged({sum("[0,1]", {a}, {got}, reduce)}, {sum("[0,1]", {b}, {got}, reduce)})
        .findings.empty();
  };
  EXPECT_TRUE(right(inf, 3, inf));
  EXPECT_FALSE(right(inf, 3, -inf));
  EXPECT_FALSE(right(inf, 3, NAN));
  EXPECT_TRUE(right(inf, -large, NAN));  // which may have overflown before
  EXPECT_TRUE(right(inf, -inf, NAN));
  EXPECT_FALSE(right(inf, -inf, inf));
  EXPECT_TRUE(right(large, large, inf));
  EXPECT_FALSE(right(large, large, -inf));
  EXPECT_FALSE(right(large, large, NAN));
  EXPECT_TRUE(right(NAN, 3, NAN));
  EXPECT_FALSE(right(NAN, 3, inf));
  EXPECT_FALSE(right(NAN, 3, 3));
  EXPECT_TRUE(right(NAN, 3, 3, "max"));
  EXPECT_TRUE(right(NAN, 3, NAN, "max"));
  EXPECT_FALSE(right(NAN, 3, 7, "max"));
}

TEST_F(Messages, TheLeastAndTheLargestAreExact) {
  EXPECT_TRUE(judged({sum("[0,1]", {1, 5}, {3, 5}, "max")}, {sum("[0,1]", {3, 2}, {3, 5}, "max")})
                  .findings.empty());
  const Replayed seen = judged({sum("[0,1]", {1}, {std::nextafter(3.0F, 4.0F)}, "max")},
                               {sum("[0,1]", {3}, {3}, "max")});
  EXPECT_EQ(seen.findings.at(0).ratio, INFINITY);
  const auto most = [&](float got) {
    return judged({sum("[0,1]", {-inf}, {got}, "max")}, {sum("[0,1]", {-2}, {got}, "max")});
  };
  EXPECT_TRUE(most(-2).findings.empty());
  EXPECT_FALSE(most(-inf).findings.empty());
}

TEST_F(Messages, OfOneRankAloneAreNoSilence) {
  record(1, {sum("[0,1]", {1}, {1})});
  EXPECT_TRUE(trace::has_messages(folder_, 2));
  expect_refused("messages_00000.safetensors is not there");
}

// What each operation makes of what ranks give; and of one number that is another.
TEST_F(Messages, WhatIsMovedHasItsBits) {
  const std::string root = R"(,"root":1)";
  const auto right = [&](const std::vector<Said>& zero, const std::vector<Said>& one) {
    const Replayed seen = judged(zero, one);
    EXPECT_TRUE(seen.findings.empty() && seen.ratios.size() == 1) << zero[0].text << said_of(seen);
    std::vector<Said> wrong = one;
    wrong[0].got.back().back() = std::nextafter(wrong[0].got.back().back(), inf);
    const Replayed other = judged(zero, wrong);
    EXPECT_EQ(other.findings.size(), 1U) << zero[0].text;
  };
  right({moved("all_gather", {{1, 2}}, {{1, 2}, {3}})},
        {moved("all_gather", {{3}}, {{1, 2}, {3}})});
  right({moved("gather", {{1}}, {}, root)}, {moved("gather", {{3}}, {{1}, {3}}, root)});
  right({moved("broadcast", {}, {{7}}, root)}, {moved("broadcast", {{7}}, {{7}}, root)});
  right({moved("scatter", {}, {{1}}, root)}, {moved("scatter", {{1}, {2}}, {{2}}, root)});
  right({moved("all_to_all", {{1}, {2, 3}}, {{1}, {4}})},
        {moved("all_to_all", {{4}, {5}}, {{2, 3}, {5}})});
  const std::string add = R"(,"reduce":"sum")";
  const auto reduced = [&](const Said& zero, const Said& one) {
    EXPECT_TRUE(judged({zero}, {one}).findings.empty());
  };
  reduced(moved("reduce_scatter", {{1}, {2}}, {{11}}, add),
          moved("reduce_scatter", {{10}, {20}}, {{22}}, add));
  reduced(moved("reduce", {{1}}, {}, add + root), moved("reduce", {{10}}, {{11}}, add + root));
}

TEST_F(Messages, OfRanksThatAreOutOfStepAreFound) {
  const Said add = sum("[0,1]", {1}, {2}), most = sum("[0,1]", {1}, {1}, "max");
  EXPECT_EQ(
      said_of(judged({add, add}, {add})),
      "messages/all_reduce 2 of ranks 0, 1: rank 0 calls it, and rank 1 does not; calls of the group "
      "behind it are not judged");
  EXPECT_EQ(
      said_of(judged({add, add}, {add, most})),
      "messages/all_reduce 2 of ranks 0, 1: rank 0 calls all_reduce sum, and rank 1 calls all_reduce "
      "max; calls of the group behind it are not judged");
  EXPECT_EQ(said_of(judged({sum("[0,1]", {1, 1}, {2, 2})}, {sum("[0,1]", {1}, {2})})),
            "messages/all_reduce 1 of ranks 0, 1: rank 1 gives rank 0 1 number, which takes 2");
}

TEST_F(Messages, NumbersOfACallOfWhichNothingIsSaidAreRefused) {
  record(0, {});
  write(1, "", {f32("0/got", {1}, {7})});
  expect_refused("has numbers '0/got' of a call of which it says nothing");
}

TEST_F(Messages, GroupsStandAlone) {
  const Said own0 = sum("[0]", {5}, {5}), own1 = sum("[1]", {6}, {6}),
             both = sum("[0,1]", {1}, {2});
  const Replayed seen = judged({own0, both}, {both, own1, own1});
  EXPECT_TRUE(seen.findings.empty()) << said_of(seen);
  EXPECT_EQ(seen.ratios.size(), 4U);
}

TEST_F(Messages, WithoutNumbersAreNotJudged) {
  const Said nothing = moved("all_to_all", {{}, {}}, {{}, {}});
  const Replayed seen = judged({nothing}, {nothing});
  EXPECT_TRUE(seen.findings.empty() && seen.ratios.empty()) << said_of(seen);
  EXPECT_EQ(seen.not_judged.size(), 1U);
}

TEST_F(Messages, WhatIsNotKnownIsNotJudged) {
  const Said band = sum("[0,1]", {1}, {1}, "band");
  const Replayed seen = judged({band}, {band});
  EXPECT_TRUE(seen.findings.empty() && seen.ratios.empty());
  ASSERT_EQ(seen.not_judged.size(), 1U);
  for (const char* op : {"broadcast", "gather", "barrier"}) {  // of which root?
    const Said call = moved(op, {{1}, {1}}, {{1}, {1}});
    EXPECT_EQ(judged({call}, {call}).not_judged.size(), 1U) << op;
  }
}

TEST_F(Messages, RecordsThatAreNoneAreRefused) {
  record(0, {});
  expect_refused("messages_00001.safetensors is not there");
  const auto first = [&](const std::string& text, const std::vector<Written>& tensors = {}) {
    std::string quoted;
    for (const char c : text) quoted += (c == '"' ? "\\\"" : std::string(1, c));
    write(0, "\"0\":\"" + quoted + "\"", tensors);
  };
  first("[]");
  expect_refused("messages_00000.safetensors");
  first(R"({"op":"all_reduce","reduce":"sum","group":[0,7],"given":[],"got":[]})");
  expect_refused("no message");
  first(R"({"op":"all_reduce","reduce":"sum","group":[1],"given":[],"got":[]})");
  expect_refused("rank 0 calls with ranks 1");
  first(R"({"op":"broadcast","group":[0],"root":1,"given":[],"got":[]})");
  expect_refused("has a root in '0' that is not of its group");
  first(R"({"op":"all_reduce","reduce":"sum","group":[0],"given":[3],"got":[1]})",
        {f32("0/given", {2}, {1, 2})});
  expect_refused("does not have the 3 numbers of '0/given'");
  write(0, "\"1\":\"{}\"", {});
  expect_refused("not numbered from 0 on");
}

}  // namespace
}  // namespace plumb::messages_test

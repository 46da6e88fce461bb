// Does what a user says of tensors count in place of what a trace says, and is a rule that cannot be meant
// refused?
#include "trace/store/overrides.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/rooms.hpp"
#include "tests/support/traces.hpp"
#include "trace/merge.hpp"
#include "trace/store/store.hpp"

namespace plumb::overrides_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Override : public testing::Test {
 protected:
  Override() {
    folder_ = fs::temp_directory_path() / ("plumb-overrides-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    // Stages of two layers; within a stage two ranks have columns, and say that they have rows.
    const json rows = {
        {"shape", {2, 2}}, {"placements", {{{"axis", "tp"}, {"kind", "replicate"}}}}, {"order", 4}};
    json manifest = manifest2(4);
    manifest["mesh"] = {{{"axis", "pp"}, {"size", 2}}, {{"axis", "tp"}, {"size", 2}}};
    std::vector<std::vector<Told>> ranks;
    for (const float first : {0.0F, 1.0F, 2.0F, 3.0F}) {
      ranks.push_back({{f32("decoder.1.fc", {2, 1}, {first, 10 + first}), rows}});
    }
    write_trace2(folder_ / "run", manifest, ranks);
  }
  ~Override() override { fs::remove_all(folder_); }

  Trace read(const json& tensors) {
    write_bytes(folder_ / "o.json",
                json{{"schema", "plumb-overrides/1"}, {"tensors", tensors}}.dump());
    return read_trace(folder_ / "run", Overrides(folder_ / "o.json"));
  }
  void refused(const json& tensors, const std::string& what) {
    try {
      read(tensors);
      ADD_FAILURE() << what;
    } catch (const Failure& failure) {
      const std::string said = failure.what();
      EXPECT_NE(said.find(what), said.npos) << said;
      EXPECT_TRUE(said.starts_with((folder_ / "o.json").string())) << said;
    }
  }

  fs::path folder_;
};

const json columns = {{"dims", "a b[tp]"}};

TEST_F(Override, APlacementThatIsWrongNeedsNoNewTrace) {
  EXPECT_THROW(read_trace(folder_ / "run"), Failure);  // 2 x 1 is not all of 2 x 2
  const json renumbered = {{"group", 1}, {"axis", "pp"}, {"first", {0, 2}}};
  const Trace trace = read({{{"match", "decoder"}, {"says", columns}},
                            {{"match", "^decoder\\.(\\d+)\\.(.*)$"},
                             {"id", "layers.\\1.\\2/out"},
                             {"renumber", renumbered}}});
  const Merged merged = merge(trace);
  EXPECT_TRUE(merged.findings.empty()) << merged.findings.front().detail;
  ASSERT_EQ(merged.values.size(), 2U);
  EXPECT_EQ(merged.values.at("layers.1.fc/out")->values, (Tensor::Numbers{0, 1, 10, 11}));
  EXPECT_EQ(merged.values.at("layers.3.fc/out")->values, (Tensor::Numbers{2, 3, 12, 13}));
  EXPECT_EQ(trace.about.at("layers.3.fc/out").own_name, "decoder.1.fc");
  EXPECT_EQ(trace.about.at("layers.3.fc/out").order, 4U);  // what is not overridden stays
}

TEST_F(Override, TheLastWordCountsAndNullTakesAFieldAway) {
  json last = columns;
  last["order"] = nullptr;
  last["role"] = "given";
  const Trace trace =
      read({{{"match", "fc$"}, {"says", {{"role", "decision"}, {"dims", "a[tp] b"}}}},
            {{"match", "^decoder.1"}, {"id", "first"}},
            {{"match", "^first$"}, {"says", last}}});  // by the id that it has by then
  const About& about = trace.about.at("first");
  EXPECT_EQ(about.role, Role::given);
  EXPECT_FALSE(about.order);
}

TEST_F(Override, RulesThatCannotBeMeantAreRefused) {
  const json good = {{"match", "fc"}, {"says", columns}};
  refused({good, {{"match", "norm"}}}, "has the rule 'norm', which matches no tensor");
  refused({{{"match", "("}}}, "has a rule whose 'match' '(' is not a regular expression");
  refused(json::array(), "tensors is []; expected a list of rules");
  refused({{{"mtch", "x"}}}, "tensors[0] has no 'match'");
  refused({{{"match", "fc"}, {"says", {{"dims", 3}}}}}, "dims is 3; expected a text");
  refused({{{"match", "fc"}, {"says", {{"ordr", 3}}}}}, "has a field 'ordr'");
  const auto renumber = [&](const json& how) {
    return json{good, {{"match", "^(\\w+)\\.(\\d+)"}, {"id", "\\2"}, {"renumber", how}}};
  };
  refused({good, {{"match", "x"}, {"renumber", {{"group", 1}, {"axis", "pp"}, {"first", {0, 2}}}}}},
          "renumbers 'x' and gives it no id");
  refused(renumber({{"group", 2}, {"axis", "dp"}, {"first", {0, 2}}}), "on an axis that the mesh");
  refused(renumber({{"group", 2}, {"axis", "pp"}, {"first", {0}}}), "another number of places");
  refused(renumber({{"group", 1}, {"axis", "pp"}, {"first", {0, 2}}}), "whose group is no number");
  refused(renumber({{"group", 9}, {"axis", "pp"}, {"first", {0, 2}}}), "whose group is no number");
  refused({good, {{"match", "fc"}, {"id", "\\5"}}}, "'\\5' asks for more groups than 'fc' has");
}

// Query, key and value of two groups (4 + 1 + 1 rows each), gate and up (3 + 3 rows), each on two ranks:
// a group, and half of gate beside half of up.
TEST_F(Override, WeightsThatLieFusedAreTakenApart) {
  json manifest = manifest2(2);
  manifest["mesh"] = {{{"axis", "tp"}, {"size", 2}}};
  const auto rows = [](std::vector<float> first) {
    std::vector<float> all;
    for (const float row : first) all.insert(all.end(), {row, row + 0.5F});
    return all;
  };
  const json by_groups = {{"shape", {12, 2}},
                          {"placements", {{{"axis", "tp"}, {"kind", "shard"}, {"dim", 0}}}}};
  const json by_halves = {
      {"shape", {8, 2}},
      {"placements", {{{"axis", "tp"}, {"kind", "shard"}, {"dim", 0}, {"stride", 2}}}}};
  fs::remove_all(folder_);
  write_trace2(folder_ / "run", manifest,
               {{{f32("l.0.qkv", {6, 2}, rows({0, 1, 2, 3, 4, 5})), by_groups},
                 {f32("l.0.fc1", {4, 2}, rows({20, 21, 24, 25})), by_halves}},
                {{f32("l.0.qkv", {6, 2}, rows({6, 7, 8, 9, 10, 11})), by_groups},
                 {f32("l.0.fc1", {4, 2}, rows({22, 23, 26, 27})), by_halves}}});
  const auto part = [](const char* id, int size) { return json{{"id", id}, {"size", size}}; };
  const json qkv = {
      {"match", "^l\\.(\\d+)\\.qkv$"},
      {"split", {{"dim", 0}, {"parts", {part("\\1.q", 4), part("\\1.k", 1), part("\\1.v", 1)}}}}};
  const json fc1 = {{"match", "^l\\.(\\d+)\\.fc1$"},
                    {"split", {{"dim", 0}, {"parts", {part("\\1.gate", 4), part("\\1.up", 4)}}}}};
  const Trace trace = read({qkv, fc1});
  const Merged merged = merge(trace);
  EXPECT_TRUE(merged.findings.empty()) << merged.findings.front().detail;
  const auto is = [&](const std::string& id, const std::vector<float>& first) {
    EXPECT_TRUE(std::ranges::equal(merged.values.at(id)->values, rows(first))) << id;
  };
  ASSERT_EQ(merged.values.size(), 5U);
  is("0.q", {0, 1, 2, 3, 6, 7, 8, 9});
  is("0.k", {4, 10});
  is("0.v", {5, 11});
  is("0.gate", {20, 21, 22, 23});
  is("0.up", {24, 25, 26, 27});
  EXPECT_EQ(trace.about.at("0.k").shape, (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(trace.about.at("0.k").own_name, "l.0.qkv");
  refused({qkv, fc1, {{"match", "qkv"}, {"id", "x"}}}, "splits 'l.0.qkv' by one rule, and 'qkv'");
  refused({qkv, fc1, qkv}, "splits 'l.0.qkv' by one rule");
  json wrong = qkv;
  wrong["split"]["parts"][0]["size"] = 3;
  refused({wrong, fc1}, "no parts of a dimension 0 that repeat after 5, in a whole of 12 x 2");
  wrong["id"] = "x";
  refused({wrong, fc1}, "gives '^l\\.(\\d+)\\.qkv$' an id and splits it");
}

TEST_F(Override, OfVersion1AreRefused) {
  write_bytes(folder_ / "o.json",
              R"({"schema": "plumb-overrides/1", "tensors": [{"match": "x"}]})");
  Trace old;
  old.ranks.resize(1);
  write_trace(old, folder_ / "old");
  EXPECT_THROW(read_trace(folder_ / "old", Overrides(folder_ / "o.json")), Failure);
  EXPECT_NO_THROW(read_trace(folder_ / "old"));
}

}  // namespace
}  // namespace plumb::overrides_test

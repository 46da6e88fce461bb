// Are traces of version 2 read as their producer meant them, in all spellings and types, and is each file
// that is damaged, hostile or mistaken refused in one sentence, or found where a rank lacks what it owes?
#include "trace/store/format2.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <set>

#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/traces.hpp"
#include "trace/check.hpp"
#include "trace/merge.hpp"
#include "trace/store/store.hpp"

namespace plumb::format2_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// 4 x 6: ten times the row, and the column.
std::vector<float> grid(std::size_t row, std::size_t rows, std::size_t col, std::size_t cols) {
  std::vector<float> values;
  for (std::size_t i = row; i < row + rows; ++i) {
    for (std::size_t j = col; j < col + cols; ++j) values.push_back(static_cast<float>(10 * i + j));
  }
  return values;
}

json on_mesh(json manifest) {
  manifest["mesh"] = {{{"axis", "dp"}, {"size", 2}}, {{"axis", "tp"}, {"size", 2}}};
  return manifest;
}

class Format2 : public testing::Test {
 protected:
  Format2() {
    folder_ = fs::temp_directory_path() / ("plumb-format2-" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  ~Format2() override { fs::remove_all(folder_); }

  Trace read(const json& manifest, const std::vector<std::vector<Told>>& ranks) {
    fs::remove_all(folder_);
    write_trace2(folder_, manifest, ranks);
    return read_trace(folder_);
  }
  // What is said when it is refused.
  std::string refusal(const json& manifest, const std::vector<std::vector<Told>>& ranks) {
    try {
      read(manifest, ranks);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  }
  void refused(const std::string& said, const std::string& what) {
    EXPECT_NE(said.find(what), said.npos) << said << "\n" << what;
    EXPECT_TRUE(said.starts_with(folder_.string())) << said;  // says where
    EXPECT_EQ(std::ranges::count(said, '\n'), 0) << said;
  }
  // One tensor of one rank, of which this is said.
  std::string refusal_of(const json& says, std::vector<std::size_t> shape = {2, 2}) {
    std::size_t n = 1;
    for (const std::size_t d : shape) n *= d;
    return refusal(manifest2(1), {{{f32("x", std::move(shape), std::vector<float>(n)), says}}});
  }
  // Columns on tp, the same on dp: each rank has three of the six.
  static std::vector<std::vector<Told>> columns(const json& says) {
    std::vector<std::vector<Told>> ranks;
    for (const std::size_t first : {0, 3, 0, 3}) {
      ranks.push_back({{f32("x", {4, 3}, grid(0, 4, first, 3)), says}});
    }
    return ranks;
  }
  void is_the_grid(const Trace& trace) {
    const Merged merged = merge(trace);
    ASSERT_TRUE(merged.findings.empty()) << merged.findings.front().detail;
    const auto whole = grid(0, 4, 0, 6);
    EXPECT_TRUE(std::ranges::equal(merged.values.at("x")->values, whole));
  }

  fs::path folder_;
};

const json shape = {4, 6};
const json by_placements = {
    {"shape", shape},
    {"placements",
     {{{"axis", "tp"}, {"kind", "shard"}, {"dim", 1}}, {{"axis", "dp"}, {"kind", "replicate"}}}}};

TEST_F(Format2, HasFourSpellingsOfOnePlacement) {
  const json manifest = on_mesh(manifest2(4));
  is_the_grid(read(manifest, columns(by_placements)));
  is_the_grid(read(manifest, columns({{"shape", shape}, {"dims", "a b[tp] # dp:replicated"}})));
  is_the_grid(read(manifest, columns({{"shape", shape}, {"partition_spec", {nullptr, "tp"}}})));
  std::vector<std::vector<Told>> ranks = columns({{"shape", shape}});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks[rank][0].says["offsets"] = {
        {{"global", {0, 3 * (rank % 2)}}, {"local", {0, 0}}, {"size", {4, 3}}}};
  }
  is_the_grid(read(manifest, ranks));
}

TEST_F(Format2, KnowsAPartitionSpecOfSeveralAxesAndAPaddedVocabulary) {
  std::vector<std::vector<Told>> rows, padded;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    rows.push_back({{f32("x", {1, 6}, grid(rank, 1, 0, 6)),
                     {{"shape", shape}, {"partition_spec", {{"dp", "tp"}, nullptr}}}}});
    std::vector<float> two = grid(2 * rank, 2, 0, 6);  // of eight rows, four are real
    padded.push_back(
        {{f32("x", {2, 6}, two),
          {{"shape", shape},
           {"placements", {{{"axis", "rank"}, {"kind", "shard"}, {"dim", 0}, {"padded", 8}}}}}}});
  }
  is_the_grid(read(on_mesh(manifest2(4)), rows));
  is_the_grid(read(manifest2(4), padded));
}

TEST_F(Format2, FindsARankAReplicaAndAShardThatAreNotThere) {
  const json manifest = on_mesh(manifest2(4));
  const auto first = [&](
                         const std::vector<std::vector<Told>>& ranks,
                         const std::function<void()>& damage = [] {}) {
    fs::remove_all(folder_);
    write_trace2(folder_, manifest, ranks);
    damage();
    const Merged merged = merge(read_trace(folder_));
    return merged.findings.empty()
               ? std::string()
               : merged.findings.front().id + ": " + merged.findings.front().detail;
  };
  EXPECT_EQ(first(columns(by_placements)), "");
  auto ranks = columns(by_placements);
  ranks[2].clear();  // rank 0 has the same
  EXPECT_EQ(first(ranks), "x: rank 2 holds none of it, and its placement gives it 4 x 3");
  ranks[3].clear();
  EXPECT_EQ(first(ranks),
            "x: rank 2 holds none of it, and its placement gives it 4 x 3 (2 ranks lack theirs)");
  EXPECT_EQ(first(columns(by_placements), [&] { fs::remove(rank_path(folder_, 3)); }),
            "rank_00003.safetensors: is not there: rank 3 has no file");
  EXPECT_EQ(first(columns(by_placements),
                  [&] { fs::copy(rank_path(folder_, 3), rank_path(folder_, 4)); }),
            "rank_00004.safetensors: is there, and the manifest says that there are 4 ranks");
  EXPECT_EQ(first(columns(by_placements),
                  [&] { fs::copy(rank_path(folder_, 3), rank_path(folder_, 70)); }),
            "rank_00070.safetensors: is there, and the manifest says that there are 4 ranks");
  ranks = columns(by_placements);
  ranks[1][0].says = {{"shape", shape}, {"partition_spec", {nullptr, "tp"}}};  // dp is named second
  ranks[3][0].says["role"] = "given";
  EXPECT_EQ(first(ranks), "x: ranks 0 and 3 do not say the same of its role");
  ranks[3][0].says.erase("role");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank][0].says["made_by"] = {{"op", "rmsnorm"},
                                      {"inputs", {"a", "w"}},
                                      {"attributes", {{"eps", rank < 3 ? 1e-5 : 1e-3}}}};
  }
  EXPECT_EQ(first(ranks), "x: ranks 0 and 3 do not say the same of how it is made");
  for (auto& rank : ranks) rank[0].says["made_by"]["attributes"]["eps"] = 1e-5;
  EXPECT_EQ(first(ranks), "");
  ranks[3][0].says["made_by"]["inputs"] = {"b", "w"};
  EXPECT_EQ(first(ranks), "x: ranks 0 and 3 do not say the same of how it is made");
  for (auto& rank : ranks) rank[0].says.erase("made_by");
  ranks[3][0].says = {
      {"shape", shape},
      {"offsets", {{{"global", {0, 3}}, {"local", {0, 0}}, {"size", {4, 3}}}}}};  // the same block
  EXPECT_EQ(first(ranks), "x: ranks 0 and 3 do not say the same of how it lies on the mesh");
  ranks[3] = {};
  ranks[1][0].says = {{"shape", shape}, {"dims", "a b[tp] # dp:partial"}};
  EXPECT_TRUE(first(ranks).starts_with("x: rank ")) << first(ranks);
}

// The same numbers of rows and columns, in other dimensions.
TEST_F(Format2, FindsRanksThatSayOtherDimensions) {
  const auto of_shape = [](const std::vector<std::size_t>& whole) {
    return Told{f32("x", whole, std::vector<float>(8, 1)), {{"shape", whole}}};
  };
  const Merged merged = merge(read(manifest2(2), {{of_shape({1, 4, 2})}, {of_shape({2, 2, 2})}}));
  ASSERT_EQ(merged.findings.size(), 1U);
  EXPECT_EQ(merged.findings.front().detail, "ranks 0 and 1 do not say the same of its dimensions");
}

// Of five rows on four ranks the last has none: it need not say so.
TEST_F(Format2, ARankThatIsGivenNothingOwesNothing) {
  const json says = {{"shape", {5, 1}},
                     {"placements", {{{"axis", "rank"}, {"kind", "shard"}, {"dim", 0}}}}};
  std::vector<std::vector<Told>> ranks;
  for (const std::size_t rows : {2, 2, 1}) {
    ranks.push_back({{f32("x", {rows, 1}, std::vector<float>(rows, 1)), says}});
  }
  ranks.push_back({});
  EXPECT_TRUE(merge(read(manifest2(4), ranks)).findings.empty());
  ranks[2].clear();
  EXPECT_EQ(merge(read(manifest2(4), ranks)).findings.size(), 2U);  // a hole, and who owes it
}

TEST_F(Format2, ReadsEveryType) {
  const std::vector<Told> all = {
      {{"f64", "F64", {2}, bytes_of<double>({0.1, -3})}},
      {{"f16", "F16", {1, 2}, std::string("\x00\x3c\x00\xc0", 4)}},
      {{"bf16", "BF16", {2}, std::string("\x80\x3f\x00\xc0", 4)}},
      {{"e4m3", "F8_E4M3", {2}, std::string("\x38\xc0", 2)}},
      {{"e5m2", "F8_E5M2", {2}, std::string("\x3c\xc0", 2)}},
      {{"i64", "I64", {2}, bytes_of<std::int64_t>({std::int64_t(1) << 40, -2})}},
      {{"i8", "I8", {2}, std::string("\x01\xfe", 2)}},
      {{"u16", "U16", {2}, bytes_of<std::uint16_t>({1, 65534})}},
      {{"bool", "BOOL", {2, 1, 1}, std::string("\x01\x00", 2)}},
      {{"scalar", "F32", {}, bytes_of<float>({1})}},
      {{"cube", "F32", {2, 2, 2}, bytes_of<float>({0, 1, 2, 3, 4, 5, 6, 7})}},
      {{"none", "F32", {0, 3}, ""}}};
  const Trace trace = read(manifest2(1), {all});
  const auto& shards = trace.ranks[0].shards;
  const auto has = [&](const std::string& id, std::vector<float> values, const Format& format) {
    EXPECT_TRUE(std::ranges::equal(shards.at(id).tensor().values, values)) << id;
    EXPECT_EQ(shards.at(id).format, format) << id;
  };
  has("f64", {0.1F, -3}, fp32);
  has("f16", {1, -2}, fp16);
  has("bf16", {1, -2}, bf16);
  has("e4m3", {1, -2}, e4m3fn);
  has("e5m2", {1, -2}, e5m2);
  has("i64", {0x1p40F, -2}, fp32);
  has("i8", {1, -2}, fp32);
  has("u16", {1, 65534}, fp32);
  has("bool", {1, 0}, fp32);
  has("scalar", {1}, fp32);
  EXPECT_EQ(shards.at("cube").rows(), 4U);
  EXPECT_EQ(shards.at("none").tensor().size(), 0U);
  EXPECT_EQ(trace.about.at("i64").role, Role::decision);  // whole numbers, unless more is said
  EXPECT_EQ(trace.about.at("f64").role, Role::value);
  EXPECT_EQ(trace.about.at("cube").shape, (std::vector<std::size_t>{2, 2, 2}));
  EXPECT_TRUE(merge(trace).findings.empty());
}

TEST_F(Format2, KeepsWhatIsSaidOfATensor) {
  const Trace trace = read(manifest2(1), {{{f32("model.layers.0.mlp", {2}, {1, 2}),
                                            {{"id", "m0/layers.0.mlp/out"},
                                             {"order", 3},
                                             {"phase", "backward"},
                                             {"micro_batch", 1},
                                             {"from", {"a", "b"}},
                                             {"role", "value"},
                                             {"format", "bf16"}}}}});
  const About& about = trace.about.at("m0/layers.0.mlp/out");
  EXPECT_EQ(about.own_name, "model.layers.0.mlp");
  EXPECT_EQ(about.order, 3U);
  EXPECT_EQ(about.phase, Phase::backward);
  EXPECT_EQ(about.micro_batch, 1);
  EXPECT_EQ(about.from, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(trace.ranks[0].shards.at("m0/layers.0.mlp/out").format, bf16);
  EXPECT_EQ(trace.manifest.producer, "other 1.0");
  EXPECT_EQ(trace.manifest.settings.at("model"), "mine");
}

TEST_F(Format2, SettingsThatMayDifferDo) {
  json one = manifest2(1), other = manifest2(1);
  one["may_differ"] = {{"layout", "tp1"}};
  other["may_differ"] = {{"layout", "tp2"}};
  one["producer"]["libraries"] = {{"torch", "2.15"}};
  const std::vector<std::vector<Told>> ranks = {{{f32("x", {2}, {1, 2})}}};
  CheckOptions options;
  options.rules = {"flat"};
  EXPECT_EQ(check(read(one, ranks), read(other, ranks), options).exit_code(), 0);
  // Names that plumb has for what may differ are other producers' for what they say.
  for (const char* name : {"seed", "layout", "twin"}) {
    json another = other;
    another["must_agree"][name] = "7";
    EXPECT_THROW(check(read(one, ranks), read(another, ranks), options), Failure) << name;
  }
}

TEST_F(Format2, HasManyStepsUnderOneManifest) {
  json manifest = manifest2(1);
  manifest["steps"] = {3, 2};
  for (const int step : {2, 3}) {
    write_trace2(folder_, manifest, {{{f32("x", {1}, {static_cast<float>(step)})}}}, step);
  }
  const auto traces = traces_of(folder_);
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(read_trace(traces.at(3)).ranks[0].shards.at("x").tensor().values[0], 3);
  EXPECT_EQ(read_trace(traces.at(2).string() + "/").manifest.step, 2);
  EXPECT_THROW(read_trace(folder_), Failure);  // which one?
  fs::remove_all(folder_ / "step_000002");
  EXPECT_THROW(read_trace(folder_ / "step_000002"), Failure);
}

// As of an earlier run in the same folder.
TEST_F(Format2, RefusesAStepThatItsManifestDoesNotList) {
  write_trace2(folder_, manifest2(1), {{{f32("x", {1}, {1})}}});
  for (const char* other : {"notes", "step_of_mine", "step_0000009"})
    fs::create_directories(folder_ / other);
  EXPECT_EQ(read_trace(folder_).manifest.step, 1);
  fs::create_directories(folder_ / "step_000009");
  for (const fs::path& named : {folder_, folder_ / "step_000001", folder_ / "step_000009"}) {
    try {
      read_trace(named);
      ADD_FAILURE() << named;
    } catch (const Failure& failure) {
      refused(failure.what(),
              "step_000009 is there, and the manifest does not list its step; mend it");
    }
  }
}

TEST_F(Format2, RefusesAManifestThatIsNone) {
  const std::vector<std::vector<Told>> ranks = {{{f32("x", {1}, {1})}}};
  const auto says = [&](const std::function<void(json&)>& damage, const std::string& what) {
    json manifest = manifest2(1);
    damage(manifest);
    refused(refusal(manifest, ranks), what);
  };
  says([](json& m) { m.erase("ranks"); }, "it has no 'ranks'");
  says([](json& m) { m["ranks"] = 5000; }, "ranks is 5000; expected the number of ranks");
  says([](json& m) { m["rnks"] = 1; }, "has a field 'rnks'; known: may_differ, mesh");
  says([](json& m) { m["steps"] = json::array(); }, "steps is []; expected a list of the steps");
  says([](json& m) { m["steps"] = {1, 1}; }, "lists a step twice");
  says([](json& m) { m["steps"] = {1.5}; }, "steps[0] is 1.5");
  says([](json& m) { m["producer"] = "me"; }, "producer is 'me'; expected an object with the name");
  says(
      [](json& m) {
        m["must_agree"] = {{"layers", 4}};
      },
      "must_agree.layers is 4; expected a text");
  says([](json& m) { m["mesh"] = {{{"axis", "tp"}, {"size", 2}}}; }, "a mesh of 2 ranks (tp)");
  says(
      [](json& m) {
        m["mesh"] = {{{"axis", "a"}, {"size", 1}}, {{"axis", "a"}, {"size", 1}}};
      },
      "has the axis 'a' twice");
  says(
      [](json& m) {
        m["mesh"] = json::array();
        for (int i = 0; i < 16; ++i)
          m["mesh"].push_back({{"axis", std::to_string(i)}, {"size", 4096}});
      },
      "and says that there are 1");
  says([](json& m) { m["sampled"] = std::string("a\x1b[2J"); }, "control characters");
  json wrong = manifest2(1);
  wrong["schema"] = "plumb-trace/9";
  EXPECT_NE(refusal(wrong, ranks).find("reads 'plumb-trace/1' and 'plumb-trace/2'"),
            std::string::npos);
}

TEST_F(Format2, RefusesWhatIsWronglySaidOfATensor) {
  const json shard = {{"axis", "rank"}, {"kind", "shard"}, {"dim", 0}};
  const auto of = [&](json says, const std::string& what) { refused(refusal_of(says), what); };
  of({{"ordr", 1}}, "says of 'x' it has a field 'ordr'; known: dims, format, from, id");
  of({{"order", 0}}, "order is 0; expected a whole number from 1");
  of({{"order", 1.5}}, "order is 1.5");
  of({{"format", "fp12"}}, "format is 'fp12'; expected a format: fp32");
  of({{"role", "weight"}}, "role is 'weight'; expected 'value'");
  of({{"shape", {4, 2}}}, "a whole of 4 x 2, and the file holds 2 x 2: add how it lies");
  of({{"placements", {shard}}}, "not the shape of the whole: add 'shape'");
  of({{"shape", {4, 2}}, {"placements", {shard}}},
     "a shard of 4 x 2 of 4 x 2, and the file holds 2 x 2");
  of({{"shape", {2, 2}}, {"placements", {shard}}, {"dims", "a b"}}, "in more than one way");
  of({{"shape", {2, 2}}, {"placements", {{{"axis", "tp"}, {"kind", "replicate"}}}}},
     "no axis 'tp' in the mesh (rank), as the manifest has no 'mesh'");
  of({{"shape", {2, 2}}, {"placements", {{{"axis", "rank"}, {"kind", "shrd"}}}}},
     "placements[0].kind is 'shrd'; expected 'shard', 'replicate' or 'partial'");
  of({{"shape", {2, 2}}, {"placements", {{{"axis", "rank"}, {"kind", "shard"}}}}}, "of no dim");
  of({{"shape", {2, 2}}, {"placements", {{{"axis", "rank"}, {"kind", "partial"}, {"dim", 0}}}}},
     "more than 'axis' and 'kind' on 'rank'");
  of({{"shape", {2, 2}}, {"partition_spec", {nullptr, nullptr, "rank"}}}, "a shard of dimension 2");
  of({{"shape", {2, 2}}, {"partition_spec", {3}}},
     "partition_spec[0] is 3; expected null, an axis");
  of({{"shape", {2, 2}}, {"dims", "a"}}, "'a' for a tensor of 2 dimensions");
  const auto block = [](const json& global, const json& local, const json& size) {
    return json{{"shape", {4, 2}},
                {"offsets", {{{"global", global}, {"local", local}, {"size", size}}}}};
  };
  of(block({3, 0}, {0, 0}, {2, 2}), "a block of 2 x 2 that lies outside of the whole (4 x 2)");
  of(block({0, 0}, {1, 0}, {2, 2}), "lies outside");
  of(block({0}, {0}, {2}),
     "a block of 2, which has not as many dimensions as the whole (4 x 2) and the shard (2 x 2)");
  of(block({-1, 0}, {0, 0}, {2, 2}), "offsets[0].global[0] is -1; expected a whole number from 0");
  of(block({8589934592, 0}, {0, 0}, {8589934592, 2}), "lies outside");
  of({{"part", 2}, {"parts", 2}}, "part 2 of 2, counted from 0");
  of({{"shape", {8589934592, 8589934592}}, {"offsets", json::array()}},
     "a whole that is larger than any tensor");
  of({{"id", std::string("a\x1b[2J")}}, "control characters");
  const Told one{f32("x", {1}, {1}), {{"id", "y"}}}, same{f32("y", {1}, {1})};
  refused(refusal(manifest2(1), {{one, same}}),
          "the id 'y', which another tensor of this file has");
}

TEST_F(Format2, RefusesFilesOfTensorsThatAreNone) {
  write_trace2(folder_, manifest2(1), {{{f32("x", {1}, {1})}}});
  const auto put = [&](const std::string& bytes, const std::string& what) {
    write_bytes(rank_path(folder_, 0), bytes);
    try {
      read_trace(folder_);
      ADD_FAILURE() << what;
    } catch (const Failure& failure) {
      refused(failure.what(), what);
    }
  };
  put("", "is cut short");
  put(with_header("[]", ""), "is not a JSON object");
  put(with_header(R"({"__metadata__": {"x": 1}})", ""), "no object of texts");
  put(with_header(R"({"__metadata__": []})", ""), "no object of texts");
  put(with_header(R"({"__metadata__": {"gone": "{}"}})", ""), "holds no tensor of that name");
  const std::string x = R"("x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})";
  put(with_header("{" + x + R"(, "__metadata__": {"x": "no json"}})", "abcd"),
      "is not a JSON object");
  put(with_header("{" + x + "}", "abcdefgh"), "bytes that no tensor owns");
  put(with_header("{" + x + R"(, "y": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
                  "abcdefgh"),
      "bytes that no tensor owns, or that several do");
  put(with_header("{" + x + R"(, "y": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
                  "abcdefgh"),
      "bytes that no tensor owns, or that several do");
  put(with_header(R"({"x": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}})", "abcdefgh"),
      "is of type C64");
  put(with_header(R"({"x": {"dtype": "F32", "shape": [4294967296, 4294967296, 4294967296], )"
                  R"("data_offsets": [0, 4]}})",
                  "abcd"),
      "and has 4 bytes of them");
  put(with_header(R"({"x": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}})",
                  bytes_of<std::int64_t>({(std::int64_t(1) << 40) + 1})),
      "which FP32 does not have");
  put(with_header(R"({"x": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}})",
                  bytes_of<double>({1e300})),
      "beyond FP32's largest");
  fs::remove(rank_path(folder_, 0));
  fs::create_symlink("/dev/zero", rank_path(folder_, 0));
  EXPECT_THROW(read_trace(folder_), Failure);
}

// Bytes that were turned, lost or doubled anywhere, and numbers and words in the JSON that were replaced:
// a trace or one sentence, and nothing else.
TEST_F(Format2, DamagedAnywhereIsATraceOrASentence) {
  const json manifest = on_mesh(manifest2(4));
  auto ranks = columns(by_placements);
  ranks[0].push_back({{"ids", "I64", {2, 2}, bytes_of<std::int64_t>({1, 2, 3, 4})},
                      {{"dims", "t[tp] 1"}, {"shape", {4, 2}}, {"from", {"x"}}, {"order", 7}}});
  ranks[1].push_back({f32("y", {2}, {1, 2}),
                      {{"shape", {5}},
                       {"offsets", {{{"global", {3}}, {"local", {0}}, {"size", {2}}}}},
                       {"part", 1},
                       {"parts", 3}}});
  write_trace2(folder_, manifest, ranks);
  const std::vector<std::string> words = {
      "0",      "-1",  "8589934592", "18446744073709551615", "null", "[]", "{}",
      "\"tp\"", "1e9", "2.5",        "[[[[[[[[]]]]]]]]",     "true"};
  std::mt19937 random(1);
  int refused = 0, read = 0;
  const int draws = effort(2000);
  for (int i = 0; i < draws; ++i) {
    const fs::path file =
        random() % 4 == 0 ? folder_ / "manifest.json" : rank_path(folder_, random() % 4);
    const std::string sound = text_of(file);
    std::string bytes = sound;
    const std::size_t at = random() % bytes.size();
    if (const std::size_t how = random() % 5; how == 0) {
      bytes.resize(at);
    } else if (how == 1) {
      bytes.insert(at, bytes.substr(at / 2, random() % 40));
    } else if (how == 2) {
      bytes[at] = static_cast<char>(random());
    } else {  // a number of the JSON; the length of the header stays true
      const std::size_t digit = bytes.find_first_of("0123456789", std::min(at, bytes.size() - 1));
      if (digit == bytes.npos) continue;
      const std::string& word = words[random() % words.size()];
      bytes.replace(digit, 1, word);
      if (file.extension() == ".safetensors" && digit >= 8) {
        std::uint64_t length = 0;
        std::memcpy(&length, bytes.data(), 8);
        length += word.size() - 1;
        std::memcpy(bytes.data(), &length, 8);
      }
    }
    write_bytes(file, bytes);
    try {
      (void)merge(read_trace(folder_));
      ++read;
    } catch (const Failure& failure) {
      EXPECT_EQ(std::string(failure.what()).find('\n'), std::string::npos);
      ++refused;
    }
    write_bytes(file, sound);
  }
  EXPECT_GT(refused, draws / 5);
  EXPECT_GT(read, draws / 100);
}

// The schemas are the list of fields; the page explains each.
TEST(Format2Page, HasARowForEachFieldOfTheSchemas) {
  const std::string page = text_of(PLUMB_SOURCE_DIR "/docs/trace-format.md");
  std::set<std::string> fields;
  const std::function<void(const json&)> look = [&](const json& form) {
    const json properties = form.value("properties", json::object());
    for (const auto& [name, part] : properties.items()) {
      fields.insert(name);
      look(part);
    }
    if (form.contains("items")) look(form.at("items"));
  };
  for (const char* schema : {"trace", "tensor", "overrides"}) {
    look(json::parse(
        text_of(PLUMB_SOURCE_DIR "/trace/store/" + std::string(schema) + ".schema.json")));
  }
  EXPECT_GT(fields.size(), 30U);
  for (const std::string& field : fields) {
    EXPECT_NE(page.find("`" + field + "`"), page.npos) << field;
  }
}

}  // namespace
}  // namespace plumb::format2_test

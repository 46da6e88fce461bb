// Does a trace come back from disk as it was, and is every damaged or lying file refused?
#include "trace/store/store.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"
#include "trace/report/report.hpp"
#include "trace/store/safetensors.hpp"

namespace plumb::store_test {
namespace {

namespace fs = std::filesystem;

class Store : public testing::Test {
 protected:
  Store() {
    folder_ = fs::temp_directory_path() / ("plumb-store-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Store() override { fs::remove_all(folder_); }

  static Trace made(const char* layout) {
    const Training run = small_run("llama", "bf16", layout);
    return train_step(run, leaves_of_run(run), Joints(), find_backend("reference"));
  }
  static std::string bytes(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  static void put(const fs::path& file, const std::string& content) {
    std::ofstream(file, std::ios::binary) << content;
  }

  fs::path folder_;
};

TEST_F(Store, BringsEveryBitBack) {
  const Trace trace = made("dp2,tp2,sp");
  write_trace(trace, folder_ / "t");

  const Trace back = read_trace(folder_ / "t");

  ASSERT_EQ(back.ranks.size(), trace.ranks.size());
  EXPECT_EQ(back.manifest.settings, trace.manifest.settings);
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    EXPECT_EQ(back.ranks[r].ran, trace.ranks[r].ran);
    ASSERT_EQ(back.ranks[r].shards.size(), trace.ranks[r].shards.size());
    for (const auto& [id, shard] : trace.ranks[r].shards) {
      const Shard& other = back.ranks[r].shards.at(id);
      ASSERT_EQ(other.values, shard.values) << id;
      ASSERT_EQ(other.placement, shard.placement) << id;
      ASSERT_EQ(other.format, shard.format) << id;
    }
  }
  EXPECT_TRUE(touched(*trace.graph, *back.graph).empty());
}

// A run that did not round has such numbers; a file must not round for it.
TEST_F(Store, BringsBackNumbersThatTheirFormatDoesNotHave) {
  std::map<std::string, Shard> shards;
  shards["rounded"] = {whole(1, 2), Tensor(1, 2, 1.5F), bf16};
  shards["unrounded"] = {whole(1, 2), Tensor(1, 2, 1.00001F), bf16};
  write_shards(folder_ / "few", shards);

  const auto back = read_shards(folder_ / "few");

  for (const auto& [id, shard] : shards) {
    EXPECT_EQ(back.at(id).values, shard.values) << id;
    EXPECT_EQ(back.at(id).format, bf16) << id;
  }
}

// Writes a trace whose graph `damage` has changed, and returns what is said when it is read.
template <class Damage>
std::string said_of(const Trace& sound, const fs::path& folder, const Damage& damage) {
  Trace trace = sound;
  damage(*trace.graph);
  fs::remove_all(folder);
  write_trace(trace, folder);
  try {
    read_trace(folder);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST_F(Store, RefusesGraphsThatCannotBeRun) {
  const Trace trace = made("tp2");
  const auto says = [&](const auto& damage, const std::string& what) {
    const std::string said = said_of(trace, folder_ / "t", damage);
    EXPECT_NE(said.find("graph.json"), said.npos) << said;
    EXPECT_NE(said.find(what), said.npos) << said;
  };
  says([](Graph& g) { g.nodes[2].op = "gem"; }, "'gem' is no operation of the catalogue");
  says([](Graph& g) { g.nodes[2].attributes["colour"] = 1; }, "has no attribute 'colour'");
  says([](Graph& g) { g.nodes[2].inputs.clear(); }, "it has 0 inputs, and takes ");
  says([](Graph& g) { g.nodes[2].outputs.push_back("more"); }, "it makes 2 tensors");
  says([](Graph& g) { g.nodes[2].inputs[0] = "nowhere"; },
       "reads 'nowhere', which no node makes and no rank has");
}

TEST_F(Store, BringsBackHowTermsLieOnRanks) {
  Trace trace = made("tp2");
  const TokenSharding deals[] = {
      {4, 16}, {4, 16, 0, true}, {1, 0, 0, false, 2}, {4, 16, 0, true, 2}};
  for (std::size_t i = 0; i < std::size(deals); ++i) trace.graph->nodes[i].how.tokens = deals[i];
  trace.graph->nodes[4].how.by_chance = true;
  trace.graph->nodes[5].how.any_rank_order = true;
  write_trace(trace, folder_ / "t");
  const Trace back = read_trace(folder_ / "t");
  for (std::size_t i = 0; i < std::size(deals) + 2; ++i) {
    EXPECT_EQ(back.graph->nodes[i].how, trace.graph->nodes[i].how) << i;
  }
  std::string graph = bytes(folder_ / "t" / "graph.json");
  graph.replace(graph.find("any_rank_order"), 14, "any_rank_other");
  put(folder_ / "t" / "graph.json", graph);
  EXPECT_THROW(read_trace(folder_ / "t"), Failure);
}

TEST_F(Store, RefusesPartsThatAreNone) {
  const Evaluation none[] = {{0}, {4, fp32, fp32, {4, 0}}, {4, fp32, fp32, {4, 12}}};
  for (const Evaluation& how : none) {
    Trace trace = made("tp2");
    trace.graph->nodes[0].how = how;
    write_trace(trace, folder_ / "t");
    EXPECT_THROW(read_trace(folder_ / "t"), Failure) << how.parts << " " << how.tokens.sequence;
    fs::remove_all(folder_ / "t");
  }
}

TEST_F(Store, GivesTheSameVerdictBytesAsMemory) {
  const Trace reference = made("dp1,tp1");
  const Trace candidate = made("tp2");
  write_trace(reference, folder_ / "r");
  write_trace(candidate, folder_ / "c");
  EXPECT_EQ(json_lines(check(reference, candidate, {})),
            json_lines(check(read_trace(folder_ / "r"), read_trace(folder_ / "c"), {})));
}

TEST_F(Store, RefusesToOverwriteAndReportsAnUnfinishedTrace) {
  write_trace(made("tp2"), folder_ / "t");
  EXPECT_THROW(write_trace(made("tp2"), folder_ / "t"), Failure);
  fs::remove(folder_ / "t" / "manifest.json");
  EXPECT_THROW(read_trace(folder_ / "t"), Failure);
  EXPECT_THROW(read_trace(folder_ / "nothing"), Failure);
}

TEST_F(Store, RefusesEveryTruncation) {
  const Trace trace = made("tp2");
  std::map<std::string, Shard> few;
  for (const auto& [id, shard] : trace.ranks[0].shards) {
    if (few.size() < 3) few.emplace(id, shard);
  }
  const fs::path file = folder_ / "x.safetensors";
  write_shards(file, few);
  const std::string all = bytes(file);
  for (std::size_t n = 0; n < all.size(); n += 1 + all.size() / 500) {
    put(file, all.substr(0, n));
    ASSERT_THROW(read_shards(file), Failure) << n << " of " << all.size() << " bytes";
  }
}

TEST_F(Store, ARecordGoesThroughBytesUnchangedOrIsRefused) {
  const RankRecord record = made("tp2").ranks[1];
  const std::string bytes = bytes_of(record);
  const RankRecord back = record_from(bytes);
  EXPECT_EQ(back.ran, record.ran);
  ASSERT_EQ(back.shards.size(), record.shards.size());
  for (const auto& [id, shard] : record.shards) {
    EXPECT_EQ(back.shards.at(id).values, shard.values) << id;
    EXPECT_EQ(back.shards.at(id).placement, shard.placement) << id;
  }
  for (const std::size_t n : {std::size_t(0), std::size_t(7), bytes.size() / 2, bytes.size() - 1}) {
    EXPECT_THROW(record_from(bytes.substr(0, n)), Failure) << n;
  }
}

TEST_F(Store, SurvivesRandomDamage) {  // a flipped byte is refused or yields shards, never a crash
  const Trace trace = made("tp2");
  std::map<std::string, Shard> few(trace.ranks[0].shards.begin(),
                                   std::next(trace.ranks[0].shards.begin(), 2));
  const fs::path file = folder_ / "x.safetensors";
  write_shards(file, few);
  const std::string all = bytes(file);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = all;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    put(file, damaged);
    try {
      Trace hostile;
      hostile.ranks.resize(1);
      hostile.ranks[0].shards = read_shards(file);
      merge(hostile);
    } catch (const Failure&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

// What it finds in its way is not its own.
TEST_F(Store, RemovesNothingThatItDidNotMake) {
  fs::create_directories(folder_ / "t.partial");
  put(folder_ / "t.partial" / "thesis.txt", "precious");
  write_trace(made("tp2"), folder_ / "t");
  EXPECT_EQ(bytes(folder_ / "t.partial" / "thesis.txt"), "precious");

  const fs::path same_name =
      folder_.string() + "/u.partial-" + std::to_string(getpid());  // an earlier process's
  fs::create_directories(same_name);
  EXPECT_THROW(write_trace(made("tp2"), folder_ / "u"), Failure);
  EXPECT_TRUE(fs::exists(same_name));
  EXPECT_FALSE(fs::exists(folder_ / "u"));
}

TEST_F(Store, SaysBeforehandWhereNoTraceCanBeWritten) {
  put(folder_ / "file", "");
  fs::create_directory_symlink(folder_ / "loop", folder_ / "loop");
  EXPECT_THROW(check_new(folder_ / "file"), Failure);
  EXPECT_THROW(check_new(folder_ / "file" / "below" / "it"), Failure);
  EXPECT_THROW(check_new(folder_ / "loop"), Failure);
  EXPECT_NO_THROW(check_new(folder_ / "new" / "below" / "it"));
  EXPECT_NO_THROW(check_new("relative"));
  write_trace(made("tp2"), folder_ / "slash/");
  EXPECT_TRUE(fs::exists(folder_ / "slash" / "manifest.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 3);
}

void expect_refused(const fs::path& file, const std::string& header, std::size_t data) {
  std::uint64_t length = header.size();
  std::string content(8, '\0');
  std::memcpy(content.data(), &length, 8);
  std::ofstream(file, std::ios::binary) << content << header << std::string(data, '\0');
  EXPECT_THROW(read_shards(file), Failure) << header;
}

TEST_F(Store, RefusesLyingHeaders) {
  const fs::path f = folder_ / "x.safetensors";
  expect_refused(f, R"({"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,15]}})", 15);
  expect_refused(f, R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                 0);
  expect_refused(f, R"({"x":{"dtype":"F32","shape":[-1,2],"data_offsets":[0,8]}})", 8);
  expect_refused(f, R"({"x":{"dtype":"F32","shape":[1,2],"data_offsets":[8,0]}})", 8);
  expect_refused(f, R"({"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})", 9);
  expect_refused(f, R"({"x":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}})", 8);
  expect_refused(f, R"({"x":7})", 0);
  expect_refused(f, R"([1])", 0);
  expect_refused(f, "{", 0);
  expect_refused(f, R"({"x":{"dtype":"F32","shape":[1,2,1],"data_offsets":[0,8]}})", 8);
  expect_refused(f, R"({"x":{"dtype":"F32","shape":[1,2.5],"data_offsets":[0,8]}})", 8);
  expect_refused(f, R"({"\u001b[2J":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})", 8);
  const auto placed = [](const std::string& part) {
    return R"({"__metadata__":{"x":"{\"global_shape\":[1,2],\"pieces\":[[0,0,0,0,1,2]],)" + part +
           R"(,\"format\":\"fp32\"}"},"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  };
  expect_refused(f, placed(R"(\"part\":3,\"parts\":3)"), 8);
  expect_refused(f, placed(R"(\"part\":0,\"parts\":4294967297)"), 8);
}

TEST_F(Store, RefusesAPipeWithoutWaitingForIt) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(read_shards(pipe), Failure);
  EXPECT_THROW(read_shards(folder_), Failure);
}

// Each damage to a manifest or a promise is one sentence that names the file.
TEST_F(Store, RefusesWordsAndNumbersThatNoTraceHas) {
  const auto refused = [&](const fs::path& file, const std::string& from, const std::string& to) {
    const fs::path t = folder_ / "t";
    fs::remove_all(t);
    write_trace(made("tp2"), t);
    std::string text = bytes(t / file);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    put(t / file, text.replace(at, from.size(), to));
    try {
      read_trace(t);
      FAIL() << file << ": " << to;
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find((t / file).string()), std::string::npos)
          << failure.what();
    }
  };
  refused("manifest.json", "\"world_size\": 2", "\"world_size\": 2.5");
  refused("manifest.json", "\"world_size\": 2", "\"world_size\": 4294967298");
  refused("manifest.json", "\"step\": 1", "\"step\": \"one\"");
  refused("manifest.json", "\"producer\": \"plumb\"", "\"producer\": \"\\u001b[2Jplumb\"");
  refused("manifest.json", "\"producer\": \"plumb\"", "\"producer\": \"\\u009b2Jplumb\"");
  refused("graph.json", "\"phase\": 0", "\"phase\": 9");
  refused("graph.json", "\"bf16\"", "\"fp4\"");
  refused("graph.json", "\"op\"", "\"up\"");
  refused("step_000001/ran.json", "\"bf16\"", "\"fp4\"");
}

TEST_F(Store, HasNoFilesOfMoreRanksOrOtherSteps) {
  const fs::path t = folder_ / "more";
  write_trace(made("tp2"), t);
  ASSERT_NO_THROW(read_trace(t));
  const fs::path last = t / "step_000001" / "rank_00001.safetensors";
  for (const fs::path& more : {t / "step_000001" / "rank_00002.safetensors", t / "step_000007"}) {
    fs::copy(more.extension().empty() ? last.parent_path() : last, more);
    try {
      read_trace(t);
      ADD_FAILURE() << more;
    } catch (const Failure& failure) {
      EXPECT_TRUE(std::string(failure.what()).starts_with(more.string() + " is there"))
          << failure.what();
    }
    fs::remove_all(more);
  }
}

TEST_F(Store, ARunOfTracesIsKnownByItsSteps) {
  const fs::path run = folder_ / "run";
  fs::create_directories(run / "step_000007");
  EXPECT_TRUE(traces_of(run).empty());  // a trace's own values look like this
  fs::create_directories(run / "step_12");
  for (const char* name : {"step_000007", "step_12"}) std::ofstream(run / name / "manifest.json");
  const auto traces = traces_of(run);
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_EQ(traces.at(7), trace_of_step(run, 7));
  EXPECT_THROW(read_trace(run), Failure);
}

// Bytes of another process are no more to be trusted than a file.
TEST(RecordBytes, OfAnotherKindAreAFailure) {
  const std::string shards = bytes_of(RankRecord()).substr(3);
  for (const char* ran : {R"({"a": [1, 2]})", R"({"a": {}})", R"({"a": [1, "fp32"]})", "[]"}) {
    EXPECT_THROW((void)record_from(std::string(ran) + "\n" + shards), Failure) << ran;
  }
  EXPECT_NO_THROW((void)record_from("{}\n" + shards));
}

}  // namespace
}  // namespace plumb::store_test

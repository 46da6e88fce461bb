// Is a trace of plumb's own, written as any program would, read back with its values, its formats and what its
// promise says of each tensor, and judged by its own twins?
#include "trace/store/write_format2.hpp"

#include <unistd.h>

#include <filesystem>

#include "tests/support/twin_traces.hpp"
#include "trace/report/report.hpp"
#include "trace/store/store.hpp"

namespace plumb::write_format2_test {
namespace {

namespace fs = std::filesystem;

class WriteFormat2 : public testing::Test {
 protected:
  WriteFormat2() : folder_(fs::temp_directory_path() / ("plumb-two-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~WriteFormat2() override { fs::remove_all(folder_); }

  Trace written(Trace trace, const std::string& name, int twin = 0) {
    trace.about = said_by(*trace.graph);
    write_format2(trace, folder_ / name, twin);
    return read_trace(folder_ / name);
  }
  fs::path folder_;
};

Trace step_of(const Training& run) {
  return train_step(run, leaves_of_run(run), Joints(), find_backend("reference"));
}

void expect_the_same(const Trace& trace, const Trace& read, const std::string& what) {
  const Merged was = merge(trace), is = merge(read);
  ASSERT_EQ(was.values.size(), is.values.size()) << what;
  EXPECT_EQ(is.findings.size(), was.findings.size()) << what;
  for (const auto& [id, tensor] : was.values) {
    ASSERT_TRUE(is.values.contains(id)) << what << " " << id;
    EXPECT_EQ(is.values.at(id)->rows, tensor->rows) << what << " " << id;
    EXPECT_EQ(is.values.at(id)->values, tensor->values) << what << " " << id;
    EXPECT_EQ(is.formats.at(id), was.formats.at(id)) << what << " " << id;
  }
}

TEST_F(WriteFormat2, IsReadBackWithItsValuesAndFormatsInEveryLayout) {
  for (const char* layout : {"dp1,tp1", "dp2,tp2,sp", "cp2,tp2", "pp2,zero1", "dp2,zero3"}) {
    const Trace trace = step_of(small_run("llama", "bf16", layout));
    expect_the_same(trace, written(trace, layout), layout);
  }
  for (const char* recipe : {"fp8-delayed", "mxfp8", "fp16"}) {
    const Trace trace = step_of(small_run("gpt", recipe, "tp2"));
    expect_the_same(trace, written(trace, recipe), recipe);
  }
}

TEST_F(WriteFormat2, SaysOfEachTensorWhatItsPromiseSays) {
  for (const char* family : {"gpt", "llama-moe"}) {
    const Trace trace = step_of(small_run(family, "bf16", "dp2,tp2,sp"));
    const Trace read = written(trace, family);
    std::size_t nodes = 0, decisions = 0;
    for (const Node& node : trace.graph->nodes) {
      for (const std::string& id : node.outputs) {
        if (!read.about.contains(id)) continue;
        const About& about = read.about.at(id);
        EXPECT_EQ(about.from, node.inputs) << id;
        EXPECT_EQ(about.phase, node.phase) << id;
        ASSERT_TRUE(about.order) << id;
        if (about.made_by) {
          EXPECT_EQ(about.made_by->op, node.op) << id;
          EXPECT_EQ(about.made_by->parts, node.how.parts) << id;
        }
        decisions += about.role == Role::decision ? 1 : 0;
        ++nodes;
      }
    }
    EXPECT_GT(nodes, 200U) << family;
    EXPECT_EQ(decisions > 0, std::string(family) == "llama-moe");
    for (const std::string& id : leaves_of(*trace.graph)) {
      EXPECT_EQ(read.about.at(id).role, Role::given) << id;
    }
    EXPECT_EQ(read.about.at("m1/layers.0.norm1/out").micro_batch, 1);
    EXPECT_FALSE(read.graph);
  }
}

TEST_F(WriteFormat2, SetsTheLayoutAndTheNumberOfATwinApart) {
  const Trace read = written(step_of(small_run("gpt", "bf16", "tp2")), "twin", 3);
  EXPECT_FALSE(read.manifest.settings.contains("layout"));
  EXPECT_EQ(read.manifest.may_differ.at("layout"), "dp1,tp2");
  EXPECT_EQ(read.manifest.may_differ.at("twin"), "3");
  EXPECT_EQ(read.manifest.settings.at("recipe"), "bf16");
  EXPECT_EQ(read.manifest.world_size, 2);
}

TEST_F(WriteFormat2, IsRefusedWhereSomethingIs) {
  const Trace trace = step_of(small_run("gpt", "bf16", "tp2"));
  write_format2(trace, folder_ / "there");
  EXPECT_THROW(write_format2(trace, folder_ / "there"), Failure);
}

class Judged : public WithTwinTraces {};

// Twins and replay by what is said in place of the promise.
TEST_F(Judged, ByItsTwinsAndReplayAsWrittenAHealthyRunPassesAndAWrongOneDoesNot) {
  const fs::path folder = fs::temp_directory_path() / ("plumb-told-" + std::to_string(getpid()));
  fs::remove_all(folder);
  reference_.about = said_by(one_);
  candidate_.about = said_by(many_);
  write_format2(reference_, folder / "reference");
  write_format2(candidate_, folder / "good");
  change("m0/layers.1.attn.proj/out", [](Tensor& x) { scale(x, 1.02F); });
  write_format2(candidate_, folder / "bad");
  options_.given.clear();
  for (std::size_t k = 0; k < twins_.size(); ++k) {
    write_format2(twins_[k], folder / ("twin" + std::to_string(k)), static_cast<int>(k) + 1);
    twins_[k] = read_trace(folder / ("twin" + std::to_string(k)));
    options_.given.push_back(&twins_[k]);
  }
  options_.rules = {"twins", "replay"};
  const Trace reference = read_trace(folder / "reference");
  const Verdict good = check(reference, read_trace(folder / "good"), options_);
  EXPECT_EQ(good.exit_code(), 0) << text_report(good);
  const Verdict bad = check(reference, read_trace(folder / "bad"), options_);
  EXPECT_EQ(bad.exit_code(), 1);
  EXPECT_EQ(bad.blamed, "m0/layers.1.attn.proj/out");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace plumb::write_format2_test

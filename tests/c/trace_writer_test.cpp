// Does a program that knows one header write what the reader reads, bit by bit?
#include "c/plumb_trace.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/merge.hpp"
#include "trace/store/store.hpp"

namespace {
int syncs = 0;
}

// In the place of the C library's, for this whole program.
extern "C" int fsync(int file) {
  ++syncs;
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace plumb::trace_writer_test {
namespace {

namespace fs = std::filesystem;
using plumb_trace::RankFile;
using plumb_trace::Says;

std::vector<float> values_of(const trace::Merged& merged, const std::string& id) {
  const auto& values = merged.values.at(id)->values;
  return {values.begin(), values.end()};
}

class TraceWriter : public testing::Test {
 protected:
  ~TraceWriter() override { fs::remove_all(folder_); }
  const fs::path folder_ = fs::temp_directory_path() / ("plumb-writer-" + std::to_string(getpid()));
};

TEST_F(TraceWriter, WritesShardsThatMergeToTheWhole) {
  plumb_trace::write_manifest(folder_, {"my \"\\trainer\"",
                                        4,
                                        {3},
                                        {{"dp", 2}, {"tp", 2}},
                                        {{"model", "x"}},
                                        {{"layout", "dp2,tp2"}},
                                        "1.0"});
  std::vector<float> whole(4 * 6);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i) / 7;
  const std::uint8_t mask[] = {1, 0, 1};
  const std::uint16_t ones[] = {0x3f80, 0x3f80};  // BF16
  for (int rank = 0; rank < 4; ++rank) {
    const int tp = rank % 2;
    RankFile file;
    file.add("mask", "BOOL", {3}, mask, Says().shape({3}).replicate("dp").replicate("tp").order(1));
    file.add("layers.0/out", "F32", {2, 6}, whole.data() + 12 * tp,
             Says().shape({4, 6}).replicate("dp").shard("tp", 0).order(2).from({"mask"}).phase(
                 "forward"));
    file.add("sum", "BF16", {2}, ones, Says().shape({2}).replicate("dp").partial("tp").order(3));
    file.write(folder_, 3, rank);
  }
  const trace::Trace read = trace::read_trace(folder_);
  EXPECT_EQ(read.manifest.step, 3);
  const trace::Merged merged = trace::merge(read);
  EXPECT_TRUE(merged.findings.empty());
  EXPECT_EQ(values_of(merged, "layers.0/out"), whole);
  EXPECT_EQ(values_of(merged, "sum"), (std::vector<float>{2, 2}));
  EXPECT_EQ(values_of(merged, "mask"), (std::vector<float>{1, 0, 1}));
}

TEST_F(TraceWriter, SyncsEachFileItsNameAndTheFoldersOnTheWay) {
  const float value = 1;
  RankFile file;
  file.add("x", "F32", {1}, &value);
  syncs = 0;
  file.write(folder_, 1, 0);
  EXPECT_EQ(syncs, 4) << "two folders, the file, its name";
}

TEST_F(TraceWriter, RefusesATypeThatNobodyReads) {
  RankFile file;
  const float one = 1;
  EXPECT_THROW(file.add("x", "FP32", {1}, &one), std::invalid_argument);
  EXPECT_THROW(file.write("/dev/null", 1, 0), std::exception);
}

}  // namespace
}  // namespace plumb::trace_writer_test

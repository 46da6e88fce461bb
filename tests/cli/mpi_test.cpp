// Does an MPI job write, bit by bit, the trace that threads write? Do ranks with a GPU each?
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

#include "tests/cli/program.hpp"
#include "tests/support/rooms.hpp"
#include "world/world.hpp"

namespace plumb::mpi_test {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry, folder)] = content_of(entry);
  }
  return files;
}

Said mpirun(int ranks, const std::string& arguments) {
  const std::string command =
      "mpirun --allow-run-as-root --oversubscribe -n " + std::to_string(ranks) + " ";
  return plumb(arguments, command);
}

class MpiJob : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-mpi-"); }
};
class Mpi : public MpiJob,
            public testing::WithParamInterface<std::tuple<int, const char*, const char*>> {};

TEST_P(Mpi, WritesTheTraceOfThreads) {
  const auto [ranks, layout, recipe] = GetParam();
  const std::string train =
      "train --family llama --kv-heads 4 --micro-batches 4 --layers 2 "
      "--width 64 --heads 8 --hidden 64 --sequence 32 --layout " +
      std::string(layout) + " --recipe " + recipe;
  const std::string name = std::to_string(ranks) + layout;
  const Said mpi = mpirun(ranks, train + " --world mpi -o " + at("mpi" + name));
  if (mpi.out.find("built without MPI") != std::string::npos || mpi.code == 127) {
    GTEST_SKIP() << "no MPI here: install libopenmpi-dev and openmpi-bin, and build again";
  }
  ASSERT_EQ(mpi.code, 0) << mpi.out;
  ASSERT_EQ(plumb(train + " -o " + at("threads" + name)).code, 0);
  const auto files = files_of(at("threads" + name));
  EXPECT_EQ(files.size(), static_cast<std::size_t>(ranks) + 3);
  EXPECT_EQ(files_of(at("mpi" + name)), files);
}

TEST_F(MpiJob, OtherNumbersOfRanksAreRefusedInOneSentence) {
  const Said said = mpirun(2, "train --layout dp2,tp2 --world mpi -o " + at("none"));
  if (said.out.find("built without MPI") != std::string::npos || said.code == 127) {
    GTEST_SKIP() << "no MPI here: install libopenmpi-dev and openmpi-bin, and build again";
  }
  EXPECT_NE(said.code, 0);
  EXPECT_NE(said.out.find("mpirun -n 4"), std::string::npos) << said.out;
}

// Also where it was stopped in between, and by as many ranks as there is work for, and more.
TEST_F(MpiJob, SharesTheWorkOfAnExperimentAndWritesTheFileOfOneProcess) {
  const std::string words = "experiment soundness --only '^(add|unscale|scale) ' -o ";
  ASSERT_EQ(plumb(words + at("alone")).code, 0);
  const auto rows = [](const std::string& folder) {
    return content_of(at(folder) + "/soundness.csv");
  };
  for (const int ranks : {2, 3, 20}) {
    const std::string folder = "shared" + std::to_string(ranks);
    const std::string shared = words + at(folder) + " --world mpi";
    const Said first = mpirun(ranks, shared + " --minutes 0.001");
    if (first.out.find("built without MPI") != std::string::npos || first.code == 127) {
      GTEST_SKIP() << "no MPI here: install libopenmpi-dev and openmpi-bin, and build again";
    }
    ASSERT_EQ(first.code, 0) << first.out;
    const Said rest = mpirun(ranks, shared);
    ASSERT_EQ(rest.code, 0) << rest.out;
    EXPECT_NE(rest.out.find("complete for --only"), std::string::npos) << rest.out;
    EXPECT_EQ(rows(folder), rows("alone")) << ranks << " ranks";
  }
  const std::string whole = rows("shared3");
  EXPECT_EQ(mpirun(3, words + at("shared3") + " --world mpi").code, 0);
  EXPECT_EQ(rows("shared3"), whole) << "nothing was left";
}

class NcclJob : public MpiJob {
 protected:
  static constexpr const char* train =
      "train --layers 2 --width 32 --heads 4 --hidden 64 --sequence 16 ";
};

TEST_F(NcclJob, RanksWithoutAGpuAreRefusedInOneSentence) {
  const Said said =
      plumb(std::string(train) + "--layout dp64 --micro-batches 64 --world nccl -o " + at("many"));
  EXPECT_EQ(said.code, 2);
  EXPECT_NE(said.out.find("--world threads"), std::string::npos) << said.out;
}

// One GPU suffices for one rank.
TEST_F(NcclJob, WritesTheTraceOfThreads) {
  const Said nccl = plumb(std::string(train) + "--layout dp1 --world nccl -o " + at("nccl"));
  if (const std::string reason = why_no_nccl(); !reason.empty()) {
    EXPECT_EQ(nccl.code, 2) << nccl.out;
    GTEST_SKIP() << reason;
  }
  ASSERT_EQ(nccl.code, 0) << nccl.out;
  ASSERT_EQ(plumb(std::string(train) + "--layout dp1 -o " + at("one")).code, 0);
  EXPECT_EQ(files_of(at("nccl")), files_of(at("one")));
}

// The first process writes a card with the job's all-reduce; check and bound take it.
TEST_F(MpiJob, HasACollectiveThatIsProbed) {
  const std::string words = "calibrate reference --longest 16 --widest 8 --collective mpi";
  const Said said = mpirun(4, words + " --elements 64 -o " + at("card.json") + " 2>/dev/null");
  if (said.out.empty() || said.code == 127) GTEST_SKIP() << "no MPI here, or built without it";
  ASSERT_EQ(said.code, 0) << said.out;
  EXPECT_NE(said.out.find("  collective: "), std::string::npos) << said.out;
  EXPECT_NE(said.out.find(" of 4 ranks, fp32"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("measured: all-reduce of 64 numbers by 4 ranks: "), std::string::npos);
  EXPECT_NE(said.out.find("all_reduce held against 256 elements: 0 outside"), std::string::npos);
  EXPECT_EQ(said.out.find("order_gemm"), said.out.rfind("order_gemm")) << "one prints";
  const Said told = plumb("machines " + at("card.json"));
  EXPECT_EQ(told.code, 0);
  EXPECT_NE(told.out.find(" of 4 ranks, fp32"), std::string::npos) << told.out;
  const Said alone = mpirun(1, words + " 2>&1");
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.out.find("one rank adds nothing up"), std::string::npos) << alone.out;
}

// Algorithm 4 of Open MPI is a ring, 3 recursive doubling: of four ranks a tree.
TEST_F(MpiJob, TellsARingFromATree) {
  if (std::system("mpirun --version 2>/dev/null | grep -q 'Open MPI'") != 0) {
    GTEST_SKIP() << "Open MPI alone is asked for an algorithm by name, and it is not here";
  }
  for (const auto& [algorithm, name] : {std::pair{"4", "ring"}, {"3", "tree"}}) {
    const std::string by = std::string("OMPI_MCA_coll_tuned_use_dynamic_rules=1 ") +
                           "OMPI_MCA_coll_tuned_allreduce_algorithm=" + algorithm +
                           " mpirun --allow-run-as-root --oversubscribe -n 4 ";
    const Said said =
        plumb("calibrate reference --longest 8 --widest 8 --collective mpi --elements 256", by);
    if (said.out.find("built without MPI") != std::string::npos) GTEST_SKIP() << said.out;
    EXPECT_EQ(said.code, 0) << said.out;
    EXPECT_NE(said.out.find("collective: " + std::string(name) + " of 4 ranks, fp32"),
              std::string::npos)
        << said.out;
  }
}

INSTANTIATE_TEST_SUITE_P(On, Mpi,
                         testing::Values(std::tuple{2, "pp2,vpp1", "bf16"},
                                         std::tuple{2, "dp2,zero3", "fp8-current"},
                                         std::tuple{2, "cp2", "fp32"},
                                         std::tuple{4, "dp2,tp2,sp", "bf16"},
                                         std::tuple{4, "dp2,pp2,zero3,overlap:3", "bf16"},
                                         std::tuple{4, "cp2:ulysses,tp2", "mxfp8"},
                                         std::tuple{4, "pp2,dp2,zero2,recompute", "bf16"},
                                         std::tuple{8, "dp2,tp2,cp2,sp", "bf16"},
                                         std::tuple{8, "pp2,tp2,sp,dp2,zero1", "nvfp4"}),
                         [](const auto& of) {
                           std::string name;
                           for (const char c : std::string(std::get<1>(of.param))) {
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace plumb::mpi_test

// Does --replay-in-bubbles find what plumb replay finds of the same traces, on threads and over
// MPI, and change none of them?
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/cli/program.hpp"

namespace plumb::bubble_replay_test {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    files[fs::relative(entry.path(), folder)] = all.str();
  }
  return files;
}

// Lines of findings, without "step N:" or the indent.
std::multiset<std::string> findings_of(const std::string& text) {
  std::multiset<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" ratio ") == line.npos) continue;
    found.insert(line.substr(line.starts_with("step ") ? line.find(": ") + 2 : 2));
  }
  return found;
}

bool lacks_mpi(const Said& said) {
  return said.out.find("built without MPI") != said.out.npos || said.code == 127;
}

class BubbleReplay : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-bubbles-");
    EXPECT_EQ(plumb("train" + sizes + "--steps 3 --every-step -o " + at("reference")).code, 0);
  }
  // What plumb replay says of each step's trace.
  static std::multiset<std::string> by_replay(const std::string& run) {
    std::multiset<std::string> all;
    std::vector<fs::path> steps;
    for (const auto& entry : fs::directory_iterator(at(run))) steps.push_back(entry.path());
    for (const fs::path& step : steps) all.merge(findings_of(plumb("replay " + step.string()).out));
    return all;
  }
  static inline const std::string sizes =
      " --layers 4 --width 32 --heads 4 --hidden 64 --sequence 16 --micro-batches 4 ";
};

TEST_F(BubbleReplay, FindsNothingInAHealthyRunAndChangesNoFile) {
  for (const char* layout : {"pp2", "pp4", "pp2,vpp2", "pp2,dp2"}) {
    const std::string train = "train" + sizes + "--steps 3 --every-step --layout " + layout;
    const std::string name = std::string("healthy-") + layout;
    const Said with = plumb(train + " --replay-in-bubbles -o " + at(name));
    const Said without = plumb(train + " -o " + at(name + "-without"));
    EXPECT_EQ(with.code, 0) << with.out;
    EXPECT_NE(with.out.find("0 findings, 0 not judged"), std::string::npos) << with.out;
    EXPECT_EQ(without.code, 0) << without.out;
    EXPECT_EQ(files_of(at(name)), files_of(at(name + "-without"))) << layout;
    EXPECT_EQ(without.out.find("replay:"), std::string::npos);
  }
}

TEST_F(BubbleReplay, FindsOfPlantedBugsWhatReplayFinds) {
  for (const auto& [layout, bug] : {std::pair{"pp2", "tied-embedding-not-synced-across-pp"},
                                    std::pair{"pp2,dp2", "clip-coefficient-max-not-min"}}) {
    const std::string name = std::string("broken-") + layout;
    const Said said =
        plumb("train" + sizes + "--steps 3 --every-step --replay-in-bubbles --layout " + layout +
              " --bug " + bug + " -o " + at(name));
    EXPECT_EQ(said.code, 1) << said.out;
    EXPECT_FALSE(findings_of(said.out).empty()) << said.out;
    EXPECT_EQ(findings_of(said.out), by_replay(name)) << bug;
  }
}

TEST_F(BubbleReplay, OverMpiFindsTheSame) {
  const std::string train = "train --layout pp2 --resync " + at("reference") +
                            " --bug tied-embedding-not-synced-across-pp --replay-in-bubbles ";
  const Said mpi = plumb(train + "--world mpi -o " + at("mpi"),
                         "mpirun --allow-run-as-root --oversubscribe -n 2 ");
  if (lacks_mpi(mpi)) {
    GTEST_SKIP() << "no MPI here: install libopenmpi-dev and openmpi-bin, and build again";
  }
  const Said threads = plumb(train + "-o " + at("threads"));
  EXPECT_EQ(threads.code, 1) << threads.out;
  EXPECT_EQ(mpi.code, 1) << mpi.out;
  EXPECT_FALSE(findings_of(mpi.out).empty()) << mpi.out;
  EXPECT_EQ(findings_of(mpi.out), findings_of(threads.out));
  EXPECT_EQ(files_of(at("mpi")), files_of(at("threads")));
}

TEST_F(BubbleReplay, IsRefusedWhereThereIsNothingToReplayOrToWaitFor) {
  const std::string every = "train --steps 2 --every-step --replay-in-bubbles -o " + at("none");
  refused(every + " --layout tp2", "plumb replay");
  refused(every + " --layout pp2 --world nccl", "--world threads or mpi");
  refused("train --layout pp2 --replay-in-bubbles -o " + at("none"), "--every-step");
}

}  // namespace
}  // namespace plumb::bubble_replay_test

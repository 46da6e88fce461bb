// Do the processes of a job say and write, byte by byte, what one alone does? Do they end together?
#include <fstream>
#include <random>
#include <sstream>

#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace plumb::check_mpi_test {
namespace {

// Five linear layers on two ranks, one of which is made otherwise than it is told in `wrong`.
class SharedCheck : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-shared-check-");
    write("ref", 0);
    write("good", 6e-8F, 2);
    write("wrong", 6e-8F, 2, 3);
    for (unsigned k = 1; k <= 4; ++k) write("twin" + std::to_string(k), 6e-8F, 1, 5, k);
  }

  static std::string bytes_of(const std::string& name) {
    std::ifstream in(at(name), std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }

  // y = x I + noise; of layer `broken` 2 x.
  static void write(const std::string& name, float noise, std::size_t ranks = 1,
                    std::size_t broken = 5, unsigned seed = 9) {
    std::mt19937 random(seed), of_x(3);
    std::normal_distribution<float> of_values, of_noise;
    std::vector<std::vector<Told>> all(ranks);
    std::vector<float> eye(64);
    for (std::size_t i = 0; i < 8; ++i) eye[i * 9] = 1;
    for (std::size_t layer = 0; layer < 5; ++layer) {
      std::vector<float> x(128), y(128);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = of_values(of_x);
        y[i] = x[i] * (layer == broken ? 2 : 1) * (1 + noise * of_noise(random));
      }
      const std::string in = "m0/" + std::to_string(layer) + "/in",
                        w = std::to_string(layer) + ".w",
                        out = "m0/" + std::to_string(layer) + "/out";
      const nlohmann::json made = {{"op", "gemm"},
                                   {"inputs", {in, w}},
                                   {"attributes", {{"transpose_a", 0}, {"transpose_b", 1}}}};
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto n = static_cast<std::ptrdiff_t>(128 / ranks),
                   at = static_cast<std::ptrdiff_t>(r) * n;
        const nlohmann::json rows = {{"axis", "rank"}, {"kind", "shard"}, {"dim", 0}};
        const std::vector<float> mine(x.begin() + at, x.begin() + at + n),
            made_of_it(y.begin() + at, y.begin() + at + n);
        all[r].push_back({f32(in, {16 / ranks, 8}, mine),
                          {{"order", 3 * layer + 1},
                           {"shape", {16, 8}},
                           {"placements", {rows}},
                           {"role", "given"}}});
        all[r].push_back({f32(w, {8, 8}, eye), {{"order", 3 * layer + 2}, {"role", "given"}}});
        all[r].push_back({f32(out, {16 / ranks, 8}, made_of_it),
                          {{"order", 3 * layer + 3},
                           {"shape", {16, 8}},
                           {"placements", {rows}},
                           {"made_by", made}}});
      }
    }
    write_trace2(at(name), manifest2(ranks), all);
  }

  static std::string check(const std::string& candidate, const std::string& report) {
    std::string words = "check " + at("ref") + " " + at(candidate) + " --twins";
    for (int k = 1; k <= 4; ++k) words += " " + at("twin" + std::to_string(k));
    for (const char* kind : {".jsonl", ".html"}) words += " --report " + at(report + kind);
    return words;
  }

  static Said by_ranks(int ranks, const std::string& words) {
    return plumb(
        words + " --world mpi 2>/dev/null",
        "NO_COLOR=1 mpirun --allow-run-as-root --oversubscribe -n " + std::to_string(ranks) + " ");
  }
};

TEST_F(SharedCheck, SaysAndWritesWhatOneProcessDoes) {
  for (const auto& [candidate, code] : {std::pair{"good", 0}, std::pair{"wrong", 1}}) {
    const Said alone = plumb(check(candidate, "alone") + " --force", "NO_COLOR=1 ");
    ASSERT_EQ(alone.code, code) << alone.out;
    for (const int ranks : {1, 3}) {
      const Said shared = by_ranks(ranks, check(candidate, "shared") + " --force");
      if (shared.code == 127 || shared.out.empty())
        GTEST_SKIP() << "no MPI here, or built without it";
      EXPECT_EQ(shared.code, code);
      std::string said = shared.out;
      std::erase(said, '\r');  // mpirun's terminal
      EXPECT_EQ(said, alone.out) << ranks << " ranks";
      for (const char* kind : {".jsonl", ".html"}) {
        EXPECT_FALSE(bytes_of(std::string("alone") + kind).empty());
        EXPECT_EQ(bytes_of(std::string("shared") + kind), bytes_of(std::string("alone") + kind));
      }
    }
  }
}

TEST_F(SharedCheck, EndsInAllProcessesWithOneSentence) {
  const std::string words =
      "check " + at("ref") + " " + at("nowhere") + " --world mpi 2>&1 | grep plumb:";
  const Said said = plumb(words, "mpirun --allow-run-as-root --oversubscribe -n 3 ");
  if (said.out.find("is not a folder") == said.out.npos)
    GTEST_SKIP() << "no MPI here, or built without it";
  EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 1) << said.out;
}

}  // namespace
}  // namespace plumb::check_mpi_test

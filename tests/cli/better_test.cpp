// Three runs: FP32's, one in few bits, and the candidate.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace plumb::better_test {
namespace {

using nlohmann::json;

class Better : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-better-");
    for (const auto& [name, options] : {std::pair{"fp32", "--recipe fp32"},
                                        {"low", "--recipe fp8-current"},
                                        {"candidate", "--recipe fp8-current --layout tp2"},
                                        {"two-steps", "--recipe fp32 --steps 2"}}) {
      ASSERT_EQ(
          plumb(std::string("train --family llama ") + options + small_sizes + "-o " + at(name))
              .code,
          0);
    }
  }
  static Said check(const std::string& more) {
    return plumb("check " + at("low") + " " + at("candidate") + " " + more);
  }
};

TEST_F(Better, SaysHowMuchBothErr) {
  const Said plain = check("");
  const Said said = check("--better " + at("fp32") + " --report " + at("r.jsonl"));
  EXPECT_EQ(said.code, plain.code);
  EXPECT_NE(said.out.find("against the better run the candidate errs "), std::string::npos)
      << said.out;
  std::ifstream lines(at("r.jsonl"));
  std::size_t n = 0, near = 0;
  for (std::string line; std::getline(lines, line);) {
    const json object = json::parse(line);
    if (object.at("type") != "accuracy") continue;
    ++n;
    const double r = object.at("reference"), c = object.at("candidate");
    near += r > 0 && c < 2 * r && r < 2 * c ? 1 : 0;
  }
  EXPECT_GT(n, 100U);
  EXPECT_GT(near, n * 9 / 10);  // both are of one recipe
}

TEST_F(Better, RefusesWhatIsNotTheSameStep) {
  const Said said = check("--better " + at("two-steps"));
  EXPECT_EQ(said.code, 2) << said.out;
}

}  // namespace
}  // namespace plumb::better_test

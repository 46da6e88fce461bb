// Does bash complete verbs, options and known values, and does the manual have all that --help has?
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/program.hpp"

namespace plumb::completion_test {
namespace {

using Words = std::set<std::string>;

Words words_of(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.insert(word);
  return words;
}

// The first words of lines behind "Subcommands:".
Words verbs() {
  std::istringstream help(plumb("--help").out);
  std::string line;
  while (std::getline(help, line) && line != "Subcommands:") {
  }
  Words names;
  for (std::string name; std::getline(help, line) && !line.empty(); names.insert(name)) {
    std::istringstream(line) >> name;
  }
  return names;
}

// Options at the beginnings of lines of --help.
Words options(const std::string& verb) {
  const std::string help = plumb(verb + " --help").out;
  static const std::regex option("\n  (?:-[a-zA-Z],)?(--[a-z-]+)");
  Words names;
  for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

class Completion : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-completion-"); }
  // What bash offers for the last of these words, split as readline splits them.
  static Words offered(const std::string& words) {
    const std::string script = at("script");
    std::ofstream(script) << "source <(" PLUMB_PROGRAM " completion bash)\n"
                          << "set -u\nCOMP_WORDS=(" << words << ")\n"
                          << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_plumb\n"
                          << "printf '%s\\n' ${COMPREPLY[@]+\"${COMPREPLY[@]}\"}\n";
    const Said said = plumb("", "bash " + script + " 2>&1; exit; ");
    return words_of(said.out);
  }
};

TEST_F(Completion, OffersVerbsOptionsAndKnownValues) {
  EXPECT_EQ(offered("plumb ch"), (Words{"check"}));
  EXPECT_EQ(offered("plumb help insp"), (Words{"inspect"}));
  EXPECT_EQ(offered("plumb catch one-"), (Words{"one-masked-entry"}));
  EXPECT_EQ(offered("plumb catch --json one-"), (Words{"one-masked-entry"}));
  EXPECT_EQ(offered("plumb catch --recipe bf16 one-"), (Words{"one-masked-entry"}));
  EXPECT_EQ(offered("plumb train --recipe fp8-b"), (Words{"fp8-block"}));
  EXPECT_EQ(offered("plumb train --recipe = fp8-b"), (Words{"fp8-block"}));
  EXPECT_EQ(offered("plumb train --world ''"), (Words{"threads", "mpi", "nccl"}));
  EXPECT_EQ(offered("plumb train --world ="), (Words{"threads", "mpi", "nccl"}));
  EXPECT_EQ(offered("plumb bound squared_r"), (Words{"squared_relu"}));
  EXPECT_EQ(offered("plumb bound gemm ''"), Words{}) << "a shape";
  EXPECT_EQ(offered("plumb bound gemm 4x4x4 ''"), Words{});
  EXPECT_TRUE(offered("plumb bound gemm 4x4x4 --machine ''").contains("h100"));
  EXPECT_EQ(offered("plumb bound gemm 4x4x4 --mode m"), (Words{"moments"}));
  EXPECT_EQ(offered("plumb replay T --mode m"), Words());
  EXPECT_EQ(offered("plumb check a b --rule twins,re"), (Words{"twins,replay"}));
  EXPECT_EQ(offered("plumb experiment sound"), (Words{"soundness"}));
  EXPECT_EQ(offered("plumb check ''"), Words{}) << "a trace: readline takes files";
  EXPECT_EQ(offered("plumb train -o ''"), Words{});
}

TEST_F(Completion, HasEveryVerbAndOptionOfTheHelp) {
  const Words known = verbs();
  EXPECT_GE(known.size(), 16U);
  const Words first = offered("plumb ''");
  for (const std::string& verb : known) {
    EXPECT_TRUE(first.contains(verb)) << verb;
    const Words all = offered("plumb " + verb + " -");
    for (const std::string& option : options(verb)) {
      EXPECT_TRUE(all.contains(option)) << verb << " " << option;
    }
  }
}

// Some are written down a second time, where no catalogue has them.
TEST_F(Completion, OffersWhatIsAccepted) {
  for (const std::string& family : offered("plumb dry --family ''")) {
    EXPECT_EQ(plumb("dry --family " + family).code, 0) << family;
  }
  for (const std::string& rule : offered("plumb bound gemm 4x4x4 --rule ''")) {
    EXPECT_EQ(plumb("bound gemm 4x4x4 --rule " + rule).code, 0) << rule;
  }
  const std::string refusal = plumb("train --layout tp2 --world x -o " + at("x")).out;
  for (const std::string& world : offered("plumb train --world ''")) {
    EXPECT_NE(refusal.find(world), refusal.npos) << refusal;
  }
}

TEST_F(Completion, OfAnUnknownShellIsTrouble) {
  refused("completion", "SHELL");
  refused("completion tcsh", "bash");
}

class Manual : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-manual-"); }
};

std::string page_of(const std::string& verb) {
  return std::regex_replace(plumb("manual " + verb).out, std::regex(R"(\\-)"), "-");
}

TEST_F(Manual, HasEveryVerbAndOptionOfTheHelp) {
  const std::string front = page_of("");
  for (const std::string& verb : verbs()) {
    EXPECT_NE(front.find("\n\\fB" + verb + "\\fR"), front.npos) << verb;
    const std::string page = page_of(verb);
    EXPECT_NE(page.find("\\fBplumb " + verb + "\\fR"), page.npos) << page;
    EXPECT_NE(page.find("\n  plumb " + verb), page.npos) << "an example: " << page;
    const Words all = options(verb);
    EXPECT_TRUE(all.contains("--help")) << verb;
    for (const std::string& option : all) {
      EXPECT_NE(page.find("\\fB" + option), page.npos) << verb << " " << option;
    }
  }
  refused("manual chekc", "did you mean check?");
}

TEST_F(Manual, LiesInOneFileAVerbAndIsSoundRoff) {
  ASSERT_EQ(plumb("manual --into " + at("man")).code, 0);
  std::size_t pages = 0;
  const bool groff = plumb("", "command -v groff; exit $?; ").code == 0;
  for (const auto& entry : std::filesystem::directory_iterator(at("man"))) {
    ++pages;
    if (!groff) continue;
    const Said said =
        plumb("", "groff -man -ww -Tutf8 -z " + entry.path().string() + " 2>&1; exit; ");
    EXPECT_EQ(said.out, "") << entry.path();
  }
  EXPECT_EQ(pages, verbs().size() + 1);
  if (!groff) GTEST_SKIP() << "no groff to read the pages with";
}

}  // namespace
}  // namespace plumb::completion_test

// Are there colours on a terminal, where nobody asked for none, and nowhere else?
#include "tests/cli/program.hpp"

namespace plumb::colour_test {
namespace {

const std::string green = "\033[32m", red = "\033[31m", yellow = "\033[33m", bold = "\033[1m",
                  plain = "\033[0m";

class Colours : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-colour-");
    const std::string train = "train" + small_sizes;
    EXPECT_EQ(plumb(train + "-o " + at("ref")).code, 0);
    EXPECT_EQ(plumb(train + "--layout tp2 -o " + at("good")).code, 0);
    EXPECT_EQ(
        plumb(train + "--layout tp2 --bug embedding-mask-on-shifted-ids -o " + at("bad")).code, 0);
  }
  static std::string good() { return "check " + at("ref") + " " + at("good"); }
  static std::string bad() { return "check " + at("ref") + " " + at("bad"); }
};

bool escapes(const Said& said) { return said.out.find('\033') != std::string::npos; }

TEST_F(Colours, AreOnATerminalWhereTheyAreTaken) {
  EXPECT_TRUE(escapes(plumb_on_terminal("bugs one-masked-entry", 80)));
  for (const std::string none :
       {"TERM=dumb", "TERM=", "TERM=xterm NO_COLOR=1", "TERM=xterm NO_COLOR=1 CLICOLOR_FORCE=1"}) {
    EXPECT_FALSE(escapes(plumb_on_terminal("bugs one-masked-entry", 80, none))) << none;
  }
  // An empty NO_COLOR is none.
  EXPECT_TRUE(escapes(plumb_on_terminal("bugs one-masked-entry", 80, "TERM=xterm NO_COLOR=")));
}

TEST_F(Colours, AreInNoPipeUnlessForced) {
  for (const std::string& verb : {good(), bad(), std::string("bugs one-masked-entry")}) {
    EXPECT_FALSE(escapes(plumb(verb, "TERM=xterm "))) << verb;
    EXPECT_FALSE(escapes(plumb(verb, "TERM=xterm CLICOLOR_FORCE=0 "))) << verb;
    EXPECT_FALSE(escapes(plumb(verb, "CLICOLOR_FORCE=1 NO_COLOR=1 "))) << verb;
    EXPECT_TRUE(escapes(plumb(verb, "CLICOLOR_FORCE=1 "))) << verb;
    EXPECT_FALSE(escapes(plumb(verb + " --json 2>/dev/null", "CLICOLOR_FORCE=1 "))) << verb;
  }
}

TEST_F(Colours, SayWhatIsGoodBadANoticeOrAHeading) {
  const std::string forced = "CLICOLOR_FORCE=1 ";
  const Said pass = plumb(good(), forced), fail = plumb(bad(), forced);
  EXPECT_NE(pass.out.find(green + "verdict: PASS" + plain + " by"), std::string::npos) << pass.out;
  EXPECT_NE(pass.out.find("\n" + bold + "worst tensors" + plain), std::string::npos) << pass.out;
  EXPECT_NE(fail.out.find(red + "verdict: FAIL" + plain + " by"), std::string::npos) << fail.out;
  EXPECT_NE(fail.out.find(red + "blamed:" + plain + " m0/embedding/out\n"), std::string::npos);
  const Said swapped = plumb("check " + at("good") + " " + at("ref"), forced);
  EXPECT_NE(swapped.out.find(yellow + "note:" + plain), std::string::npos) << swapped.out;
  const Said help = plumb("check --help", forced), verbs = plumb("--help", forced);
  EXPECT_NE(help.out.find("\n" + bold + "Options:" + plain + "\n"), std::string::npos) << help.out;
  EXPECT_NE(verbs.out.find("\n" + bold + "Examples:" + plain + "\n"), std::string::npos);
  const Said refused = plumb("check nowhere nowhere", forced);
  EXPECT_TRUE(refused.out.starts_with(red + "plumb:" + plain + " ")) << refused.out;
}

// A report lies in a file, whoever looks at it.
TEST_F(Colours, AreInNoReport) {
  EXPECT_EQ(plumb(bad() + " --report " + at("report.txt"), "CLICOLOR_FORCE=1 ").code, 1);
  const Said file = plumb("--version; cat " + at("report.txt"));
  EXPECT_NE(file.out.find("verdict: FAIL"), std::string::npos);
  EXPECT_FALSE(escapes(file));
}

}  // namespace
}  // namespace plumb::colour_test

// Is every file that the program reads or writes whole, its own, and told in a sentence if not?
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/cli/program.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::files_test {
namespace {

namespace fs = std::filesystem;

class Files : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-files-");
    EXPECT_EQ(plumb("train" + small_sizes + "-o " + at("ref")).code, 0);
    EXPECT_EQ(plumb("train" + small_sizes + "--layout tp2 -o " + at("good")).code, 0);
  }
  static std::string check(const std::string& options) {
    return "check " + at("ref") + " " + at("good") + " " + options;
  }
  static std::string content_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static fs::path copied(const std::string& name) {
    fs::remove_all(at(name));
    fs::copy(at("good"), at(name), fs::copy_options::recursive);
    return at(name);
  }
};

TEST_F(Files, AVerdictIsToldBeforeAReportThatCannotBeWritten) {
  fs::create_directories(at("small"));
  const Said mounted = {
      std::system(("mount -t tmpfs -o size=4k none " + at("small") + " 2>/dev/null").c_str()), ""};
  if (mounted.code != 0) GTEST_SKIP() << "no small disk can be mounted here";
  const Said said = plumb(check("--report " + at("small/r.jsonl")));
  EXPECT_EQ(said.code, 2);
  EXPECT_NE(said.out.find("verdict: PASS"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("plumb: cannot write"), std::string::npos) << said.out;
  EXPECT_TRUE(fs::is_empty(at("small")));
  EXPECT_EQ(std::system(("umount " + at("small")).c_str()), 0);
}

TEST_F(Files, AReportReplacesReportsAloneUnlessForced) {
  std::ofstream(at("notes.md")) << "# mine\n";
  fs::create_symlink(at("notes.md"), at("link.md"));
  refused(check("--report " + at("notes.md")), "would replace a file that is none");
  refused(check("--report " + at("link.md")), "it is a link");
  EXPECT_EQ(content_of(at("notes.md")), "# mine\n");
  for (const std::string suffix : {"txt", "md", "jsonl", "html", "csv", "xml"}) {
    std::ofstream(at("mine." + suffix)) << "# mine\nof today\n";
    refused(check("--report " + at("mine." + suffix)), "would replace a file that is none");
    for (int twice = 0; twice < 2; ++twice) {
      EXPECT_EQ(plumb(check("--report " + at("r." + suffix))).code, 0) << suffix;
    }
  }
  EXPECT_EQ(plumb(check("--force --report " + at("notes.md"))).code, 0);
  EXPECT_TRUE(content_of(at("notes.md")).starts_with("# verdict: PASS"));
}

TEST_F(Files, WhatMayNotBeReadIsToldAsSuch) {
  const std::string nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
  if (geteuid() != 0 || plumb("--version", nobody).code != 0) {
    GTEST_SKIP() << "cannot become another user here";
  }
  const fs::path closed = copied("closed"), hidden = copied("hidden");
  fs::permissions(closed / "manifest.json", fs::perms::none);
  fs::permissions(hidden, fs::perms::none);
  for (const fs::path& trace : {closed, hidden}) {
    const Said said = plumb("inspect " + trace.string(), nobody);
    EXPECT_EQ(said.code, 2);
    EXPECT_NE(said.out.find("may not be read (Permission denied)"), std::string::npos) << said.out;
  }
  std::ofstream(at("mine.json")) << "{}";
  fs::permissions(at("mine.json"), fs::perms::none);
  const Said recipe = plumb("recipes " + at("mine.json"), nobody);
  EXPECT_NE(recipe.out.find("it may not be read (Permission denied)"), std::string::npos)
      << recipe.out;
}

TEST_F(Files, NoFileOfATraceMakesAReaderWait) {
  const std::string step = "step_000001/";
  for (const std::string& name : {std::string("manifest.json"), std::string("graph.json"),
                                  step + "ran.json", step + "rank_00000.safetensors"}) {
    for (const std::string kind : {"pipe", "kernel", "zero"}) {
      const fs::path file = copied("odd") / name;
      fs::remove(file);
      if (kind == "pipe") mkfifo(file.c_str(), 0600);
      if (kind == "kernel") fs::create_symlink("/proc/kmsg", file);
      if (kind == "zero") fs::create_symlink("/dev/zero", file);
      const Said said = plumb("inspect " + at("odd"), "timeout 10 ");
      EXPECT_EQ(said.code, 2) << name << " " << kind << "\n" << said.out;
    }
  }
  fs::create_symlink("/proc/kmsg", at("kmsg.json"));
  EXPECT_EQ(plumb("recipes " + at("kmsg.json"), "timeout 10 ").code, 2);
  EXPECT_EQ(plumb("train --data " + at("kmsg.json") + " -o " + at("x"), "timeout 10 ").code, 2);
  EXPECT_EQ(plumb(check("--spreads " + at("kmsg.json")), "timeout 10 ").code, 2);
}

// A small safetensors file of another program.
TEST_F(Files, SoundTensorsOfAnotherKindAreUnsupportedNotDamaged) {
  const auto put = [](const fs::path& file, const std::string& dtype, const std::string& shape) {
    std::string header = R"({"ids": {"dtype": ")" + dtype + R"(", "shape": )" + shape +
                         R"(, "data_offsets": [0, 8]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << std::string(8, '\0');
  };
  const fs::path file = copied("foreign") / "step_000001/rank_00000.safetensors";
  for (const auto& [dtype, shape, why] :
       {std::tuple<std::string, std::string, std::string>{"I64", "[1, 1]", "holds 'ids' as I64"},
        {"F32", "[1, 1, 2]", "holds 'ids' with 3 dimensions"},
        {"F32", "[2]", "holds 'ids' with 1 dimension;"}}) {
    put(file, dtype, shape);
    refused("inspect " + at("foreign"), why);
    EXPECT_EQ(plumb("inspect " + at("foreign")).out.find("damaged"), std::string::npos);
  }
}

TEST_F(Files, TextAfterANulIsNotPassedOver) {
  const fs::path file = copied("nul") / "manifest.json";
  std::ofstream(file, std::ios::app) << '\0' << "{\"another\": 1}";
  refused("inspect " + at("nul"), "has a NUL in its text");
}

// A parser would keep the second and drop the first.
TEST_F(Files, WhatADocumentSaysTwiceIsNotPassedOver) {
  const fs::path file = copied("twice") / "manifest.json";
  const std::string text = content_of(file), longer(81, 'n');
  for (const auto& [said, told] : {std::pair<std::string, std::string>{"\"step\": 1, ", "'step'"},
                                   {"\"\": 1, \"\": 2, ", "''"},
                                   {"\"" + longer + "\": 1, \"" + longer + "\": 2, ", "a name"}}) {
    std::ofstream(file) << std::string(text).insert(text.find('{') + 1, said);
    refused("inspect " + at("twice"), "manifest.json says " + told + " twice in one object");
  }
}

// Whoever is stopped while a trace is written leaves the whole trace or nothing, and says what.
TEST_F(Files, AStoppedWriterLeavesNothingUnfinished) {
  fs::create_directories(at("stopped"));
  int stopped = 0;
  for (int i = 0; i < effort(12); ++i) {
    const std::string out = at("stopped/" + std::to_string(i));
    const pid_t child = fork();
    if (child == 0) {
      freopen((at("said") + std::to_string(i)).c_str(), "w", stderr);
      freopen("/dev/null", "w", stdout);
      execl(PLUMB_PROGRAM, PLUMB_PROGRAM, "train", "--layers", "8", "--layout", "dp2,tp4", "-o",
            out.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    const auto writing = [&] {
      return fs::exists(out + ".partial-" + std::to_string(child)) || fs::exists(out);
    };
    while (!writing()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * i));
    kill(child, i % 2 == 0 ? SIGINT : SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    const int code = WEXITSTATUS(status);
    const std::string said = content_of(at("said") + std::to_string(i));
    if (code != 0) {
      EXPECT_EQ(code, 128 + (i % 2 == 0 ? SIGINT : SIGTERM));
      EXPECT_TRUE(said.starts_with("plumb: stopped (")) << said;
    }
    stopped += said.find("was not finished and is removed") != said.npos ? 1 : 0;
    EXPECT_TRUE(!fs::exists(out) || plumb("inspect " + out).code == 0);
    for (const auto& entry : fs::directory_iterator(at("stopped"))) {
      EXPECT_EQ(entry.path().string().find(".partial-"), std::string::npos) << entry;
    }
    fs::remove_all(out);
  }
  EXPECT_GT(stopped, 0);
}

TEST_F(Files, WhatAKilledWriterLeftIsNamedByTheNext) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const std::string left = at("old.partial-" + std::to_string(child));
  fs::create_directories(left);
  const Said said = plumb("train" + small_sizes + "-o " + at("new"));
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("note: " + left + " is what a stopped process did not finish"),
            std::string::npos)
      << said.out;
  EXPECT_TRUE(fs::exists(left));
  fs::remove_all(left);
}

}  // namespace
}  // namespace plumb::files_test

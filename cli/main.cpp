// plumb: can rounding alone explain how two training runs differ? One verb per file.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "cli/arguments.hpp"
#include "cli/build.hpp"
#include "cli/colour.hpp"
#include "cli/help.hpp"
#include "cli/stop.hpp"
#include "cli/verbs.hpp"
#include "number/outcome.hpp"
#include "trace/memory.hpp"

namespace plumb::cli {
namespace {

int run(int argc, char** argv) {
  CLI::App app{"plumb tells a bug from rounding in distributed, low-precision training", "plumb"};
  app.formatter(help_format());
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", build_text);
  Verb chosen;
  for (const auto add :
       {add_demo,    add_bugs,    add_catch,      add_train,      add_check,     add_localize,
        add_replay,  add_inspect, add_bound,      add_judge,      add_calibrate, add_machines,
        add_recipes, add_spreads, add_sketch,     add_experiment, add_corpus,    add_score,
        add_dry,     add_paper,   add_completion, add_manual}) {
    add(app, chosen);
  }
  give_examples(app);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  try {
    refuse_empty_values(words);
    refuse_unknown_words(app, words);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(asked, text, text);
    say("{}", text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    throw Failure(std::string(error.what()) + "; see: plumb " +
                  (words[0].starts_with("-") ? "" : words[0] + " ") + "--help");
  }
  return chosen();
}

// A full disk is trouble, not a verdict: printed text must have arrived.
constexpr const char* no_stdout = "cannot write to stdout; is it closed, or its disk full?";

void finish_output() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw Failure(no_stdout);
}

// One sentence on stderr. It may quote names from files: nothing that steers a terminal gets out.
int refused(std::string sentence) {
  for (char& c : sentence) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  const std::string label = painted(Colour::bad, "plumb:", stderr);
  std::fprintf(stderr, "%s %s\n", label.c_str(), sentence.c_str());
  return 2;
}

}  // namespace
}  // namespace plumb::cli

int main(int argc, char** argv) {
  using namespace plumb;
  using namespace plumb::cli;
  keep_freed_memory();
  remove_unfinished_when_stopped();
  try {
    const int code = run(argc, argv);
    finish_output();
    return code;
  } catch (const Failure& failure) {
    return refused(failure.what());
  } catch (const std::bad_alloc&) {
    return refused("not enough memory; choose smaller sizes or shapes");
  } catch (const std::filesystem::filesystem_error& error) {
    return refused("cannot use " + error.path1().string() + " (" + error.code().message() +
                   "); name another place");
  } catch (const std::system_error& error) {  // of printing, or of starting a thread
    if (std::ferror(stdout) != 0) return refused(no_stdout);
    return refused("the system refused (" + error.code().message() +
                   "); is there room on the disk, and for more threads?");
  } catch (const std::exception& error) {
    return refused(error.what());
  }
}

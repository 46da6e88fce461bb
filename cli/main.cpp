// plumb: can rounding alone explain how two training runs differ? One verb per file.
#include <cstdio>
#include <exception>

#include "bounds/outcome.hpp"
#include "cli/verbs.hpp"

int main(int argc, char** argv) {
  using namespace plumb;
  CLI::App app{"plumb tells a bug from rounding in distributed, low-precision training"};
  app.require_subcommand(1);
  app.footer(
      "Exit codes of check, localize, replay: 0 all inside; 1 a finding; 2 trouble; 3 nothing "
      "that was judged could have failed.\nA first look: plumb demo. One verb: plumb VERB --help.");
  Verb chosen;
  for (const auto add : {add_demo, add_bugs, add_catch, add_train, add_check, add_localize,
                         add_replay, add_inspect, add_bound, add_run, add_paper}) {
    add(app, chosen);
  }
  try {
    app.parse(argc, argv);
    return chosen();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "plumb: %s\n", failure.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "plumb: not enough memory; choose smaller sizes or fewer twins\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plumb: %s\n", error.what());
  }
  return 2;
}

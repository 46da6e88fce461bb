#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/colour.hpp"
#include "cli/verbs.hpp"

namespace plumb::cli {

void talk(const std::string& what) {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point last = Clock::now();
  if (isatty(2) != 0) {
    std::fprintf(stderr, "\r\033[K%s", what.c_str());
    if (what.empty()) std::fflush(stderr);
    return;
  }
  if (what.empty() || Clock::now() - last < std::chrono::seconds(10)) return;
  last = Clock::now();
  std::fprintf(stderr, "%s\n", what.c_str());
}

void note(const std::string& sentence) {
  const std::string label = painted(Colour::notice, "note:", stderr);
  std::fprintf(stderr, "%s %s\n", label.c_str(), sentence.c_str());
}
}  // namespace plumb::cli

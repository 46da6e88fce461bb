#include "cli/build.hpp"

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace plumb::cli {

std::string build_text() {
  std::vector<std::string_view> usable;
  for (const Backend* backend : all_backends()) {
    if (backend->usable_here()) usable.push_back(backend->name);
  }
  return fmt::format(
      "plumb {}\ncommit {}\ninstructions: {}\nfound when built: {}\nbackends that run here: {}",
      PLUMB_VERSION, build_commit(), PLUMB_INSTRUCTIONS, PLUMB_FOUND, fmt::join(usable, ", "));
}

std::string device_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace plumb::cli

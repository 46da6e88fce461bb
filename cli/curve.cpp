#include "cli/curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "cli/values.hpp"
#include "number/words.hpp"
#include "trace/merge.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::cli {
namespace {

// After the environment, as POSIX orders it.
bool terminal_knows_blocks() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

}  // namespace

void Curve::add_to(CLI::App& verb) {
  verb.add_option("--curve", file_, "write step and loss of each step to this file (.csv)")
      ->group("Steps")
      ->check(new_curves());
}

void Curve::add(const Trace& trace) {
  const Merged merged = merge(trace);
  const auto loss = merged.values.find("loss/out");
  if (loss != merged.values.end()) add(trace.manifest.step, loss->second->values[0]);
}

std::string Curve::picture(std::size_t width) const {
  constexpr std::array levels{"\u2581", "\u2582", "\u2583", "\u2584",
                              "\u2585", "\u2586", "\u2587", "\u2588"};
  const std::size_t n = std::min(width, steps_.size());
  std::vector<double> means(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t from = i * steps_.size() / n, to = (i + 1) * steps_.size() / n;
    for (std::size_t j = from; j < to; ++j) means[i] += steps_[j].second;
    means[i] /= static_cast<double>(to - from);
  }
  double least = INFINITY, most = -INFINITY;
  for (const double mean : means) {
    if (!std::isfinite(mean)) continue;
    least = std::min(least, mean);
    most = std::max(most, mean);
  }
  std::string all;
  for (const double mean : means) {
    const double share = most > least ? (mean - least) / (most - least) : 0;
    all += std::isfinite(mean)
               ? levels[std::min<std::size_t>(7, static_cast<std::size_t>(8 * share))]
               : "!";
  }
  return all;
}

void Curve::write() const {
  if (!is_asked_for()) return;
  std::string rows = "step,loss\n";
  for (const auto& [step, loss] : steps_) rows += fmt::format("{},{:.9g}\n", step, loss);
  write_whole(file_, rows);
  if (steps_.empty()) return;
  fmt::print("loss {:.3f} to {:.3f} in {}, rows in {}\n", steps_.front().second, last(),
             how_many(steps_.size(), "step"), file_);
  if (terminal_knows_blocks() && steps_.size() > 1) fmt::print("  {}\n", picture(60));
}

}  // namespace plumb::cli

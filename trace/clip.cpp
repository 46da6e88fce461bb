#include "trace/clip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include "number/words.hpp"

namespace plumb::trace {
namespace {

constexpr double unit = 0x1p-24;              // of FP32
constexpr double smallest_normal = 0x1p-126;  // what is smaller may be flushed
constexpr std::string_view before_clip = "/grad", behind_clip = "/clipped_grad";

// Of each of these gradients.
std::vector<Scaled> all_scaled(const Run& run, const std::vector<std::string>& names,
                               const Hands& hands) {
  std::vector<Scaled> of(names.size());
  by_hands(hands.threads, names.size(), [&](std::size_t i) {
    of[i] = scaled(run.values.at(names[i] + std::string(before_clip)),
                   run.values.at(names[i] + std::string(behind_clip)));
  });
  return of;
}

double middle(double least, double most) {
  return std::isfinite(most) ? least + (most - least) / 2 : least;
}

// A factor that most of the tensors allow.
double usual_factor(const std::vector<Scaled>& of) {
  std::vector<std::pair<double, int>> ends;
  for (const Scaled& one : of) {
    if (!one.fits()) continue;
    ends.emplace_back(one.least, -1);  // sorted before an end at the same place
    ends.emplace_back(one.most, 1);
  }
  std::ranges::sort(ends);
  int open = 0, best = 0;
  double factor = 1;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    open -= ends[i].second;
    if (open <= best) continue;
    best = open;
    factor = middle(ends[i].first, ends[i + 1].first);  // the last is no beginning
  }
  return factor;
}

std::string place_of(const Finding::At& at) { return fmt::format("({}, {})", at.row, at.column); }

// Of a tensor that does not allow the factor of the others.
Finding of_another_factor(const std::string& id, const Scaled& one, double usual) {
  Finding f{id, "replay", infinite};
  f.at = one.least > usual ? one.asks_least : one.asks_most;
  if (!one.fits()) {
    f.detail = fmt::format(
        "it is not its gradient before the clip, times one factor: {} asks for {:.9g} or more, {} "
        "for {:.9g} or less; most gradients were multiplied by {:.6g}",
        place_of(one.asks_least), one.least, place_of(one.asks_most), one.most, usual);
  } else {
    f.detail = fmt::format(
        "it is its gradient before the clip times {:.6g}, and most gradients were multiplied by "
        "{:.6g}",
        middle(one.least, one.most), usual);
  }
  return f;
}

// Those that the run has before and behind.
std::set<std::string> clipped_in(const Run& run) {
  std::set<std::string> names;
  for (const auto& [id, y] : run.values) {
    if (!id.ends_with(behind_clip)) continue;
    const std::string name = id.substr(0, id.size() - behind_clip.size());
    const auto x = run.values.find(name + std::string(before_clip));
    if (x != run.values.end() && x->second.has_shape_of(y)) names.insert(name);
  }
  return names;
}

}  // namespace

Scaled scaled(const Whole& before, const Whole& after) {
  Scaled one;
  by_rows(before, after, [&](std::size_t row, const float* xs, const float* ys) {
    for (std::size_t i = 0; i < before.cols; ++i) {
      const double size = std::fabs(xs[i]), y = xs[i] < 0 ? -ys[i] : ys[i];
      if (!std::isfinite(size) || !std::isfinite(y)) continue;
      const double half = ulp(y, after.format) / 2 + unit * std::fabs(y) + smallest_normal;
      const double least = y > half ? (y - half) / size : 0;
      const double most = (y + half) / size;
      if (least > one.least) {
        one.least = least;
        one.asks_least = {row, i};
      }
      if (most < one.most) {
        one.most = most;
        one.asks_most = {row, i};
      }
    }
  });
  return one;
}

bool was_not_clipped(const Run& run, const std::string& id) {
  if (!id.ends_with(behind_clip)) return false;
  const std::string name = id.substr(0, id.size() - behind_clip.size());
  return run.values.contains(name + std::string(before_clip)) && !clipped_in(run).empty();
}

std::string said_too_early(const std::vector<Finding>& findings) {
  const auto disagree = [&](std::string_view end) {
    return std::ranges::count_if(findings, [&](const Finding& f) {
      return f.id.ends_with(end) && f.detail.starts_with("replicas disagree");
    });
  };
  if (disagree(before_clip) < 2 || disagree(behind_clip) > 0) return "";
  return "ranks disagree on gradients before the clip, and on none behind it: if you say "
         "plumb.gradients(), say it behind the sum over ranks";
}

ClipSeen clips(const Run& reference, const Run& candidate,
               const std::function<bool(const std::string&)>& wanted, const Hands& hands) {
  const std::set<std::string> of_reference = clipped_in(reference),
                              of_candidate = clipped_in(candidate);
  std::vector<std::string> names;
  std::ranges::set_intersection(of_reference, of_candidate, std::back_inserter(names));
  const auto id_of = [](const std::string& name) { return name + std::string(behind_clip); };
  if (std::ranges::none_of(names, [&](const auto& name) { return wanted(id_of(name)); })) return {};
  const auto factor_of = [&](const Run& run, std::vector<Scaled>& of) {
    of = all_scaled(run, names, hands);
    return usual_factor(of);
  };
  std::vector<Scaled> r, c;
  const double usual_of_reference = factor_of(reference, r);
  if (!std::ranges::all_of(r, [&](const Scaled& one) { return one.allows(usual_of_reference); })) {
    return {{},
            "gradients behind a clip are not judged by those before: the reference's were not "
            "multiplied by one factor"};
  }
  const double usual = factor_of(candidate, c);
  ClipSeen seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (c[i].allows(usual) || !wanted(id_of(names[i]))) continue;
    seen.findings.push_back(of_another_factor(id_of(names[i]), c[i], usual));
  }
  if (seen.findings.empty()) {
    seen.note = fmt::format("{} behind a clip are those before it, times {:.6g}",
                            how_many(names.size(), "gradient"), usual);
  }
  return seen;
}

}  // namespace plumb::trace

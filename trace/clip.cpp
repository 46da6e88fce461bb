#include "trace/clip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include "number/rounding.hpp"
#include "number/words.hpp"

namespace plumb::trace {
namespace {

constexpr double unit = 0x1p-24;              // of FP32
constexpr double smallest_normal = 0x1p-126;  // what is smaller may be flushed
constexpr double side_by_side = 8;            // partial sums
constexpr double few = 8;  // squares, tensors, ranks, root, sum with e, division, factor (twice)
constexpr double most_added = 1e-6;  // e
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

double norm_of(const std::vector<Scaled>& gradients) {
  double squares = 0;
  for (const Scaled& one : gradients) squares += one.squares;
  return std::sqrt(squares);
}

bool have_one_factor(const std::vector<Scaled>& gradients) {
  const double usual = usual_factor(gradients);
  return std::ranges::all_of(gradients, [&](const Scaled& one) { return one.allows(usual); });
}

std::string behind(const std::string& name) { return name + std::string(behind_clip); }

std::vector<Finding> of_other_factors(const std::vector<std::string>& names,
                                      const std::vector<Scaled>& gradients,
                                      const std::function<bool(const std::string&)>& wanted) {
  const double usual = usual_factor(gradients);
  std::vector<Finding> found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (gradients[i].allows(usual) || !wanted(behind(names[i]))) continue;
    found.push_back(of_another_factor(behind(names[i]), gradients[i], usual));
  }
  return found;
}

// What a run says of the limit.
struct OfLimit {
  double norm = 0, factor = 0;
  double least = 0, most = 0;  // of ln L
  double x = 0;                // ln(|x_k| / |r|)
};

// A partial sum loses u of itself at most by each addition, and is half of what it comes to on average.
OfLimit limit_of(const std::vector<Scaled>& gradients, double norm_of_reference) {
  double least = 0, most = infinite, rounded = 0;
  for (const Scaled& one : gradients) {
    least = std::max(least, one.least);
    most = std::min(most, one.most);
    rounded += static_cast<double>(one.size) / side_by_side / 2 * one.squares;
  }
  OfLimit of;
  of.norm = norm_of(gradients);
  of.factor = middle(least, most);
  of.x = std::log(of.norm / norm_of_reference);
  const double off =
      (rounded / (of.norm * of.norm) + few) * unit / 2 + most_added / of.norm * std::fabs(of.x);
  of.least = std::log(least * of.norm) - off;
  of.most = std::log(most * of.norm) + off;
  return of;
}

// By how much intervals of ln L overlap where all runs have this q; below 0: they do not.
double overlap(const std::vector<OfLimit>& runs, double q) {
  double least = -infinite, most = infinite;
  for (const OfLimit& run : runs) {
    least = std::max(least, run.least - q * run.x);
    most = std::min(most, run.most - q * run.x);
  }
  return most - least;
}

// At the q with the most, in which it is concave.
double best_overlap(const std::vector<OfLimit>& runs) {
  double low = 0, high = 1;
  while (high - low > 1e-9) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    if (overlap(runs, a) < overlap(runs, b)) {
      low = a;
    } else {
      high = b;
    }
  }
  return std::max({overlap(runs, 0), overlap(runs, low), overlap(runs, 1)});
}

std::vector<OfLimit> with(std::vector<OfLimit> known, const OfLimit& more) {
  known.push_back(more);
  return known;
}

// Why nothing can be said of the factor's size; empty: something can. The reference is the first.
std::string why_not_sized(const std::vector<OfLimit>& known, const OfLimit& candidate) {
  for (const OfLimit& run : with(known, candidate)) {
    if (!std::isfinite(run.norm)) return "not all of them are finite";
    if (run.norm == 0) return "all of them are zero";
  }
  const OfLimit& reference = known.front();
  if (reference.most >= std::log(reference.norm)) return "the reference clips nothing";
  if (known.size() == 1) return "no twins of the reference have both";
  if (best_overlap(known) < 0) return "in reference and twins it is not by their norm";
  if (overlap(known, 1) >= 0) return "reference and twins allow that it is a constant";
  return "";
}

// Of all gradients: a factor that their norm does not make.
Finding of_another_norm(const std::string& id, const OfLimit& reference, const OfLimit& candidate,
                        double apart) {
  const double limit = (reference.least + reference.most) / 2;
  Finding f{id, "replay", 1 + apart / (candidate.most - candidate.least)};
  f.value = candidate.factor;
  f.expected = std::exp(limit) / candidate.norm;
  f.detail = fmt::format(
      "all gradients were multiplied by {:.6g}; of their norm before, {:.6g}, the reference's limit "
      "makes {:.6g}",
      candidate.factor, candidate.norm, *f.expected);
  return f;
}

// Those that the run has before and behind.
std::set<std::string> clipped_in(const Run& run) {
  std::set<std::string> names;
  for (const auto& [id, y] : run.values) {
    const std::string before = name_before_clip(id);
    const auto x = run.values.find(before);
    if (!before.empty() && x != run.values.end() && x->second.has_shape_of(y))
      names.insert(before.substr(0, before.size() - before_clip.size()));
  }
  return names;
}

}  // namespace

std::string name_before_clip(const std::string& id) {
  if (!id.ends_with(behind_clip)) return "";
  return id.substr(0, id.size() - behind_clip.size()) + std::string(before_clip);
}

Scaled scaled(const Whole& before, const Whole& after) {
  Scaled one;
  one.size = before.size();
  by_rows(before, after, [&](std::size_t row, const float* xs, const float* ys) {
    for (std::size_t i = 0; i < before.cols; ++i) {
      const double size = std::fabs(xs[i]), y = xs[i] < 0 ? -ys[i] : ys[i];
      one.squares += size * size + 0 * y;  // not finite, where one of them is not
      if (!std::isfinite(size) || !std::isfinite(y)) continue;
      const double half =
          ulp(y, format_held(y, after.format)) / 2 + unit * std::fabs(y) + smallest_normal;
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

std::string said_too_early(const std::vector<Finding>& findings, const Run& candidate) {
  const auto disagree = [&](std::string_view end) {
    return std::ranges::count_if(findings, [&](const Finding& f) {
      return f.id.ends_with(end) && f.detail.starts_with("replicas disagree");
    });
  };
  if (disagree(before_clip) < 2 || disagree(behind_clip) > 0) return "";
  if (clipped_in(candidate).empty()) return "";  // nobody says where its clip is
  return "ranks disagree on gradients before the clip, and on none behind it: if you say "
         "plumb.gradients(), say it behind the sum over ranks";
}

ClipSeen clips(const Run& reference, const Run& candidate, const std::vector<Run>& twins, bool all,
               const std::set<std::string>& summands,
               const std::function<bool(const std::string&)>& wanted, const Hands& hands) {
  const std::set<std::string> names = clipped_in(reference), there = clipped_in(candidate);
  std::vector<std::string> both;
  std::ranges::set_intersection(names, there, std::back_inserter(both));
  const std::size_t in_summands =
      std::erase_if(both, [&](const auto& name) { return summands.contains(behind(name)); });
  if (std::ranges::none_of(both, [&](const auto& name) { return wanted(behind(name)); })) return {};
  const std::vector<Scaled> r = all_scaled(reference, both, hands);
  if (!have_one_factor(r)) {
    return {{},
            "gradients behind a clip are not judged by those before: the reference's were not "
            "multiplied by one factor"};
  }
  const std::vector<Scaled> c = all_scaled(candidate, both, hands);
  ClipSeen seen{of_other_factors(both, c, wanted), "", true};
  if (!seen.findings.empty()) return seen;
  seen.note = fmt::format("{} behind a clip are those before it, times {:.6g}",
                          how_many(both.size(), "gradient"), usual_factor(c));
  const double norm = norm_of(r);
  std::vector<OfLimit> known{limit_of(r, norm)};
  for (const Run& twin : twins) {
    if (std::ranges::includes(clipped_in(twin), both))
      known.push_back(limit_of(all_scaled(twin, both, hands), norm));
  }
  const OfLimit here = limit_of(c, norm);
  const auto is_fp16 = [&](const std::string& name) {
    return reference.values.at(behind(name)).format == fp16;
  };
  std::string why = why_not_sized(known, here);
  if (std::ranges::any_of(both, is_fp16)) why = "a norm in FP16 is hardly told from one in FP32";
  if (both.size() < names.size()) why = "the candidate lacks some";
  if (in_summands > 0)
    why = how_many(in_summands, "more is", "more are") +
          " held in summands, which are clipped before "
          "they are added";
  if (!all) why = "others were clipped with them, which were not traced";
  if (!why.empty()) {
    seen.note += "; its size is not judged: " + why;
  } else if (const double apart = -best_overlap(with(known, here)); apart <= 0) {
    seen.note += ", by their norm as in reference and twins";
  } else {
    // All are wrong alike: the first by name stands for them.
    const auto first =
        std::ranges::find_if(both, [&](const auto& name) { return wanted(behind(name)); });
    seen = {{of_another_norm(behind(*first), known.front(), here, apart)}, "", true};
  }
  return seen;
}

}  // namespace plumb::trace

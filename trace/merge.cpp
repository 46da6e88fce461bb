#include "trace/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "trace/joint.hpp"

namespace plumb::trace {
namespace {

std::map<std::string, std::vector<OfRank>> shards_by_id(const Trace& trace) {
  std::map<std::string, std::vector<OfRank>> by_id;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    auto next = by_id.begin();  // ids of a rank are in order: each lies behind the last
    for (const auto& [recorded, shard] : trace.ranks[r].shards) {
      const std::string_view id = without_recompute(recorded);
      if (next == by_id.end() || next->first != id) next = by_id.try_emplace(next, std::string(id));
      next->second.push_back({r, &shard});
      ++next;
    }
  }
  return by_id;
}

// The first NaN, or else the first infinity.
Finding first_not_finite(const std::string& id, const Whole& whole) {
  std::optional<std::size_t> found;
  float value = 0;
  Reading reading(whole);
  by_stretches(whole.size(), [&](std::size_t first, std::size_t n) {
    const float* x = reading(first, n);
    for (std::size_t e = 0; e < n; ++e) {
      if (std::isfinite(x[e]) || (found && !std::isnan(x[e]))) continue;
      found = first + e;
      value = x[e];
      if (std::isnan(value)) return false;
    }
    return true;
  });
  const std::size_t at = found.value_or(0);
  Finding f{id, "structure", infinite,
            fmt::format("element ({}, {}) is not finite", at / whole.cols, at % whole.cols)};
  f.value = value;
  return f;
}

// Returns the tensor, and what a pass over it shows.
Tensor read_whole(const Whole& whole, Shown& seen) {
  Tensor tensor(whole.rows, whole.cols, to_be_written);
  by_stretches(tensor.size(), [&](std::size_t first, std::size_t n) {
    float* into = tensor.values.data() + first;
    const float* x = whole.elements->at(first, n, into);
    if (x != into) std::copy(x, x + n, into);
    whole.elements->hold_together(first, n, seen.disagreements);
    seen.finite = seen.finite && all_finite(into, n);
    return true;
  });
  return tensor;
}

}  // namespace

bool all_finite(const float* x, std::size_t n) {
  std::uint32_t largest = 0;  // magnitudes are ordered as their bits are
  for (std::size_t e = 0; e < n; ++e) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x[e]) & 0x7fffffffU);
  }
  return largest < 0x7f800000U;
}

Shown look_at(const Whole& whole) {
  Shown seen;
  Reading reading(whole);
  by_stretches(whole.size(), [&](std::size_t first, std::size_t n) {
    seen.finite = all_finite(reading(first, n), n) && seen.finite;
    whole.elements->hold_together(first, n, seen.disagreements);
    return true;
  });
  return seen;
}

std::string why_not_whole(const std::vector<Finding>& findings, const std::string& id) {
  const auto found = std::ranges::find(findings, id, &Finding::id);
  return found == findings.end() ? "" : " (" + found->detail + ")";
}

std::set<std::string> held_in_summands(const Trace& run) {
  std::set<std::string> ids;
  for (const RankRecord& rank : run.ranks) {
    for (const auto& [id, shard] : rank.shards) {
      if (shard.placement.parts > 1) ids.emplace(without_recompute(id));
    }
  }
  return ids;
}

std::string_view without_recompute(std::string_view id) {
  constexpr std::string_view mark = "@recompute";
  return id.ends_with(mark) ? id.substr(0, id.size() - mark.size()) : id;
}

Run::Run(const Trace& trace) : unfit_(trace.unfit) {
  for (auto& [id, shards] : shards_by_id(trace)) {
    auto joint = std::make_shared<const Joint>(id, std::move(shards), trace.ranks.size(),
                                               !trace.manifest.settings.contains("sketch"));
    if (joint->whole()) {
      values.emplace_hint(values.end(), id,
                          Whole(joint->rows(), joint->cols(), joint, joint->format()));
    } else {
      broken_.emplace(id, joint->findings({}));
    }
  }
}

Run::Run(const Merged& merged)
    : findings(merged.findings), not_finite(merged.not_finite), merged_(true) {
  for (const auto& [id, tensor] : merged.values) {
    values.emplace_hint(values.end(), id, Whole(tensor, merged.formats.at(id)));
  }
}

void Run::tell(const std::map<std::string, Shown>& seen) {
  if (merged_) return;
  auto by_id = broken_;
  auto at = values.begin();  // both are in order
  for (const auto& [id, of_one] : seen) {
    while (at->first != id) ++at;
    const Whole& whole = at->second;
    if (auto found = whole.elements->findings(of_one.disagreements); !found.empty())
      by_id.emplace(id, std::move(found));
    if (!of_one.finite) not_finite.push_back(first_not_finite(id, whole));
  }
  for (auto& [id, of_one] : by_id) findings.insert(findings.end(), of_one.begin(), of_one.end());
  findings.insert(findings.end(), unfit_.begin(), unfit_.end());
}

Merged merge(const Trace& trace) {
  Run run(trace);
  Merged merged;
  std::map<std::string, Shown> seen;
  for (const auto& [id, whole] : run.values) {
    Shown& of_one = seen.try_emplace(seen.end(), id)->second;
    merged.values.emplace_hint(merged.values.end(), id,
                               std::make_shared<const Tensor>(read_whole(whole, of_one)));
    merged.formats.emplace_hint(merged.formats.end(), id, whole.format);
  }
  run.tell(seen);
  merged.findings = std::move(run.findings);
  merged.not_finite = std::move(run.not_finite);
  return merged;
}

Merged merged_of(const Values& values, const std::map<std::string, Format>& formats) {
  Merged merged{values, formats, {}, {}};
  for (const auto& [id, tensor] : values) {
    if (!all_finite(tensor->values.data(), tensor->size()))
      merged.not_finite.push_back(first_not_finite(id, Whole(*tensor)));
  }
  return merged;
}

}  // namespace plumb::trace

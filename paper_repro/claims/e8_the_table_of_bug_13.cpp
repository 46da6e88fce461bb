#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

// Multiples of epsilon that the authors printed.
std::string published_of(const std::string& name) {
  static const std::map<std::string, std::string> known{
      {"m0/layers.23.mlp.fc2.weight/wgrad", "0.7"},
      {"m0/layers.23.attn.proj.weight/wgrad", "0.6"},
      {"m0/layers.23.attn.qkv.weight/wgrad", "16.9"},
      {"m0/layers.23.attn.qkv.bias/wgrad", "8.6"},
      {"m0/layers.22.attn.qkv.weight/wgrad", "18.1"}};
  const auto found = known.find(name);
  return found == known.end() ? "" : found->second;
}

// What one seed's rows say, in the order of backward.
struct Case {
  double before = 0;  // the largest error before the bug's first effect, in epsilon
  double jump = 0;    // of the first weight behind it, over that
  double at = 0;      // its error in epsilon
  std::string where;
};

Case case_of(const Rows& rows, std::vector<std::vector<std::string>>* lines) {
  Case seen;
  for (const Row& row : rows) {
    const bool behind = row.yes("downstream"), weight = row["name"].ends_with("weight/wgrad");
    if (lines != nullptr && (lines->size() < 20 || !published_of(row["name"]).empty())) {
      lines->push_back({row["name"], row["healthy_error"], row["healthy_eps"], row["broken_error"],
                        row["broken_eps"], published_of(row["name"])});
    }
    if (!behind && seen.where.empty()) {
      seen.before = std::max(seen.before, row.number("broken_error") / 0x1p-7);
    }
    if (!behind || !weight || !seen.where.empty()) continue;
    seen.where = row["name"];
    seen.at = row.number("broken_error") / 0x1p-7;
    seen.jump = seen.at / seen.before;
  }
  return seen;
}

Answer judge(const Evidence& evidence) {
  const Rows all =
      where(evidence.rows("case-studies"), {{"case", "bug-13"}, {"table", "gradients"}});
  std::vector<std::vector<std::string>> lines;
  double before = 0, least = 1e300, most = 0, low = 1e300, high = 0;
  std::string at;
  for (const std::string& seed : values_of(all, "seed")) {
    const Case seen = case_of(where(all, {{"seed", seed}}), lines.empty() ? &lines : nullptr);
    before = std::max(before, seen.before);
    least = std::min(least, seen.jump);
    most = std::max(most, seen.jump);
    low = std::min(low, seen.at);
    high = std::max(high, seen.at);
    at = seen.where;
  }
  const bool agrees = before <= 0.7 && at == "m0/layers.23.attn.qkv.weight/wgrad" &&
                      least >= 17.0 / 2 && most <= 24 * 2;
  return {agrees ? Agreement::yes : Agreement::partly,
          fmt::format(
              "at most {:.2f} epsilon before; {} is {:.0f} to {:.0f} times as far off, by {:.1f} "
              "to {:.1f} epsilon",
              before, at, least, most, low, high),
          {},
          table({"gradient, in the order of backward", "healthy, error", "epsilon",
                 "with the bug, error", "epsilon", "published, epsilon"},
                lines)};
}

}  // namespace

extern const Claim e8_the_table_of_bug_13{
    .id = "E8",
    .says =
        "With bug 13 all before the first attention backward is right, and its weight is 17 to 24 "
        "times as far off as what came before",
    .where = "the authors' report of bug 13 (Megatron-LM 1464), 24 layers, CP2",
    .source = Source::artefact,
    .published = "0.5 to 0.7 epsilon before, 16.9 at L23's qkv weight",
    .reading =
        "Agreement is: nothing above 0.7 epsilon before, the jump at the same weight, and its error "
        "over the largest before within a factor of two of theirs. The bias, which jumps there to "
        "8.6, does not here: the card exchanges rows, which a sum over rows does not notice. Width "
        "128 where theirs is 1024: sizes in epsilon differ.",
    .rows = {{"case-studies", "bug-13 1 "}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

#include "trace/messages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "number/words.hpp"
#include "trace/message_parts.hpp"

namespace plumb::trace {
namespace {

constexpr const char* prefix = "messages/";

// A call of a group: what each of its ranks recorded of it.
struct GroupCall {
  std::vector<const Message*> of;  // in the order of the group
  const Message& first() const { return *of.front(); }
  std::size_t size() const { return of.size(); }
  int rank(std::size_t place) const { return first().group[place]; }
};

bool sums(const Message& m) {
  return m.op == "all_reduce" || m.op == "reduce" || m.op == "reduce_scatter";
}

// How many pieces the rank at this place gives and gets.
std::pair<std::size_t, std::size_t> pieces(const GroupCall& call, std::size_t place) {
  const std::string& op = call.first().op;
  const std::size_t n = call.size();
  const bool root = call.rank(place) == call.first().root;
  if (op == "all_reduce") return {1, 1};
  if (op == "reduce") return {1, root ? 1 : 0};
  if (op == "reduce_scatter") return {n, 1};
  if (op == "all_gather") return {1, n};
  if (op == "gather") return {1, root ? n : 0};
  if (op == "broadcast") return {root ? 1 : 0, 1};
  if (op == "scatter") return {root ? n : 0, 1};
  return {n, n};  // all_to_all
}

const std::vector<std::string> known_ops{"all_reduce", "reduce",    "reduce_scatter", "all_gather",
                                         "gather",     "broadcast", "scatter",        "all_to_all"};
const std::vector<std::string> known_reductions{"sum", "avg", "min", "max"};

// The place of the rank that gives piece `p` of what the one at `place` gets, and which of its
// pieces; of a sum all give one.
std::vector<Part> from(const GroupCall& call, std::size_t place, std::size_t p) {
  const std::string& op = call.first().op;
  const auto given = [&](std::size_t by, std::size_t piece) {
    return part(*call.of[by], call.rank(by), true, piece);
  };
  if (sums(call.first())) {
    std::vector<Part> all;
    for (std::size_t by = 0; by < call.size(); ++by)
      all.push_back(given(by, op == "reduce_scatter" ? place : 0));
    return all;
  }
  if (op == "all_gather" || op == "gather") return {given(p, 0)};
  if (op == "all_to_all") return {given(p, place)};
  const auto& group = call.first().group;
  const auto root =
      static_cast<std::size_t>(std::ranges::find(group, call.first().root) - group.begin());
  return {given(root, op == "scatter" ? place : 0)};
}

// Why the ranks did not make one call; empty: they did.
std::string out_of_step(const GroupCall& call) {
  for (std::size_t place = 0; place < call.size(); ++place) {
    const Message &one = call.first(), &other = *call.of[place];
    const auto said = [&](const Message& m, int rank) {
      return fmt::format("rank {} calls {}{}{}{}", rank, m.op,
                         m.reduce.empty() ? "" : " " + m.reduce,
                         m.root < 0 ? "" : fmt::format(" with root {}", m.root),
                         m.at.empty() ? "" : " at " + m.at);
    };
    if (one.op != other.op || one.reduce != other.reduce || one.root != other.root)
      return said(one, call.rank(0)) + ", and " + said(other, call.rank(place));
  }
  return {};
}

std::string wrong_sizes(const GroupCall& call) {
  for (std::size_t place = 0; place < call.size(); ++place) {
    const auto [given, got] = pieces(call, place);
    const Message& m = *call.of[place];
    // What a rank hands in that has no part in it is nobody's.
    if (m.given.size() >= given && m.got.size() >= got) continue;
    return fmt::format("rank {} gives {} and gets {}, where {} and {} belong to the call",
                       call.rank(place), how_many(m.given.size(), "piece"), m.got.size(), given,
                       got);
  }
  for (std::size_t place = 0; place < call.size(); ++place) {
    for (std::size_t p = 0; p < pieces(call, place).second; ++p) {
      const std::size_t takes = call.of[place]->got[p];
      for (const Part& x : from(call, place, p)) {
        if (x.size == takes) continue;
        return fmt::format("rank {} gives rank {} {}, which takes {}", x.rank, call.rank(place),
                           how_many(x.size, "number"), takes);
      }
    }
  }
  return {};
}

class Group {
 public:
  Group(const std::vector<int>& ranks, const std::vector<std::vector<const Message*>>& calls,
        Replayed& out)
      : ranks_(ranks), calls_(calls), out_(out) {}

  void judge() {
    const auto number_of = [](const auto& of_rank) { return of_rank.size(); };
    const std::size_t most = std::ranges::max(calls_, {}, number_of).size();
    for (std::size_t n = 0; n < most; ++n) {
      const auto lacks = [&](const auto& of_rank) { return of_rank.size() <= n; };
      if (std::ranges::any_of(calls_, lacks)) return lacking(n);
      GroupCall call;
      for (const auto& of_rank : calls_) call.of.push_back(of_rank[n]);
      if (const std::string why = out_of_step(call); !why.empty())
        return found(name_of(call.first(), n), why + behind);
      judge(call, n);
    }
  }

 private:
  static constexpr const char* behind = "; calls of the group behind it are not judged";

  std::string name_of(const Message& m, std::size_t n) const {
    return fmt::format("{}{} {} of ranks {}", prefix, m.op, n + 1, fmt::join(ranks_, ", "));
  }
  void found(const std::string& id, std::string why) {
    out_.findings.push_back({id, "replay", infinite, std::move(why)});
  }

  void lacking(std::size_t n) {
    const auto has = std::ranges::find_if(calls_, [&](const auto& of) { return of.size() > n; });
    const auto not_it =
        std::ranges::find_if(calls_, [&](const auto& of) { return of.size() <= n; });
    const auto rank = [&](auto of) {
      return ranks_[static_cast<std::size_t>(of - calls_.begin())];
    };
    const Message& m = *(*has)[n];
    found(name_of(m, n), fmt::format("rank {} calls it{}, and rank {} does not{}", rank(has),
                                     m.at.empty() ? "" : " at " + m.at, rank(not_it), behind));
    out_.findings.back().rank = rank(not_it);
  }

  void judge(const GroupCall& call, std::size_t n) {
    const Message& m = call.first();
    const std::string id = name_of(m, n);
    const auto knows = [](const auto& all, const std::string& name) {
      return std::ranges::find(all, name) != all.end();
    };
    if (!knows(known_ops, m.op) || (sums(m) && !knows(known_reductions, m.reduce))) {
      out_.not_judged.push_back(id + ": plumb does not know what such a call makes" +
                                (m.reduce.empty() ? "" : " by " + m.reduce));
      return;
    }
    if (const std::string why = wrong_sizes(call); !why.empty()) return found(id, why);
    PartJudged worst;
    for (std::size_t place = 0; place < call.size(); ++place) {
      for (std::size_t p = 0; p < pieces(call, place).second; ++p) {
        const Part out = part(*call.of[place], call.rank(place), false, p);
        if (out.size == 0) continue;
        PartJudged one = judge_part({out, from(call, place, p), place});
        if (one.ratio > worst.ratio) worst = std::move(one);
      }
    }
    out_.ratios[id] = worst.ratio;
    if (!worst.finding) return;
    worst.finding->id = id;
    out_.findings.push_back(std::move(*worst.finding));
  }

  const std::vector<int>& ranks_;
  const std::vector<std::vector<const Message*>>& calls_;  // by place in the group
  Replayed& out_;
};

}  // namespace

bool is_message(const std::string& id) { return id.starts_with(prefix); }

Replayed judge_messages(const std::vector<std::vector<Message>>& by_rank) {
  std::map<std::vector<int>, std::vector<std::vector<const Message*>>> groups;
  std::vector<std::vector<int>> order;  // in which groups are first called
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const Message& m : by_rank[rank]) {
      auto [group, is_new] = groups.try_emplace(m.group, m.group.size());
      if (is_new) order.push_back(m.group);
      const auto place = std::ranges::find(m.group, static_cast<int>(rank)) - m.group.begin();
      group->second[static_cast<std::size_t>(place)].push_back(&m);
    }
  }
  Replayed out;
  for (const std::vector<int>& ranks : order) Group(ranks, groups.at(ranks), out).judge();
  return out;
}

}  // namespace plumb::trace

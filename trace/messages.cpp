#include "trace/messages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

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
  bool gives_numbers() const {
    return std::ranges::any_of(of, [](const Message* m) {
      return std::ranges::any_of(m->given, [](std::size_t n) { return n > 0; });
    });
  }
};

// Who gives or gets what in a collective: one piece, or one for each rank; all ranks, or the root.
struct Side {
  bool each = false, root = false;
};
struct Collecting {
  std::string_view name;
  bool sums;
  Side gives, gets;
};
constexpr Side all_one{}, all_each{true, false}, root_one{false, true}, root_each{true, true};
constexpr std::array<Collecting, 8> collectives{{{"all_reduce", true, all_one, all_one},
                                                 {"reduce", true, all_one, root_one},
                                                 {"reduce_scatter", true, all_each, all_one},
                                                 {"all_gather", false, all_one, all_each},
                                                 {"gather", false, all_one, root_each},
                                                 {"broadcast", false, root_one, all_one},
                                                 {"scatter", false, root_each, all_one},
                                                 {"all_to_all", false, all_each, all_each}}};
constexpr std::array<std::string_view, 4> reductions{"sum", "avg", "min", "max"};

// Null: what comes out is not known.
const Collecting* known(const Message& m) {
  const auto found = std::ranges::find(collectives, m.op, &Collecting::name);
  if (found == collectives.end()) return nullptr;
  if (found->sums && std::ranges::find(reductions, m.reduce) == reductions.end()) return nullptr;
  if ((found->gives.root || found->gets.root) && m.root < 0) return nullptr;
  return &*found;
}

// A call of a group, of a kind that is known.
class Known {
 public:
  Known(const GroupCall& call, const Collecting& how) : call_(call), how_(how) {}

  // Why the sizes do not fit; empty: they do.
  std::string wrong_sizes() const {
    for (std::size_t place = 0; place < call_.size(); ++place) {
      const std::size_t given = pieces(how_.gives, place), got = pieces(how_.gets, place);
      const Message& m = *call_.of[place];
      // What a rank hands in that has no part in it is nobody's.
      const bool takes = got == 0 || m.got.size() == got;
      if (m.given.size() >= given && takes) continue;
      return fmt::format("rank {} gives {} and gets {}, where {} and {} belong to the call",
                         call_.rank(place), how_many(m.given.size(), "piece"), m.got.size(), given,
                         got);
    }
    for (std::size_t place = 0; place < call_.size(); ++place) {
      for (std::size_t p = 0; p < pieces(how_.gets, place); ++p) {
        const std::size_t takes = call_.of[place]->got[p];
        for (const Part& x : from(place, p)) {
          if (x.size == takes) continue;
          return fmt::format("rank {} gives rank {} {}, which takes {}", x.rank, call_.rank(place),
                             how_many(x.size, "number"), takes);
        }
      }
    }
    return {};
  }

  PartJudged worst() const {
    PartJudged worst;
    for (std::size_t place = 0; place < call_.size(); ++place) {
      for (std::size_t p = 0; p < pieces(how_.gets, place); ++p) {
        const Part out = part(*call_.of[place], call_.rank(place), false, p);
        if (out.size == 0) continue;
        PartJudged one = judge_part({out, from(place, p), place});
        if (one.ratio > worst.ratio) worst = std::move(one);
      }
    }
    return worst;
  }

 private:
  std::size_t pieces(const Side& side, std::size_t place) const {
    if (side.root && call_.rank(place) != call_.first().root) return 0;
    return side.each ? call_.size() : 1;
  }

  // All that piece `p` of what the rank at `place` gets is made of.
  std::vector<Part> from(std::size_t place, std::size_t p) const {
    const auto given = [&](std::size_t by) {
      return part(*call_.of[by], call_.rank(by), true, how_.gives.each ? place : 0);
    };
    const auto& group = call_.first().group;
    if (how_.gives.root)
      return {given(
          static_cast<std::size_t>(std::ranges::find(group, call_.first().root) - group.begin()))};
    if (!how_.sums) return {given(p)};
    std::vector<Part> all;
    for (std::size_t by = 0; by < call_.size(); ++by) all.push_back(given(by));
    return all;
  }

  const GroupCall& call_;
  const Collecting& how_;
};

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
    const Collecting* how = known(m);
    if (how == nullptr) {
      out_.not_judged.push_back({id, "plumb does not know what such a call makes" +
                                         (m.reduce.empty() ? "" : " by " + m.reduce)});
      return;
    }
    const Known collective(call, *how);
    if (const std::string why = collective.wrong_sizes(); !why.empty()) return found(id, why);
    PartJudged worst = collective.worst();
    if (!worst.finding && !call.gives_numbers()) {
      out_.not_judged.push_back({id, "no rank gave a number"});
      return;
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

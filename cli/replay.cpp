#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "cli/colour.hpp"
#include "cli/json.hpp"
#include "cli/machine_options.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "number/words.hpp"
#include "trace/messages.hpp"
#include "trace/order.hpp"
#include "trace/partial_promise.hpp"
#include "trace/replay.hpp"
#include "trace/report/report.hpp"
#include "trace/structure.hpp"

namespace plumb::cli {
namespace {

// Refuses traces with missing tensors, as check does: they cannot be called healthy.
void refuse_missing(const Loaded& c, const std::string& folder) {
  for (const Node& node : c.trace.graph->nodes) {
    for (const std::string& id : node.outputs) {
      if (c.merged.values.contains(id)) continue;
      throw Failure(folder + " lacks the promised '" + id + "'" +
                    why_not_whole(c.merged.findings, id) + "; trace again");
    }
  }
}

Replayed by_promise(const Loaded& c, const std::string& name, const ReplayOptions& options) {
  refuse_missing(c, name);
  return replay(
      *c.trace.graph, c.merged, [](const std::string&) { return true; }, options);
}

// Of a trace that promises nothing: what its producer says of single tensors, and what ranks sent.
Replayed by_word(const Loaded& c, const std::string& name, const ReplayOptions& options) {
  const Run run(c.merged);
  const PartialPromise told({run, c.trace.about, c.trace.ranks.size()});
  if (told.empty() && !c.trace.messages) {
    throw Failure(
        name +
        " has no promise (graph.json), and no tensor says how it was made (made_by), so nothing "
        "can be replayed: plumb train writes a promise; a trace of another program is judged by "
        "check with the rules that need none");
  }
  const Hands hands{std::max(std::thread::hardware_concurrency(), 1U)};
  Replayed seen = told.replayed([](const std::string&) { return true; }, options, hands);
  for (const NotJudged& one : told.left_out()) seen.not_judged.push_back(one);
  if (c.trace.messages) {
    Replayed sent = judge_messages(*c.trace.messages);
    seen.ratios.merge(sent.ratios);
    seen.findings.insert(seen.findings.begin(), sent.findings.begin(), sent.findings.end());
    seen.not_judged.insert(seen.not_judged.end(), sent.not_judged.begin(), sent.not_judged.end());
  }
  for (const auto& [id, says] : c.trace.about) {
    if (!says.made_by && says.role != Role::given) {
      seen.not_judged.push_back({id, "nobody says how it was made"});
    }
  }
  return seen;
}

// Infinities that are given may be a mask's, and others made of one: only a reference would tell.
void add_not_finite(const std::vector<Finding>& not_finite, const Abouts& about, Replayed& seen,
                    std::vector<Finding>& damage) {
  const auto is_one = [&](const std::string& id) {
    return std::ranges::find(not_finite, id, &Finding::id) != not_finite.end();
  };
  const auto may_be_meant = [&](const std::string& id) {
    const auto says = about.find(id);
    if (says == about.end()) return false;
    const About& of = says->second;
    return of.role == Role::given ||
           (of.made_by && std::ranges::any_of(of.made_by->inputs, is_one)) ||
           (of.from && std::ranges::any_of(*of.from, is_one));
  };
  for (const Finding& f : not_finite) {
    if (!std::isinf(f.value.value_or(0)) || !may_be_meant(f.id)) {
      damage.push_back(f);
    } else if (!seen.ratios.contains(f.id)) {
      seen.not_judged.push_back({f.id, "holds infinities, as a mask does; a reference would tell"});
    }
  }
}

struct Counts {
  std::size_t equal = 0, outside = 0;
};

Counts counts_of(const Replayed& seen) {
  Counts counts;
  for (const auto& [id, ratio] : seen.ratios) {
    counts.equal += ratio == 0 ? 1 : 0;
    counts.outside += ratio > 1 ? 1 : 0;
  }
  return counts;
}

// Who is to blame: the first, where the order of dataflow is known. Else nobody.
std::string blamed(const Replayed& seen, const DataflowOrder& order) {
  const bool known = std::ranges::all_of(seen.findings, [&](const Finding& f) {
    return order.knows(f.id) || order.given(f.id) || is_of_file(f) || is_message(f.id);
  });
  return seen.findings.empty() || !known ? "" : seen.findings.front().id;
}

int code_of(const Replayed& seen) {
  return !seen.findings.empty() ? 1 : seen.ratios.empty() ? 3 : 0;
}

void tell_json(const Replayed& seen, const std::string& blamed) {
  const auto [equal, outside] = counts_of(seen);
  nlohmann::json tensors = nlohmann::json::array();
  for (const auto& [id, ratio] : seen.ratios) tensors.push_back({{"id", id}, {"ratio", ratio}});
  std::vector<std::string> not_judged;
  for (const NotJudged& one : seen.not_judged) not_judged.push_back(one.text());
  print_document("plumb-replay/1", {{"exit_code", code_of(seen)},
                                    {"blamed", blamed},
                                    {"equal", equal},
                                    {"within", seen.ratios.size() - equal - outside},
                                    {"outside", outside},
                                    {"tensors", tensors},
                                    {"findings", json_of(seen.findings)},
                                    {"not_judged", not_judged}});
}

void tell(const Replayed& seen, const std::string& blamed) {
  const auto [equal, outside] = counts_of(seen);
  fmt::print(
      "{} replayed: {} equal bit by bit, {} within their local tolerance, "
      "{} outside; {} not judged\n",
      how_many(seen.ratios.size(), "tensor"), equal, seen.ratios.size() - equal - outside, outside,
      seen.not_judged.size());
  for (const Finding& f : seen.findings) {
    fmt::print("  {} {} ratio {}: {}\n", f.id, f.statistic, ratio_text(f.ratio), f.detail);
  }
  const std::size_t shown = std::min<std::size_t>(seen.not_judged.size(), 5);
  for (std::size_t i = 0; i < shown; ++i) say("not judged: {}\n", seen.not_judged[i].text());
  if (shown < seen.not_judged.size()) {
    fmt::print("... and {} more not judged: --json names all\n", seen.not_judged.size() - shown);
  }
  if (!blamed.empty()) say("blamed: {}\n", blamed);
}

}  // namespace

void add_replay(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand(
      "replay", "compute each operation again from the trace's own inputs; needs no reference");
  static std::string candidate;
  static MachineOptions on;
  static ReplayOptions options;
  verb->add_option("CAND", candidate, "trace of the candidate")->required();
  on.add_to(*verb, "of the bounds: deterministic or probabilistic");
  auto* level = verb->add_option("--false-alarm", options.false_alarm,
                                 "chance of any false alarm in a healthy run, of probabilistic");
  level->capture_default_str()->check(numbers(1e-12, 1));
  static bool as_json = false;
  add_json(*verb, as_json);
  verb->footer(verdict_codes);
  verb->callback([&chosen, level, verb] {
    chosen = [level, verb] {
      options = replay_options(on, options.false_alarm);
      if (options.mode != Mode::probabilistic && level->count() > 0) {
        throw Failure("--false-alarm is of --mode probabilistic, this is " + on.mode +
                      "; change the mode or leave --false-alarm out");
      }
      const Loaded c = load(candidate);
      if (!c.trace.graph && verb->count("--machine") == 0) {
        options.machine = &machine_from("libraries");
      }
      Replayed seen =
          c.trace.graph ? by_promise(c, candidate, options) : by_word(c, candidate, options);
      std::vector<Finding> damage =
          c.merged.findings;  // before the rest: what follows may be made of it
      if (!c.trace.graph) {
        add_not_finite(c.merged.not_finite, c.trace.about, seen, damage);
      } else if (!left_out(*c.trace.graph, Run(c.merged).values)) {
        damage.insert(damage.end(), c.merged.not_finite.begin(), c.merged.not_finite.end());
      }
      seen.findings.insert(seen.findings.begin(), damage.begin(), damage.end());
      const DataflowOrder order =
          c.trace.graph ? DataflowOrder(*c.trace.graph) : DataflowOrder(c.trace.about);
      put_in_order(seen.findings, order);
      as_json ? tell_json(seen, blamed(seen, order)) : tell(seen, blamed(seen, order));
      return code_of(seen);
    };
  });
}

}  // namespace plumb::cli

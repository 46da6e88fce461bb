#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/colour.hpp"
#include "cli/verbs.hpp"
#include "model/plan/rewriting.hpp"
#include "number/words.hpp"

namespace plumb::cli {
namespace {

void tell(const Verdict& v) {
  if (v.findings.empty())
    say("{}{}\n", v.exit_code() == 0 ? "nothing to blame: " : "", headline(v));
  for (const std::string& note : v.notes) say("note: {}\n", note);
  if (v.findings.empty()) return;
  if (!v.blamed.empty()) {
    say("blamed: {}\nby: {}\n", v.blamed, v.blamed_by);
    fmt::print("first to differ: {}\n", v.findings.front().id);
  } else {
    fmt::print("{}, of which the first by name: {} ({}): {}\n",
               how_many(v.findings.size(), "finding"), v.findings.front().id,
               v.findings.front().statistic, v.findings.front().detail);
  }
  for (const Finding& f : v.findings) {
    if (!is_wrong_by_itself(f)) continue;
    say("wrong by itself: {} ({}): {}\n", f.id, f.statistic, f.detail);
  }
}

// Of the same runs, rewritten.
void tell_rewritten(const Verdict& v) {
  if (v.findings.empty())
    return say("by rewriting: {}{}\n", v.exit_code() == 0 ? "no module is wrong by itself: " : "",
               headline(v));
  say("by rewriting: {}\n", fmt::join(modules_of(v.findings), ", "));
  fmt::print("first there: {}: {}\n", v.findings.front().id, v.findings.front().detail);
}

nlohmann::json json_of_rewritten(const Verdict& v) {
  return {{"exit_code", v.exit_code()},
          {"modules", modules_of(v.findings)},
          {"first", v.findings.empty() ? "" : v.findings.front().id}};
}

void tell_json(const Verdict& v, int step, const std::optional<Verdict>& rewritten) {
  using nlohmann::json;
  json wrong = json::array();
  for (const Finding& f : v.findings) {
    if (!is_wrong_by_itself(f)) continue;
    wrong.push_back({{"id", f.id}, {"statistic", f.statistic}, {"detail", f.detail}});
  }
  const std::string first = v.blamed.empty() ? "" : v.findings.front().id;
  json blame{{"type", "blame"},          {"schema", "plumb-blame/1"}, {"exit_code", v.exit_code()},
             {"blamed", v.blamed},       {"blamed_by", v.blamed_by},  {"first_to_differ", first},
             {"wrong_by_itself", wrong}, {"headline", headline(v)}};
  if (step > 0) blame["step"] = step;
  if (rewritten) blame["rewritten"] = json_of_rewritten(*rewritten);
  fmt::print("{}\n", blame.dump());
}

}  // namespace

void add_localize(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("localize", "which module is to blame? in dataflow order");
  static std::string reference, candidate;
  static std::vector<std::string> rewritten;
  static CheckCommand command;
  verb->add_option("REF", reference,
                   "trace of the reference, or a run of which every step is traced")
      ->required();
  verb->add_option("CAND", candidate, "trace of the candidate, or such a run (--resync)")
      ->required();
  verb->add_option("--rewritten", rewritten,
                   "the same two runs, each made with --rewrite: says besides which modules are "
                   "wrong where no error travels from one to the next")
      ->expected(2);
  command.add_to(*verb);
  add_placement(*verb, command.placement);
  verb->footer(verdict_codes);
  verb->callback([&chosen] {
    chosen = [] {
      std::optional<Verdict> by_rewriting;
      if (!rewritten.empty()) {
        by_rewriting = command.compare_rewritten(rewritten[0], rewritten[1], candidate);
      }
      const std::vector<StepVerdict> all = command.compare(reference, candidate);
      const auto& [step, v] = CheckCommand::to_look_at(all);
      if (step > 0 && !command.json) fmt::print("step: {}\n", step);
      command.json ? tell_json(v, step, by_rewriting) : tell(v);
      if (by_rewriting && !command.json) tell_rewritten(*by_rewriting);
      command.write_reports(all);
      const int code = CheckCommand::exit_code(all);
      return by_rewriting && by_rewriting->exit_code() == 1 ? 1 : code;
    };
  });
}

}  // namespace plumb::cli

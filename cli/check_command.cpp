#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>
#include <thread>

#include "cli/colour.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "model/plan/verify.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/report/report.hpp"
#include "trace/rules.hpp"
#include "trace/selection.hpp"
#include "trace/store/store.hpp"
#include "trace/twin_traces.hpp"

namespace plumb::cli {

constexpr int most_twins = 64;

void CheckCommand::add_to(CLI::App& verb) {
  verb.add_option("--rule", rules,
                  "comma-separated: twins, replay, perturbation, depth-law, flat, assert-close "
                  "(default twins,replay)");
  verb.add_option(
          "--false-alarm", options.false_alarm,
          "chance of any false alarm in a healthy run, of rule twins (what stands out by them alone at "
          "ten times as much has to be found by six times as many, up to 0.01 at a tenth of it, too); of rule "
          "replay in the mode probabilistic as much again")
      ->capture_default_str()
      ->check(numbers(1e-12, 1));
  verb.add_option(
          "--twins", twins,
          "of rule twins: how many further executions of the promise (4; 2 with --spreads); "
          "or, where there is no promise, traces that the producer made as twins of REF")
      ->expected(1, most_twins)
      ->check(numbers_or_traces(2, most_twins));
  verb.add_option("--exact", options.exact,
                  "ids that are equal where none of the traces of --twins moves them");
  verb.add_option("--spreads", spreads,
                  "how twins of this model scatter (made by plumb spreads): two twins are enough");
  verb.add_option("--margin", options.margin, "of rule perturbation")
      ->capture_default_str()
      ->check(numbers(1e-6, 1e6));
  on.add_to(verb, "of the bounds of rule replay: deterministic or probabilistic");
  verb.add_option("--perturbed", perturbed, "trace of a perturbed reference, of rule perturbation");
  verb.add_option(
      "--better", better,
      "trace of the same step in more digits, say of the recipe fp32: how much do REF and "
      "CAND err against it?");
  verb.add_option("--only", options.only, "judge only ids that match this regular expression");
  verb.add_option("--skip", options.skip, "do not judge ids that match");
  verb.add_option("--allow-unmatched", options.allow_unmatched, "ids that one trace may lack");
  verb.add_option(
          "--report", reports,
          "write a report: .html, .txt, .md, .jsonl, .csv or .xml (JUnit); once for each file")
      ->allow_extra_args(false)  // one each: the next word is not a report
      ->check(report_files());
  verb.add_flag("--force", force, "let --report replace a file that is no report");
  verb.add_flag("--json", json, "print JSON lines instead of text");
  verb_ = &verb;
}

// How many twins are asked for, if a number was said.
static std::optional<int> number_of(const std::vector<std::string>& twins) {
  const bool one = twins.size() == 1 && is_number(twins.front());
  return one ? std::optional(std::stoi(twins.front())) : std::nullopt;
}

void CheckCommand::refuse_odd_twins() const {
  const bool traces = !twins.empty() && !number_of(twins);
  const auto number = std::ranges::find_if(twins, is_number);
  if (traces && number != twins.end()) {
    throw Failure("--twins got traces and the number " + *number +
                  "; give one or the other (a folder of that name is ./" + *number + ")");
  }
  if (traces && twins.size() < 3) {
    throw Failure("--twins got " + how_many(twins.size(), "trace") + ", first '" + twins.front() +
                  "', and fewer than three do not say how twins scatter; name three or more, "
                  "better four");
  }
  if (number_of(twins) == 2 && spreads.empty()) {
    throw Failure(
        "--twins 2 is for --spreads: without stored spreads two twins do not say how "
        "twins scatter; ask for three or more, better four");
  }
  if (traces && !spreads.empty()) {
    throw Failure(
        "--spreads is of twins that plumb makes, and --twins names others; leave one out");
  }
  if (!traces && verb_->count("--exact") > 0) {
    throw Failure(
        "--exact is of twins that are given as traces; name them (--twins TRACE TRACE "
        "...) or leave --exact out");
  }
}

CheckOptions CheckCommand::ready(Beside& beside) const {
  CheckOptions ready = options;
  refuse_odd_twins();
  const auto number = number_of(twins);
  if (!twins.empty() && !number) ready.rules = {"twins"};
  if (number) ready.twins = *number;
  if (!rules.empty()) {
    ready.rules.clear();
    std::istringstream parts(rules);
    for (std::string rule; std::getline(parts, rule, ',');) ready.rules.push_back(rule);
    if (rules.ends_with(',')) ready.rules.emplace_back();
  }
  if (force && reports.empty())
    throw Failure("--force is of --report; name a file, or leave --force out");
  for (const auto& [option, rule] : {std::pair{"--false-alarm", "twins"},
                                     {"--twins", "twins"},
                                     {"--exact", "twins"},
                                     {"--spreads", "twins"},
                                     {"--machine", "replay"},
                                     {"--mode", "replay"},
                                     {"--margin", "perturbation"},
                                     {"--perturbed", "perturbation"}}) {
    const bool asked = std::ranges::find(ready.rules, rule) != ready.rules.end();
    const bool by_chance = on.mode == "probabilistic" && option == std::string("--false-alarm");
    const bool if_told = rule == std::string("replay") && rules.empty();  // with given twins
    if (asked || by_chance || if_told || verb_->count(option) == 0) continue;
    throw Failure(std::string(option) + " is of the rule " + rule +
                  ", which is not asked for; add it to --rule or leave " + option + " out");
  }
  refuse_unknown_rules(ready.rules);
  const Selection expressions(ready.only, ready.skip);  // that they are some
  const Pattern unmatched(ready.allow_unmatched, "--allow-unmatched");
  const Pattern exact(ready.exact, "--exact");
  if (!twins.empty() && !number) {
    for (const std::string& folder : twins) {
      Trace twin = read_trace(folder);
      // One of the candidate has its names, and lies as it does.
      if (!placement.empty() && is_of_candidate(twin))
        twin = read_trace(folder, Overrides(placement));
      beside.twins.push_back(std::move(twin));
    }
    for (const Trace& twin : beside.twins) ready.given.push_back(&twin);
  }
  if (!perturbed.empty()) {
    beside.perturbed = load_to_check(perturbed).trace;
    ready.perturbed = &beside.perturbed;
  }
  if (!better.empty()) {
    beside.better = load_to_check(better).trace;
    ready.better = &beside.better;
  }
  if (!spreads.empty()) {
    beside.spreads = read_spreads(spreads);
    auto& settings = beside.spreads.of.settings;
    settings = in_present_units(std::move(settings));
    ready.spreads = &beside.spreads;
    if (verb_->count("--twins") == 0) ready.twins = 2;
  }
  const bool speaks = options.hands.job == nullptr || options.hands.job->rank() == 0;
  if (speaks) {
    for (const std::string& file : reports) check_report(file, force);
    ready.progress = talk;
  }
  ready.replay = replay_options(on, ready.false_alarm);
  ready.multiply = multiply_on(*ready.replay.machine);
  ready.hands.threads = std::max(std::thread::hardware_concurrency(), 1U);
  return ready;
}

static ToJudge to_judge(const Loaded& run) {
  return {run.trace, run.trace.graph ? &run.merged : nullptr};
}

// Without a promise: the rule replay where there is something that it may judge, by bounds that any
// library keeps.
CheckOptions CheckCommand::for_runs(const Loaded& r, const Loaded& c,
                                    const CheckOptions& asked) const {
  CheckOptions all = asked;
  if (r.trace.graph || c.trace.graph) return all;
  if (verb_->count("--machine") == 0) all.replay.machine = &machine_from("libraries");
  if (all.given.empty() || !rules.empty()) return all;
  if (replay_has_ground(r.trace, c.trace)) {
    all.rules.push_back("replay");
    return all;
  }
  for (const char* option : {"--machine", "--mode"}) {
    if (verb_->count(option) == 0) continue;
    throw Failure(std::string(option) +
                  " is of the rule replay, and nothing says how any tensor was made (made_by); "
                  "leave it out");
  }
  return all;
}

// How a run is rewritten; "none" if it is not.
static std::string rewriting_of(const Manifest& manifest) {
  const auto found = manifest.settings.find("rewrite");
  return found == manifest.settings.end() ? "none" : found->second;
}

Verdict CheckCommand::judged(const Loaded& r, const Loaded& c, const CheckOptions& asked) const {
  Verdict verdict = check(to_judge(r), to_judge(c), for_runs(r, c, asked));
  for (const std::string& claim : unseen_claims(c.trace.manifest)) verdict.notes.push_back(claim);
  asked.progress("");
  return verdict;
}

Verdict CheckCommand::compare_rewritten(const std::string& reference, const std::string& candidate,
                                        const std::string& normal) const {
  if (!traces_of(normal).empty()) {
    throw Failure("--rewritten is of one step, and " + normal +
                  " has several; name the traces of that step");
  }
  if (!twins.empty() && !number_of(twins)) {
    throw Failure(
        "--rewritten is of runs whose twins plumb draws; of others check the rewritten runs by "
        "themselves, with their own twins: plumb check " +
        reference + " " + candidate + " --twins ...");
  }
  const Loaded r = load_to_check(reference), c = load_to_check(candidate, placement);
  if (rewriting_of(c.trace.manifest) == "none") {
    throw Failure(candidate + " is no rewritten run; make it with plumb train --rewrite");
  }
  Manifest same = c.trace.manifest;
  same.settings.erase("rewrite");
  refuse_another_run(load_to_check(normal, placement).trace.manifest, same, "rewritten run");
  Beside beside;
  CheckOptions asked = ready(beside);
  if (asked.perturbed != nullptr) {
    throw Failure(
        "--perturbed is of runs that are not rewritten, and --rewritten asks for one more; check "
        "the rewritten traces by themselves");
  }
  return judged(r, c, asked);
}

static void refuse_another_start(const Loaded& r, const Loaded& c, const std::string& reference,
                                 const std::string& candidate) {
  const auto run_of = [](const Loaded& l) { return l.trace.graph ? Run(l.merged) : Run(l.trace); };
  const Run before = run_of(r), after = run_of(c);
  for (const auto& [id, tensor] : before.values) {
    const auto found = after.values.find(id);
    if (!id.ends_with("@previous") || found == after.values.end()) continue;
    if (equal(found->second, tensor)) continue;
    throw Failure(
        "step " + std::to_string(c.trace.manifest.step) + " of " + candidate +
        " starts from what the run itself made, not from the state of " + reference +
        "; let each step of it begin with the reference's state (plumb train does, with --resync " +
        reference + "), or replay each step");
  }
}

// Each trace of a run of several steps says from which to which step it goes.
static void refuse_missing_steps(const std::string& run,
                                 const std::map<int, std::filesystem::path>& traces,
                                 const Manifest& of_one) {
  const auto number = [&](const char* key, int otherwise) {
    const auto found = of_one.settings.find(key);
    return found == of_one.settings.end() ? otherwise : std::atoi(found->second.c_str());
  };
  const int first = number("first_step", traces.begin()->first);
  const int last = number("last_step", traces.rbegin()->first);
  for (int step = first; step <= last; ++step) {
    if (traces.contains(step)) continue;
    throw Failure(fmt::format(
        "{} lacks step {} of its steps {} to {}: its writer was stopped, or the trace was taken "
        "away; trace again",
        run, step, first, last));
  }
}

std::vector<StepVerdict> CheckCommand::compare(const std::string& reference,
                                               const std::string& candidate) const {
  Beside beside;
  CheckOptions asked = ready(beside);
  const auto of_reference = traces_of(reference), of_candidate = traces_of(candidate);
  if (of_reference.empty() || of_candidate.empty()) {
    return {{0, judged(load_to_check(reference), load_to_check(candidate, placement), asked)}};
  }
  const auto by_step = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::ranges::equal(of_reference, of_candidate, by_step)) {
    throw Failure(reference + " and " + candidate +
                  " have traces of other steps; trace the same steps of both (of plumb train: "
                  "--resync " +
                  reference + ")");
  }
  for (const auto& [given, option] : {std::pair{asked.perturbed != nullptr, "--perturbed is"},
                                      {asked.better != nullptr, "--better is"},
                                      {!asked.given.empty(), "traces of --twins are"}}) {
    if (!given) continue;
    throw Failure(std::string(option) + " of one step; check the traces of that step, as " +
                  of_candidate.begin()->second.string());
  }
  asked.false_alarm /= static_cast<double>(of_reference.size());
  std::vector<StepVerdict> all;
  for (const auto& [step, folder] : of_reference) {
    const Loaded r = load_to_check(folder), c = load_to_check(of_candidate.at(step), placement);
    refuse_missing_steps(reference, of_reference, r.trace.manifest);
    refuse_missing_steps(candidate, of_candidate, c.trace.manifest);
    if (step > of_reference.begin()->first) refuse_another_start(r, c, reference, candidate);
    all.push_back({step, judged(r, c, asked)});
  }
  return all;
}

int CheckCommand::exit_code(const std::vector<StepVerdict>& all) {
  const auto any = [&](int code) {
    return std::ranges::any_of(all, [&](const auto& j) { return j.verdict.exit_code() == code; });
  };
  return any(1) ? 1 : any(3) ? 3 : 0;
}

const StepVerdict& CheckCommand::to_look_at(const std::vector<StepVerdict>& all) {
  const int code = exit_code(all);
  if (code == 0) return all.back();
  return *std::ranges::find(all, code, [](const StepVerdict& j) { return j.verdict.exit_code(); });
}

int CheckCommand::told(const std::vector<StepVerdict>& all) const {
  const StepVerdict& shown = to_look_at(all);
  std::string text;
  for (const auto& [step, verdict] : all) {
    if (json) text += step_line(step) + json_lines(verdict);
    if (!json && step > 0)
      text += fmt::format("step {}: {}\n", step, painted_lines(headline(verdict)));
  }
  if (!json && shown.step > 0) text += fmt::format("step {} in full:\n", shown.step);
  if (!json) text += painted_lines(text_report(shown.verdict));
  std::fwrite(text.data(), 1, text.size(), stdout);
  write_reports(all);
  return exit_code(all);
}

void CheckCommand::write_reports(const std::vector<StepVerdict>& all) const {
  std::fflush(stdout);  // the verdict comes first: a report that cannot be written is trouble
  for (const std::string& file : reports) write_report(all, file, force);
}

void add_placement(CLI::App& verb, std::string& file) {
  verb.add_option("--placement", file,
                  "JSON that says how tensors of the candidate lie, or what they are called, in "
                  "place of what it says itself");
}

static Loaded read_alone(const std::string& folder, const Overrides& overrides) {
  Loaded loaded{read_trace(folder, overrides), {}};
  auto& settings = loaded.trace.manifest.settings;
  settings = in_present_units(std::move(settings));
  return loaded;
}

static void merge_it(Loaded& loaded, const std::string& folder) {
  try {
    loaded.merged = merge_verified(loaded.trace);
  } catch (const Failure& failure) {
    throw Failure(folder + ": " + failure.what());
  }
}

Loaded load(const std::string& folder) {
  Loaded loaded = read_alone(folder, {});
  merge_it(loaded, folder);
  return loaded;
}

Loaded load_to_check(const std::string& folder, const std::string& placement) {
  Loaded loaded = read_alone(folder, placement.empty() ? Overrides() : Overrides(placement));
  if (loaded.trace.graph) merge_it(loaded, folder);
  return loaded;
}

}  // namespace plumb::cli

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/columns.hpp"
#include "cli/experiment.hpp"
#include "cli/json.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "paper_repro/by_hand.hpp"
#include "paper_repro/claim.hpp"
#include "paper_repro/print.hpp"
#include "trace/store/disk.hpp"

namespace plumb::cli {
namespace {

struct PaperAsked {
  std::string id, rerun, rows;
  bool smoke = false, json = false;
  double minutes = 1e6;
};

nlohmann::json json_of_claim(const Claim& claim, const Evidence& evidence) {
  const Answer answer = judged(claim, evidence);
  nlohmann::json rows = nlohmann::json::array();
  for (const Rerun& of : claim.rows) {
    const std::string question(of.question);
    rows.push_back({{"question", question},
                    {"count", evidence.count(question)},
                    {"provenance", evidence.provenance(question)}});
  }
  nlohmann::json fields{{"id", claim.id},
                        {"claim", claim.says},
                        {"where", claim.where},
                        {"source", name_of(claim.source)},
                        {"published", claim.published},
                        {"reading", claim.reading},
                        {"ours", answer.ours},
                        {"agrees", verdict_of(answer)},
                        {"measured", answer.agrees != Agreement::not_measured},
                        {"details", answer.details},
                        {"picture", claim.picture},
                        {"rows", rows}};
  if (answer.accused) {
    fields["accused"] = {{"runs", answer.accused->hits}, {"of", answer.accused->of}};
  }
  return fields;
}

bool asked_for(const Claim& claim, const PaperAsked& asked) {
  return asked.id.empty() || claim.id == asked.id;
}

void print_json(const PaperAsked& asked, const Evidence& evidence) {
  nlohmann::json all = nlohmann::json::array();
  for (const Claim* claim : all_claims()) {
    if (asked_for(*claim, asked)) all.push_back(json_of_claim(*claim, evidence));
  }
  print_document("plumb-claims/2", {{"claims", all}, {"rows", evidence.place()}});
}

// For a terminal: as wide as its lines, where the table of a pipe is Markdown.
std::string short_table(const Evidence& evidence) {
  std::vector<std::vector<std::string>> rows;
  for (const Claim* claim : all_claims()) {
    const Answer answer = judged(*claim, evidence);
    rows.push_back({std::string(claim->id), verdict_of(answer), answer.ours});
  }
  return in_columns({{"claim"}, {"agrees"}, {"ours"}}, rows) +
         "\nOne of them whole, with what it says: plumb paper E5\n";
}

// Rows of a question that several claims ask for are made for each of them. Returns whether any
// were asked of an experiment.
bool make_again(const Claim& claim, const PaperAsked& asked) {
  bool made = false;
  for (const Rerun& of : claim.rows) {
    if (!of.by.empty()) {
      note(fmt::format("{}: {}", claim.id, by_hand(of.question, asked.rows)));
      continue;
    }
    if (asked.smoke && of.smoke == too_long) {
      note(fmt::format("{}: rows of {} take long and are left out of --smoke", claim.id,
                       of.question));
      continue;
    }
    ExperimentAsked experiment;
    experiment.effort = of.effort;
    experiment.name = of.question;
    experiment.out = asked.rows;
    experiment.cache = asked.rows + "/plumb-cache";
    experiment.only = asked.smoke ? of.smoke : "";
    experiment.minutes = asked.minutes;
    make_rows(experiment);
    made = true;
  }
  return made;
}

bool make_again(const PaperAsked& asked) {
  if (asked.rows.empty()) {
    throw Failure("--rerun makes rows; give --rows the folder that they go to");
  }
  const Claim* only = asked.rerun == "all" ? nullptr : &find_claim(asked.rerun);
  make_folders(asked.rows);  // for programs that are called by hand, too
  bool made = false;
  for (const Claim* claim : all_claims()) {
    if (only == nullptr || only == claim) made = make_again(*claim, asked) || made;
  }
  return made;
}

bool any_measured(const PaperAsked& asked, const Evidence& evidence) {
  return std::ranges::any_of(all_claims(), [&](const Claim* claim) {
    return asked_for(*claim, asked) && judged(*claim, evidence).agrees != Agreement::not_measured;
  });
}

void tell(const PaperAsked& asked, const Evidence& evidence) {
  if (asked.json) return print_json(asked, evidence);
  if (!asked.id.empty()) {
    fmt::print("{}", whole(find_claim(asked.id), evidence));
  } else if (!any_measured(asked, evidence)) {
    note(
        fmt::format("{} has no rows that measure a claim; make some with: plumb paper --rerun all "
                    "--smoke --rows {}",
                    evidence.place(), evidence.folder()));
  } else {
    fmt::print("{}", isatty(1) != 0 ? short_table(evidence) : claim_table(evidence));
  }
}

constexpr int nothing = 3;

int run(PaperAsked asked) {
  if (!asked.id.empty()) find_claim(asked.id);
  bool made = true;
  if (!asked.rerun.empty()) {
    made = make_again(asked);
    if (asked.rerun != "all" && asked.id.empty()) asked.id = asked.rerun;
  }
  const Evidence evidence = asked.rows.empty() ? committed_evidence() : evidence_in(asked.rows);
  tell(asked, evidence);
  return made && any_measured(asked, evidence) ? 0 : nothing;
}

constexpr const char* meaning =
    "Claims: E of the paper, S a stress case that its authors reported, B beyond the paper.\n"
    "Verdicts: yes, partly, no, not measured. Of a claim about a rule they say how many healthy "
    "runs that rule accuses: behind '; accuses' so many that a rate of 5 in 100 can be why (by a "
    "chance of 1 in 100 or more); behind ', but accuses' more: such a rule agrees with nothing.\n"
    "Exit codes: 0 told, whatever the verdicts; 2 trouble; 3 these rows measure none of the claims "
    "that were asked for, or --rerun made none.";

}  // namespace

void add_paper(CLI::App& app, Verb& chosen) {
  auto* verb =
      app.add_subcommand("paper", "claims of the TTrace paper and beyond: published and ours");
  static PaperAsked asked;
  verb->add_option("CLAIM", asked.id, "a claim, as E5, told whole; without one a line for each");
  verb->add_option("--rows", asked.rows, "judge by the rows of this folder, not by the committed");
  verb->add_option("--rerun", asked.rerun,
                   "make a claim's rows (or those of 'all') in that folder");
  verb->add_flag("--smoke", asked.smoke, "of these rows only as many as take a minute or so")
      ->needs("--rerun");
  verb->add_option("--minutes", asked.minutes,
                   "stop each question after this long; run again to go on")
      ->check(numbers(1e-3, 1e6));
  add_json(*verb, asked.json);
  verb->footer(meaning);
  verb->callback([&chosen] { chosen = [] { return run(asked); }; });
}

}  // namespace plumb::cli

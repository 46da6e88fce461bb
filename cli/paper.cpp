#include <fmt/format.h>

#include "cli/experiment.hpp"
#include "cli/json.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "paper_repro/claim.hpp"
#include "paper_repro/print.hpp"

namespace plumb::cli {
namespace {

struct PaperAsked {
  std::string id, rerun, rows;
  bool smoke = false, json = false;
  double minutes = 1e6;
};

nlohmann::json json_of(const Claim& claim, const Evidence& evidence) {
  const Answer answer = judged(claim, evidence);
  nlohmann::json rows = nlohmann::json::array();
  for (const Rerun& of : claim.rows) {
    const std::string question(of.question);
    rows.push_back({{"question", question}, {"provenance", evidence.provenance(question)}});
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

void print_json(const PaperAsked& asked, const Evidence& evidence) {
  nlohmann::json all = nlohmann::json::array();
  for (const Claim* claim : all_claims()) {
    if (asked.id.empty() || claim->id == asked.id) all.push_back(json_of(*claim, evidence));
  }
  print_document("plumb-claims/2", {{"claims", all}, {"rows", evidence.place()}});
}

// Rows of a question that several claims ask for are made for each of them.
void make_again(const Claim& claim, const PaperAsked& asked) {
  for (const Rerun& of : claim.rows) {
    if (!of.by.empty()) {
      talk(fmt::format("{}: rows of {} are made by {} -o {}\n", claim.id, of.question, of.by,
                       asked.rows));
      continue;
    }
    if (asked.smoke && of.smoke == too_long) {
      talk(fmt::format("{}: rows of {} take long and are left out of --smoke\n", claim.id,
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
  }
}

void make_again(const PaperAsked& asked) {
  if (asked.rows.empty()) {
    throw Failure("--rerun makes rows; give --rows the folder that they go to");
  }
  if (asked.rerun != "all") return make_again(find_claim(asked.rerun), asked);
  for (const Claim* claim : all_claims()) make_again(*claim, asked);
}

int run(PaperAsked asked) {
  if (!asked.id.empty()) find_claim(asked.id);
  if (!asked.rerun.empty()) {
    make_again(asked);
    if (asked.rerun != "all" && asked.id.empty()) asked.id = asked.rerun;
  }
  const Evidence evidence = asked.rows.empty() ? committed_evidence() : evidence_in(asked.rows);
  if (asked.json) {
    print_json(asked, evidence);
  } else if (asked.id.empty()) {
    fmt::print("{}", claim_table(evidence));
  } else {
    fmt::print("{}", whole(find_claim(asked.id), evidence));
  }
  return 0;
}

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
  verb->callback([&chosen] { chosen = [] { return run(asked); }; });
}

}  // namespace plumb::cli

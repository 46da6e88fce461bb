#include <fmt/format.h>

#include "cli/json.hpp"
#include "cli/verbs.hpp"
#include "paper_repro/claim.hpp"

namespace plumb::cli {
namespace {

void print_json() {
  nlohmann::json all = nlohmann::json::array();
  for (const Claim* claim : all_claims()) {
    const auto answer = claim->ours(committed_rows(claim->experiment));
    all.push_back({{"id", claim->id},
                   {"claim", claim->says},
                   {"where", claim->where},
                   {"published", claim->published},
                   {"ours", answer.ours},
                   {"agrees", answer.agrees},
                   {"rows", claim->experiment}});
  }
  print_document("plumb-claims/1", {{"claims", all}});
}

}  // namespace

void add_paper(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("paper", "the claims of the TTrace paper: published and ours");
  static bool as_json = false;
  add_json(*verb, as_json);
  verb->callback([&chosen] {
    chosen = [] {
      as_json ? print_json() : fmt::print("{}", claim_table());
      return 0;
    };
  });
}

}  // namespace plumb::cli

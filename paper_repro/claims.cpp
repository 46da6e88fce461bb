#include <fmt/format.h>

#include "experiments/experiment.hpp"
#include "number/outcome.hpp"
#include "paper_repro/claim.hpp"

namespace plumb::paper_repro {

std::span<const std::pair<std::string_view, std::string_view>> committed_results();  // embedded

#define CLAIM(name) extern const Claim name;
#include "paper_repro/claims.inc"
#undef CLAIM

std::span<const Claim* const> all_claims() {
  static constexpr const Claim* cards[] = {
#define CLAIM(name) &name,
#include "paper_repro/claims.inc"
#undef CLAIM
  };
  return cards;
}

Table committed_rows(std::string_view experiment) {
  const Experiment& card = find_experiment(experiment);
  for (const auto& [name, text] : committed_results()) {
    if (name != experiment) continue;
    Table rows(card.columns, card.keys);
    rows.read(text, "the committed table of " + std::string(name));
    return rows;
  }
  throw Failure("no committed rows of '" + std::string(experiment) +
                "'; make them with: plumb experiment " + std::string(experiment));
}

std::string claim_table() {
  std::string out = "| claim | published | ours | agrees | rows |\n|---|---|---|---|---|\n";
  for (const Claim* claim : all_claims()) {
    const Answer answer = claim->ours(committed_rows(claim->experiment));
    out +=
        fmt::format("| {} ({}) | {} | {} | {} | {} |\n", claim->says, claim->where,
                    claim->published, answer.ours, answer.agrees ? "yes" : "no", claim->experiment);
  }
  return out;
}

}  // namespace plumb::paper_repro

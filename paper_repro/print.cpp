#include "paper_repro/print.hpp"

#include <fmt/format.h>

namespace plumb::paper_repro {
namespace {

std::string questions(const Claim& claim) {
  std::vector<std::string_view> names;
  for (const Rerun& rows : claim.rows) names.push_back(rows.question);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string claim_table(const Evidence& evidence) {
  std::string out = "| | claim | published | ours | agrees | rows |\n|---|---|---|---|---|---|\n";
  for (const Claim* claim : all_claims()) {
    const Answer answer = judged(*claim, evidence);
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", claim->id, claim->says,
                       claim->published, answer.ours, verdict_of(answer), questions(*claim));
  }
  return out;
}

std::string whole(const Claim& claim, const Evidence& evidence) {
  const Answer answer = judged(claim, evidence);
  std::string out = fmt::format(
      "{}: {}\n\n"
      "known from  {}: {}\n"
      "published   {}\n"
      "reading     {}\n"
      "ours        {}\n"
      "agrees      {}\n",
      claim.id, claim.says, name_of(claim.source), claim.where, claim.published, claim.reading,
      answer.ours, verdict_of(answer));
  for (const Rerun& rows : claim.rows) {
    const auto facts = evidence.provenance(std::string(rows.question));
    const auto fact = [&](const char* name) {
      const auto found = facts.find(name);
      return found == facts.end() ? std::string("not said") : found->second;
    };
    out += fmt::format("rows        {}/{}.csv, made by: {}\n            commit {}, {}\n",
                       evidence.place(), rows.question, fact("command"), fact("commit"),
                       fact("device"));
  }
  if (!claim.picture.empty()) out += fmt::format("picture     {}\n", claim.picture);
  if (!answer.details.empty()) out += "\n" + answer.details;
  return out;
}

}  // namespace plumb::paper_repro

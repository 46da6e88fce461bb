#include "paper_repro/print.hpp"

#include <fmt/format.h>

#include "number/words.hpp"

namespace plumb::paper_repro {
namespace {

std::string questions(const Claim& claim) {
  std::vector<std::string_view> names;
  for (const Rerun& rows : claim.rows) names.push_back(rows.question);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Where a question's rows lie and who made them.
std::string rows_line(const std::string& question, const Evidence& evidence) {
  const std::size_t count = evidence.count(question);
  if (count == 0) return fmt::format("none of {} in {}", question, evidence.place());
  const std::string file = fmt::format("{}/{}.csv", evidence.place(), question);
  const auto facts = evidence.provenance(question);
  if (facts.empty()) {
    return fmt::format("{} ({}); no {}.json beside them says who made them", file,
                       how_many(count, "row"), question);
  }
  const auto fact = [&](const char* name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string("not said") : found->second;
  };
  return fmt::format("{} ({}), made by: {}\n            commit {}, {}", file,
                     how_many(count, "row"), fact("command"), fact("commit"), fact("device"));
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
    out += fmt::format("rows        {}\n", rows_line(std::string(rows.question), evidence));
  }
  if (!claim.picture.empty() && answer.agrees != Agreement::not_measured) {
    out += fmt::format("picture     {}, drawn of the committed rows\n", claim.picture);
  }
  if (!answer.details.empty()) out += "\n" + answer.details;
  return out;
}

}  // namespace plumb::paper_repro

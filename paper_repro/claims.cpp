#include <fmt/format.h>

#include <algorithm>

#include "number/catalogue.hpp"
#include "paper_repro/claim.hpp"
#include "trace/levels.hpp"

namespace plumb::paper_repro {

#define CLAIM(name) extern const Claim name;
#include "paper_repro/claims.inc"
#undef CLAIM

namespace {

const Catalogue<Claim>& catalogue() {
  static constexpr const Claim* cards[] = {
#define CLAIM(name) &name,
#include "paper_repro/claims.inc"
#undef CLAIM
  };
  static constexpr Catalogue<Claim> all("claim", &Claim::id, cards);
  return all;
}

constexpr double acceptable = 0.05;  // false alarms a run
constexpr double doubt = 0.01;

std::string made_by(const Claim& claim, const Evidence& evidence) {
  const bool here = std::ranges::all_of(claim.rows, &std::string_view::empty, &Rerun::by);
  return fmt::format("{}: plumb paper --rerun {} --rows {}",
                     here ? "make them with" : "what makes them says", claim.id, evidence.folder());
}

}  // namespace

std::span<const Claim* const> all_claims() { return catalogue().cards(); }
const Claim& find_claim(std::string_view id) { return catalogue().at(id); }

Answer judged(const Claim& claim, const Evidence& evidence) {
  try {
    for (const Rerun& rows : claim.rows) evidence.rows(std::string(rows.question));
    return claim.judge(evidence);
  } catch (const NotMeasured& lacking) {
    return {
        Agreement::not_measured,
        fmt::format("{} has no {}; {}", evidence.place(), lacking.what, made_by(claim, evidence)),
        {}};
  }
}

bool worthless(const Answer& answer) {
  return answer.accused && answer.accused->hits > 0 &&
         trace::binomial_tail(answer.accused->hits, answer.accused->of, acceptable) < doubt;
}

std::string verdict_of(const Answer& answer) {
  static constexpr std::string_view words[] = {"yes", "partly", "no", "not measured"};
  const std::string_view word = words[static_cast<std::size_t>(answer.agrees)];
  if (!answer.accused || answer.agrees == Agreement::not_measured) return std::string(word);
  const std::string healthy =
      fmt::format("accuses {} of {} healthy runs", answer.accused->hits, answer.accused->of);
  return fmt::format("{}{} {}", word, worthless(answer) ? ", but" : ";", healthy);
}

std::string_view name_of(Source source) {
  static constexpr std::string_view words[] = {
      "the paper's abstract", "reviews of the paper",         "the authors' bug reports",
      "an adopter's code",    "inferred from what is public", "asked of ourselves"};
  return words[static_cast<std::size_t>(source)];
}

}  // namespace plumb::paper_repro

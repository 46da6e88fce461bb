#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

struct Named {
  Share right, accused;  // the module where it bites; healthy runs
  std::size_t exact = 0, earlier = 0, later = 0, none = 0;
};

Named named_by(const Rows& rows) {
  Named seen;
  for (const Row& row : rows) {
    ++seen.right.of;
    ++seen.accused.of;
    seen.exact += row.is("place", "exact") ? 1 : 0;
    seen.right.hits += row.is("place", "exact") || row.is("place", "module") ? 1 : 0;
    seen.earlier += row.is("place", "earlier") ? 1 : 0;
    seen.later += row.is("place", "later") ? 1 : 0;
    seen.none += row.is("place", "none") ? 1 : 0;
    seen.accused.hits += row.yes("false_alarm") ? 1 : 0;
  }
  return seen;
}

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("localisation");
  std::vector<std::vector<std::string>> lines;
  for (const std::string& rewriting : values_of(all, "rewriting")) {
    const Rows of = where(all, {{"rewriting", rewriting}});
    for (const std::string& rule : values_of(of, "rule")) {
      const Named seen = named_by(where(of, {{"rule", rule}}));
      lines.push_back({rewriting, rule, std::to_string(seen.exact), std::to_string(seen.right.hits),
                       std::to_string(seen.earlier), std::to_string(seen.later),
                       std::to_string(seen.none),
                       fmt::format("{} of {}", seen.accused.hits, seen.accused.of)});
    }
  }
  const Named paper = named_by(where(all, {{"rewriting", "generated"}, {"rule", "perturbation"}}));
  return {
      paper.right.hits == paper.right.of ? Agreement::yes : Agreement::partly,
      fmt::format("the module in {} of {} trials, an earlier one in {}, a later one in {}, none "
                  "in {}",
                  paper.right.hits, paper.right.of, paper.earlier, paper.later, paper.none),
      paper.accused,
      table({"rewriting", "rule", "exact tensor", "right module", "earlier", "later", "none",
             "healthy runs accused"},
            lines)};
}

}  // namespace

extern const Claim e12_rewriting_names_the_module{
    .id = "E12",
    .says =
        "With the inputs of modules rewritten only the faulty module still deviates, and is named",
    .where = "the fifth step of the workflow; no figure is at hand",
    .source = Source::review,
    .published = "pinpoints the module",
    .reading =
        "Every bug of our catalogue, random and trained weights, two seeds; generated tensors for "
        "what each module takes in, rule perturbation with margin 2. Bugs of the optimizer and of "
        "replicas are not of a module, and count as not named.",
    .rows = {{"localisation", " gpt random bf16 1 "}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro

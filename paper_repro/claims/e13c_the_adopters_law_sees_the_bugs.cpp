#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/trials.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  const Rows& rows = evidence.rows("paper-bugs");
  const Trials law = trials_of(rows, "depth-law");
  return {law.always == law.bugs ? Agreement::yes : Agreement::partly,
          fmt::format("{} of {} bugs in every trial; {} of {} trials blamed exactly", law.always,
                      law.bugs, law.blamed.hits, law.blamed.of),
          law.accused, table_by_bug(rows, {"depth-law", "flat"})};
}

}  // namespace

extern const Claim e13c_the_adopters_law_sees_the_bugs{
    .id = "E13c",
    .says = "The adopter's law detects the fourteen bugs",
    .where = "Megatron-LM's gradient comparison test; no list of bugs is given",
    .source = Source::adopter,
    .published = "not said",
    .reading =
        "The rule depth-law on every tensor, and structure; flat is its tolerance at l = 0, L = 32.",
    .rows = {{"paper-bugs", "gpt bf16 random 1 "}},
    .picture = "paper-bugs.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro

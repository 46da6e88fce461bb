// paper_repro/claim.hpp: one statement, and what rows of results say of it. One claim, one file in
// claims/, one line in claims.inc.
//
// A claim of the paper says how we know it: the body of the paper is not at hand (README.md), so
// that some are the authors' abstract and others what reviews, their bug reports or the code of an
// adopter tell. Where the paper leaves something open, `reading` names what was chosen.
//
// TESTED   tests/paper_repro/claims_test.cpp
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/share.hpp"
#include "paper_repro/evidence.hpp"
#include "paper_repro/sees.hpp"

namespace plumb::paper_repro {

enum class Agreement { yes, partly, no, not_measured };

struct Answer {
  Agreement agrees = Agreement::not_measured;
  std::string ours;              // one line, of figures that the rows hold
  std::optional<Share> accused;  // healthy runs, by the rule that the claim is about
  std::string details = {};      // Markdown: what a reader wants to see of the rows
};

// Who says so of the paper: its abstract; a review; the authors' bug reports and branches; code of
// others that cites it; we, from these. Of what goes beyond it: nobody, we ask it of ourselves.
enum class Source { abstract, review, artefact, adopter, inferred, ourselves };

// How rows are made again. `smoke`: of these, as --only of plumb experiment, those that a reader
// makes in a minute or so; empty: all.
struct Rerun {
  std::string_view question;
  std::string_view smoke;
  std::string_view by = {};  // what makes them where that is not plumb experiment
  int effort = 1;            // of plumb experiment
};
inline constexpr std::string_view too_long = "too long";  // for smoke: nothing of it is quick

struct Claim {
  std::string_view id;     // "E5"
  std::string_view says;   // one sentence
  std::string_view where;  // in the paper, as far as known; or in whose code
  Source source;
  std::string_view published;  // the figure or the word
  std::string_view reading;    // what was chosen where the source is silent; when ours agrees
  std::vector<Rerun> rows;
  std::string_view picture;  // of experiments/results, or empty
  Answer (*judge)(const Evidence&);
};

std::span<const Claim* const> all_claims();
// Throws Failure on an unknown id, listing the known.
const Claim& find_claim(std::string_view id);

// The claim's answer by these rows; not measured where some are lacking, and `ours` says which.
Answer judged(const Claim& claim, const Evidence& evidence);

// "yes", or what takes from it: a rule that accuses healthy runs more often than 5 in 100, beyond
// doubt, agrees with nothing (the level: numbers.md, TrainCheck's figure for few example runs).
std::string verdict_of(const Answer& answer);
bool worthless(const Answer& answer);

std::string_view name_of(Source source);

}  // namespace plumb::paper_repro

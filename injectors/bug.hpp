// injectors/bug.hpp: what a planted bug is. One bug, one file in bugs/, one line in bugs.inc.
//
// TESTED   tests/experiments/catch_test.cpp, tests/experiments/paper_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "injectors/sees.hpp"
#include "model/joints/joints.hpp"
#include "model/spec/config.hpp"
#include "model/step/train_step.hpp"

namespace plumb::injectors {

// The strength and the luck of a bug: given by the caller, read by the bugs that have a dose.
struct Dose {
  double magnitude = 0;  // 0: the card's own
  std::uint64_t seed = 1;
};

// A setting without which a bug cannot bite, as sizes() names it, and the value that `catch` takes,
// as text_of() writes it; of one that is never 0 (kv_heads) the most with which it can.
struct Setting {
  std::string_view name, value;
  int number() const { return setting_from(setting_named(name), value).value(); }
};

struct Needs {
  std::vector<Family> families = {Family::gpt, Family::llama};
  std::string_view layout = "tp2";
  std::string_view recipe = "bf16";
  bool experts = false;  // the families with a mixture of experts
  std::vector<Setting> settings = {};
  int micro_batches = 1;  // of each rank, at least
  int sequences = 1;      // of a micro-batch, at least
  // Sets the settings that the model lacks, and its layers to those that the layout counts out.
  void complete(Config& config) const;
  std::string family(Family base) const { return name_of(base) + (experts ? "-moe" : ""); }
};

// Whether the report that a card is made after is the paper's: its authors say so; its part, layout
// and effect are those of the paper's row; or it only fits what is known of that row.
enum class Match { confirmed, likely, guess };
std::string_view name_of(Match match);

// A bug of the fourteen in Table 1 of TTrace, arXiv 2506.09280; 0: none of them.
struct InPaper {
  int bug = 0;
  Match match = Match::confirmed;
};

// What kind of thing is wrong.
enum class BugKind {
  computation,    // what is computed
  communication,  // what is exchanged, or with whom
  missing_sum,    // a sum or an exchange that does not happen
  stale_data,     // data of another time: races, buffers that are used again
  scaling,        // a factor
  sharding,       // which part of a tensor lies where
  precision,      // the format or the number of bits
  hardware,       // a unit, a memory or a wire that is broken
};
inline constexpr std::array<std::string_view, 8> bug_kinds = {
    "computation", "communication", "missing-sum", "stale-data",
    "scaling",     "sharding",      "precision",   "hardware"};
inline std::string_view name_of(BugKind kind) { return bug_kinds[static_cast<std::size_t>(kind)]; }

struct Bug {
  std::string_view id;     // stable for ever: results and tables refer to it
  std::string_view title;  // one line of the table
  BugKind kind;
  std::string_view story;  // what was wrong and why nobody noticed, in a sentence or two
  std::string_view seen_in;
  InPaper paper = {};
  bool in_the_next_step = false;  // the first step is right
  Needs needs;                    // the smallest layout and recipe in which it can bite
  std::string_view hides_when;
  std::string_view dose = "";  // the meaning of Dose::magnitude, with its default; empty: none
  double largest_dose = 1;
  // Canonical id of the first tensor that goes wrong. Null: it depends on the data, and is the first
  // in the order of the promise that has other bits than the healthy run's.
  std::string (*bites_at)(const Config&);
  void (*plant)(Joints&, const Dose&, const Config&);  // the bug: one joint, replaced
};

// Canonical id of the first gradient that is summed over the step, in the order of the promise.
std::string first_main_grad(const Config& config);

std::span<const Bug* const> all_bugs();  // in the order of bugs.inc
// Throws Failure on an unknown id, listing the known.
const Bug& find_bug(std::string_view id);

// Throws Failure, with what to say instead, if the bug cannot bite in this run, or if it is given a
// magnitude and has no dose.
void refuse_unmet(const Bug& bug, const Training& run, double magnitude);

}  // namespace plumb::injectors

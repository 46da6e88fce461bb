// What twins say of two runs: those that are drawn of a promise, or given as traces.
#include <fmt/format.h>

#include <algorithm>

#include "bounds/multiply.hpp"
#include "number/words.hpp"
#include "trace/beside.hpp"
#include "trace/decisions.hpp"
#include "trace/evidence.hpp"
#include "trace/twins.hpp"

namespace plumb::trace {

// The backends of both runs whose products add in an order of their own.
std::set<std::string> Evidence::of_unknown_order() const {
  std::set<std::string> backends;
  for (const Trace* run : {&reference, &candidate}) {
    const auto& says = run->manifest.settings;
    if (const auto found = says.find("any_order"); found != says.end())
      backends.insert(found->second);
  }
  return backends;
}

// The promise is evaluated here, where products round to nearest.
void Evidence::say_how_twins_multiply() {
  const Machine* machine = options.replay.machine;
  if (!asks("twins") || !options.given.empty()) return;
  if (const auto whose = of_unknown_order(); !whose.empty())
    so_far.notes.push_back("nobody knows in which order products of '" +
                           listed({whose.begin(), whose.end()}) +
                           "' add: each twin draws one for each product");
  if (machine == nullptr) return;
  if (options.multiply != nullptr) {
    so_far.notes.push_back("twins multiply numbers of BF16 as the machine " + machine->id +
                           " does, step by step on its matrix unit; so does the reference that "
                           "they are held against, which is made again");
    return;
  }
  const Fact* rounding = machine->fact("rounding");
  if (rounding == nullptr || rounding->value != "toward_zero") return;
  so_far.notes.push_back(
      "sums of the machine " + machine->id +
      " are cut toward zero, those of the twins round to nearest: gradients that are kept in FP32 "
      "may be smaller by some 1e-7 of themselves, of which twins know nothing");
}

// Each node as this process makes it now, but for choices, which are the candidate's.
static Values made_again(const Graph& graph, Values values) {
  for (const Node& node : graph.nodes) {
    if (node.phase <= Phase::reduce && !is_decision(node)) make(node, values);
  }
  return values;
}

void Evidence::apply_twins() {
  if (!options.given.empty()) return apply_given_twins();
  if (options.multiply != nullptr) {
    const MultiplyScope machines(options.multiply);
    as_machine_ = *merged_reference;
    as_machine_->values = made_again(*reference.graph, std::move(as_machine_->values));
  }
  drawn = draw(options.twins);
  so_far.flips = drawn->flips;
}

Drawn Evidence::draw(int twins) const {
  const MultiplyScope machines(options.multiply);
  TwinOptions so_many = options;
  so_many.twins = twins;
  std::optional<Graph> unordered;
  if (!of_unknown_order().empty()) unordered = in_any_order(*candidate.graph);
  return draw_twins(
      *reference.graph, as_machine_ ? *as_machine_ : *merged_reference,
      unordered ? *unordered : *candidate.graph, *merged_candidate,
      [&](const std::string& id) { return has_statistics(id); }, so_many);
}

void Evidence::apply_given_twins() {
  const Pattern exact(options.exact, "--exact");
  const auto is_exact = [&](const auto& one) { return exact.matches(one.first); };
  if (!exact.empty() && std::ranges::none_of(c.values, is_exact) &&
      std::ranges::none_of(candidate.about, is_exact))
    throw Failure("--exact '" + options.exact +
                  "' matches no tensor; list ids with: plumb inspect TRACE");
  const bool around_candidate = are_of_candidate(options.given);
  if (around_candidate) by_twins = &r;
  GivenTwins given = given_twins(
      around_candidate ? candidate : reference, around_candidate ? c : r, reference.about,
      *by_twins, pairs, options.given, exact,
      [&](const std::string& id) { return has_statistics(id) && !left_to_replay(id); },
      options.hands);
  const std::string whose =
      "the twins are traces of '" + options.given.front()->manifest.producer + "'";
  so_far.notes.push_back(
      around_candidate
          ? whose +
                " and runs of the candidate, with other roundings where its ranks add: they lie "
                "around it, and the reference is judged by them; what else may round otherwise "
                "they do not know"
          : whose +
                ": that they round where the candidate's layout does, and that nothing else is "
                "split, is its claim, which is not checked");
  for (Unjudged& u : given.unjudged) unjudged.emplace(u.id, std::move(u));
  asserted = std::move(given.asserted);
  far_beyond_ = std::move(given.far_beyond);
  drawn = std::move(given.drawn);
  doubt_twins_that_lie_beside();
}

// This accuses nobody, so that the level may be that of the whole run. A tensor that is all rounding, as
// the gradient of a bias of keys, lies where each way to sum rounds it to: there twins say nothing.
void Evidence::doubt_twins_that_lie_beside() {
  std::set<std::string> noise;
  auto seen = beside(drawn->measured);
  while (seen && seen->chance < options.false_alarm) {
    const std::string id = seen->farthest;
    if (!replays.of([&](const auto& other) { return other == id; }).as_zeros.contains(id)) break;
    noise.insert(id);
    seen = beside(drawn->measured, noise);
  }
  if (!seen || seen->chance >= options.false_alarm) return;
  so_far.beside = true;
  so_far.notes.push_back(fmt::format(
      "the twins agree with each other and not with the run that they are twins of: {} lies {:.2g} "
      "times as far from their mean as they scatter (p = {:.1e} over all). They are of another step, "
      "code or data, or of sums that lose small parts one way; what is wrong in all of them alike "
      "they would excuse",
      seen->farthest, seen->off, seen->chance));
}

}  // namespace plumb::trace

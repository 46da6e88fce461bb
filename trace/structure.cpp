#include "trace/structure.hpp"

#include <fmt/format.h>

#include "bounds/check_call.hpp"
#include "bounds/operation.hpp"
#include "number/words.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "trace/clip.hpp"
#include "trace/selection.hpp"

namespace plumb::trace {
namespace {

std::string shape_of(const Whole& t) { return size_of(t.rows, t.cols); }

bool is_found(const std::vector<Finding>& findings, const std::string& id) {
  return std::ranges::find(findings, id, &Finding::id) != findings.end();
}

// Has the candidate promised the tensor, has no rank a piece of it, and has that been found? So a
// stage that leaves a layer out is accused, and not refused like pieces that make no tensor.
bool found_left_out(const Trace& candidate, const Run& merged, const std::string& id) {
  const auto has = [&](const RankRecord& rank) { return rank.shards.contains(id); };
  return candidate.graph && std::ranges::none_of(candidate.ranks, has) &&
         !why_not_whole(merged.findings, id).empty();
}

// The tensors that a run has made without having promised them. Empty where nothing is promised.
std::set<std::string> unpromised(const Trace& candidate, const Run& merged) {
  std::set<std::string> ids;
  if (!candidate.graph) return ids;
  for (const auto& [id, tensor] : merged.values) ids.insert(id);
  for (const std::string& id : leaves_of(*candidate.graph)) ids.erase(id);
  for (const Node& node : candidate.graph->nodes) {
    for (const std::string& id : node.outputs) ids.erase(id);
  }
  return ids;
}

// The tensors that `here` has and `there` lacks.
std::vector<std::string> only_in(const Run& here, const Run& there, const Pattern& allowed,
                                 const std::function<bool(const std::string&)>& found) {
  std::vector<std::string> ids;
  for (const auto& [id, tensor] : here.values) {
    if (!there.values.contains(id) && !allowed.matches(id) && !found(id)) ids.push_back(id);
  }
  return ids;
}

// Of runs that promise nothing a tensor that is in one trace only is a finding: a gradient that
// nobody makes is the mistake looked for. Where each has some that the other lacks, they may be the
// same under two names: that is refused, as is a run that promises, for whose ids are ours.
// `found`: the candidate's own tensors that are findings already.
std::vector<Finding> in_one_only(const Run& reference, const Trace& candidate, const Run& merged,
                                 const std::set<std::string>& found, const Pattern& allowed) {
  const std::vector<std::string> lacks = only_in(reference, merged, allowed, [&](const auto& id) {
    const bool no_whole = !why_not_whole(merged.findings, id).empty();
    return found_left_out(candidate, merged, id) || (!candidate.graph && no_whole);
  });
  const std::vector<std::string> more =
      only_in(merged, reference, allowed, [&](const auto& id) { return found.contains(id); });
  const std::size_t count = lacks.size() + more.size();
  if (count == 0) return {};
  if (candidate.graph || (!lacks.empty() && !more.empty())) {
    const std::string& first = lacks.empty() ? more.front() : lacks.front();
    const Run& without = lacks.empty() ? reference : merged;
    throw Failure(how_many(count, "tensor") + (count == 1 ? " is" : " are") +
                  " in one trace only, the first is '" + first + "'" +
                  why_not_whole(without.findings, first) +
                  "; trace both runs alike, or pass --allow-unmatched REGEX");
  }
  std::vector<Finding> findings;
  for (const std::string& id : lacks) {
    findings.push_back({id, "structure", infinite,
                        (was_not_clipped(merged, id) ? "was not clipped: it " : std::string()) +
                            "is not there, and the reference has it"});
  }
  for (const std::string& id : more)
    findings.push_back({id, "structure", infinite, "is there, and the reference has none"});
  return findings;
}

std::string in_words(const Evaluation& how) {
  return std::to_string(how.parts) + (how.parts == 1 ? " part" : " parts") +
         (how.parts == 1 ? "" : " on a " + std::string(how.wire.name) + " wire") + ", result in " +
         std::string(how.output.name);
}

// Compares what ran with what was promised, once per tensor.
void compare_ran(const Trace& candidate, std::vector<Finding>& findings) {
  std::map<std::string_view, const Evaluation*> promised;
  for (const Node& node : candidate.graph->nodes) {
    for (const std::string& id : node.outputs) promised.emplace(id, &node.how);
  }
  std::set<std::string> told;
  for (std::size_t rank = 0; rank < candidate.ranks.size(); ++rank) {
    for (const auto& [id, ran] : candidate.ranks[rank].ran) {
      const auto found = promised.find(without_recompute(id));
      if (found == promised.end()) continue;
      const Evaluation& how = *found->second;
      const bool same = ran.parts == how.parts && ran.output == how.output &&
                        (ran.parts == 1 || ran.wire == how.wire) &&
                        ran.tokens.ring == how.tokens.ring;
      if (same || !told.insert(id).second) continue;
      findings.push_back({id, "structure", infinite,
                          "promised: " + in_words(how) + "; rank " + std::to_string(rank) +
                              " ran: " + in_words(ran)});
    }
  }
}

// Adds values that are not finite where the reference is; in a step that is not left out, all of
// them, but for masks.
void add_not_finite(const Run& reference, const Trace& candidate, const Run& merged,
                    const Pairs& pairs, std::vector<Finding>& findings) {
  const bool expected = candidate.graph && left_out(*candidate.graph, merged.values);
  for (const Finding& f : merged.not_finite) {
    const bool there_too = is_found(reference.not_finite, f.id);
    if (there_too && (expected || is_a_mask(f, pairs))) continue;
    findings.push_back(f);
  }
}

// The id of the tensor that Adam updated to this one; empty for any other tensor.
std::string updated_from(const std::string& id) {
  if (id.ends_with("/master")) return id + "@previous";
  if (id.ends_with("/updated")) return id.substr(0, id.rfind('/')) + "/param@previous";
  return "";
}

bool has_gradients(const Run& run) {
  return std::ranges::any_of(run.values,
                             [](const auto& one) { return one.first.ends_with("/grad"); });
}

// A weight of which the reference has no gradient, though it has some, and which its step left alone,
// bit by bit.
std::string changed_without_gradient(const std::string& id, const Run& reference,
                                     const Run& candidate) {
  constexpr std::string_view updated = "/param";
  if (!id.ends_with(updated)) return "";
  const std::string weight = id.substr(0, id.size() - updated.size());
  const auto has = [](const Run& run, const std::string& other) {
    return run.values.contains(other);
  };
  if (has(reference, weight + "/grad") || !has(reference, weight) || !has(candidate, weight))
    return "";
  const bool alone = equal(reference.values.at(id), reference.values.at(weight));
  const bool changed = !equal(candidate.values.at(id), candidate.values.at(weight));
  return alone && changed
             ? "was changed by the step; the reference has no gradient of it, and leaves it as it was"
             : "";
}

// Adds settings in which the runs differ, as an epsilon. What an optimizer makes is said of its
// last output, the weight.
void add_other_settings(const Abouts& reference, const Abouts& candidate, const Run& merged,
                        std::vector<Finding>& findings) {
  for (const auto& [id, says] : candidate) {
    const auto found = reference.find(id);
    if (found == reference.end() || !says.made_by || !found->second.made_by) continue;
    const MadeBy &ran = *says.made_by, &promised = *found->second.made_by;
    if (ran.op != promised.op || !merged.values.contains(id)) continue;
    const Operation& operation = *find_operation(ran.op);
    if (operation.traits.updates && ran.output + 1 < operation.schema.outputs.size()) continue;
    // One that a run does not say has the schema's value.
    const auto all_of_ran = check_attributes(operation, ran.attributes);
    const auto all_promised = check_attributes(operation, promised.attributes);
    if (!all_of_ran || !all_promised) continue;
    for (const auto& [name, value] : *all_of_ran) {
      const auto other = all_promised->find(name);
      // A program may keep it in FP32.
      if (other == all_promised->end() ||
          static_cast<float>(other->second) == static_cast<float>(value))
        continue;
      findings.push_back({id, "structure", infinite,
                          fmt::format("is made with {} = {:.9g}, the reference's with {:.9g}", name,
                                      value, other->second)});
      break;
    }
  }
}

void add_impossible_parts(const Trace& candidate, const Run& merged,
                          std::vector<Finding>& findings) {
  const std::size_t ranks = candidate.ranks.size();
  for (const auto& [id, says] : candidate.about) {
    if (!says.made_by || static_cast<std::size_t>(says.made_by->parts) <= ranks) continue;
    if (!merged.values.contains(id)) continue;
    findings.push_back(
        {id, "structure", infinite,
         fmt::format("has a sum of {} parts, as its producer says, and there {} {}",
                     says.made_by->parts, ranks == 1 ? "is" : "are", how_many(ranks, "rank"))});
  }
}

}  // namespace

bool is_a_mask(const Finding& f, const Pairs& pairs) {
  const auto pair = pairs.find(f.id);
  return std::isinf(f.value.value_or(0)) && pair != pairs.end() && pair->second.equal;
}

bool left_out(const Graph& graph, const Wholes& values) {
  for (const Node& node : graph.nodes) {
    if (!traits_of(node).says_left_out) continue;
    const auto decision = values.find(node.outputs.back());
    if (decision == values.end()) continue;
    const Whole& says = decision->second;  // of a damaged trace: any size
    if (says.size() == 1 && *Reading(says)(0, 1) != 0) return true;
  }
  return false;
}

std::set<std::string> shaped_by_layout(const Trace& candidate) {
  std::set<std::string> ids;
  if (!candidate.graph) return ids;
  for (const Node& node : candidate.graph->nodes) {
    const TokenSharding& tokens = node.how.tokens;
    const bool sliced = node.how.parts > 1 || tokens.ranks > 1 || tokens.groups > 1;
    if (traits_of(node).shaped_by_parts && sliced) ids.insert(node.outputs.front());
  }
  return ids;
}

std::vector<NotJudged> allowed_in_one_only(const Run& reference, const Run& merged,
                                           const std::string& allow_unmatched) {
  const Pattern allowed(allow_unmatched, "--allow-unmatched");
  std::vector<NotJudged> told;
  for (const bool there : {true, false}) {
    const Run &here = there ? reference : merged, &other = there ? merged : reference;
    for (const auto& [id, tensor] : here.values) {
      if (other.values.contains(id) || !allowed.matches(id)) continue;
      told.push_back({id, std::string("is in the ") + (there ? "reference" : "candidate") +
                              " alone, as --allow-unmatched lets it be"});
    }
  }
  return told;
}

std::vector<Finding> structure_findings(const Run& reference, const Trace& candidate,
                                        const Run& merged, const Pairs& pairs,
                                        const std::string& allow_unmatched,
                                        const Abouts& of_reference) {
  const Pattern allowed(allow_unmatched, "--allow-unmatched");
  std::set<std::string> more = unpromised(candidate, merged);
  std::erase_if(more, [&](const std::string& id) {
    return reference.values.contains(id) || allowed.matches(id);
  });
  std::vector<Finding> findings = in_one_only(reference, candidate, merged, more, allowed);
  findings.insert(findings.end(), merged.findings.begin(), merged.findings.end());
  for (const std::string& id : more) {
    if (is_found(merged.findings, id)) continue;
    findings.push_back({id, "structure", infinite, "was made, and nothing like it is promised"});
  }
  std::erase_if(findings, [&](const Finding& finding) {
    return allowed.matches(finding.id) && found_left_out(candidate, merged, finding.id);
  });
  add_not_finite(reference, candidate, merged, pairs, findings);
  add_other_settings(of_reference, candidate.about, merged, findings);
  if (!candidate.graph) add_impossible_parts(candidate, merged, findings);
  std::set<std::string> leaves;
  const std::set<std::string> own_shape = shaped_by_layout(candidate);
  const char* or_lies =
      candidate.graph || candidate.ranks.size() == 1
          ? ""
          : "; or say otherwise where its pieces lie (inspect --suggest --reference)";
  if (candidate.graph) {
    for (const std::string& id : leaves_of(*candidate.graph)) leaves.insert(id);
    compare_ran(candidate, findings);
  }
  for (const Abouts* about : {&of_reference, &candidate.about}) {
    for (const auto& [id, says] : *about) {
      if (says.role == Role::given) leaves.insert(id);
    }
  }
  const bool gradients = has_gradients(reference);
  const bool sketch = candidate.manifest.settings.contains("sketch");
  for (const auto& [id, tensor] : merged.values) {
    const auto found = reference.values.find(id);
    if (found == reference.values.end()) continue;
    const Whole& r = found->second;
    const bool same_shape = r.has_shape_of(tensor);
    if (!same_shape && own_shape.contains(id)) continue;  // replay holds it against the promise
    if (!same_shape && sketch) {
      throw Failure("the tiles of '" + id + "' are " + shape_of(tensor) + ", the reference's " +
                    shape_of(r) + ": other dimensions cut them; compare the traces themselves");
    }
    if (!same_shape) {
      findings.push_back({id, "structure", infinite,
                          "is " + shape_of(tensor) + ", the reference's is " + shape_of(r)});
      findings.back().may_follow = !candidate.graph;
    } else if (!(r.format == tensor.format)) {
      findings.push_back({id, "structure", infinite,
                          "is " + std::string(tensor.format.name) + ", the reference's is " +
                              std::string(r.format.name)});
    } else if (leaves.contains(id) && !pairs.at(id).equal && !is_found(merged.findings, id)) {
      findings.push_back({id, "structure", infinite, std::string(starts_otherwise) + or_lies});
    }
    if (const std::string why = gradients ? changed_without_gradient(id, reference, merged) : "";
        !why.empty())
      findings.push_back({id, "structure", infinite, why});
    const std::string before = updated_from(id);
    if (!before.empty() && merged.values.contains(before) &&
        equal(tensor, merged.values.at(before)) && reference.values.contains(before) &&
        !equal(r, reference.values.at(before))) {
      findings.push_back({id, "structure", infinite, "was not changed by the step"});
    }
  }
  return findings;
}

}  // namespace plumb::trace

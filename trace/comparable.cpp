#include "trace/comparable.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "number/outcome.hpp"
#include "trace/order.hpp"
#include "trace/replay.hpp"
#include "trace/structure.hpp"

namespace plumb::trace {
namespace {

std::string setting(const Manifest& m, const std::string& key, const std::string& otherwise = "") {
  const auto found = m.settings.find(key);
  return found == m.settings.end() ? otherwise : found->second;
}

// Where a producer sets apart what may differ, it may be there.
std::string layout_of(const Manifest& m) {
  const auto found = m.may_differ.find("layout");
  return found == m.may_differ.end() ? setting(m, "layout") : found->second;
}

// Of plumb's own settings: how a run is spread over ranks, in which order its products add, which steps are
// traced, and which twin it is. Other producers say themselves what may differ.
bool may_differ(const std::string& key) {
  return key == "layout" || key == "any_order" || key == "first_step" || key == "last_step" ||
         key == "twin";
}

void differ(const std::string& what, const std::string& a, const std::string& other,
            const std::string& b) {
  if (a == b) return;
  throw Failure("these runs have not the same " + what + " (reference " + a + ", " + other + " " +
                b + "); trace both alike");
}

[[noreturn]] void distrust(const Finding& f, const std::string& what,
                           const std::string& otherwise = "") {
  throw Failure("in the reference '" + f.id + "' " + what + f.detail +
                "; the reference cannot be trusted, make it again (of a step that a loss scaler "
                "skips: trace a later one)" +
                otherwise);
}

}  // namespace

void refuse_another_run(const Manifest& r, const Manifest& c, const std::string& other) {
  differ("step", std::to_string(r.step), other, std::to_string(c.step));
  std::set<std::string> keys;
  for (const Manifest* m : {&r, &c}) {
    for (const auto& [key, value] : m->settings) keys.insert(key);
  }
  for (const std::string& key : keys) {
    const bool own = r.producer == "plumb" && c.producer == "plumb";
    if (!own || !may_differ(key))
      differ(key, setting(r, key, "none"), other, setting(c, key, "none"));
  }
}

Reference::Reference(const Trace& trace, const Merged& merged, Unasked)
    : trace_(trace), merged_(merged) {
  if (merged.findings.empty() && merged.not_finite.empty()) return;
  const Run run(merged);
  const bool left = trace.graph && left_out(*trace.graph, run.values);
  refuse_broken(run, [left](const Finding&) { return left; });
}

Reference Reference::executed(const Trace& trace, const Merged& merged) {
  return {trace, merged, Unasked()};
}

Reference::Reference(const Trace& trace, const Merged& merged)
    : Reference(trace, merged, Unasked()) {
  if (!trace.graph) return;
  const Replayed seen = replay(*trace.graph, merged, [](const std::string&) { return true; });
  if (!seen.findings.empty()) distrust(seen.findings.front(), "is not what its inputs make: ");
}

void refuse_broken(const Run& reference, const std::function<bool(const Finding&)>& may_be,
                   const std::string& if_meant,
                   const std::function<bool(const Finding&)>& is_left_out) {
  for (const Finding& f : reference.findings) {
    if (!is_left_out || !is_left_out(f)) distrust(f, "is not whole: ");
  }
  const auto bad = std::ranges::find_if_not(reference.not_finite, may_be);
  if (bad == reference.not_finite.end()) return;
  const bool mask = std::isinf(bad->value.value_or(0));
  distrust(
      *bad, "",
      !if_meant.empty() ? if_meant
      : mask
          ? ", or if that is meant, as in a mask, mend the candidate's if it is another mask; else "
            "leave the tensor out (--skip)"
          : "");
}

Alike alike(const Trace& reference, const Run& of_reference, const Trace& candidate,
            const EqualBits& bits) {
  const Manifest &r = reference.manifest, &c = candidate.manifest;
  Alike seen;
  const std::string as_far = bits.of_fp32 ? ", as far as FP32 has them" : "";
  const DataflowOrder executed(reference.about);
  seen.ordered = candidate.graph || std::ranges::all_of(of_reference.values, [&](const auto& v) {
                   return executed.knows(v.first) || !executed.made(v.first);
                 });
  seen.identical = bits.equal && r.world_size == c.world_size && layout_of(r) == layout_of(c);
  if (seen.identical) {
    seen.notes.push_back("the traces are alike in layout and in every bit" + as_far +
                         ": a run was compared with itself");
  } else if (bits.equal) {
    seen.notes.push_back("the candidate has the reference's bits in every tensor" + as_far);
  }
  if (r.world_size > 1 && c.world_size == 1) {
    seen.notes.push_back("the reference ran on " + std::to_string(r.world_size) +
                         " ranks, the candidate on one: are they swapped?");
  } else if (r.world_size > 1) {
    seen.notes.push_back("the reference ran on " + std::to_string(r.world_size) +
                         " ranks: it is no single-device run");
  }
  const auto by_hooks = c.may_differ.find("rewrite");
  const std::string rewritten = c.producer == "plumb"            ? setting(c, "rewrite")
                                : by_hooks != c.may_differ.end() ? by_hooks->second
                                                                 : "";
  if (!rewritten.empty()) {
    seen.notes.push_back("these runs are rewritten (" + rewritten +
                         "): modules take in what was made beforehand, so a finding up to the "
                         "gradients lies in the module that it names");
  }
  const std::string followed = "choices that follow the candidate";
  if (const auto told = r.may_differ.find(followed); told != r.may_differ.end()) {
    seen.notes.push_back(told->second +
                         " choices of the reference follow the candidate, which chose otherwise: a "
                         "rounding may turn them, so their scores are judged");
  }
  if (!candidate.graph) {
    seen.notes.push_back(
        seen.ordered
            ? "the candidate promises nothing: findings stand in the order of execution that the "
              "reference tells"
            : "the candidate promises nothing: findings stand in the order of their names, since "
              "nobody knows that of dataflow, and none is blamed");
  }
  return seen;
}

}  // namespace plumb::trace

#include "trace/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "number/words.hpp"
#include "trace/baselines.hpp"
#include "trace/clip.hpp"
#include "trace/decisions.hpp"
#include "trace/messages.hpp"
#include "trace/store/carried.hpp"
#include "trace/store/tensor_file.hpp"
#include "trace/structure.hpp"

namespace plumb::trace {
namespace {

Run run_of(const ToJudge& subject) {
  return subject.merged != nullptr ? Run(*subject.merged) : Run(subject.trace);
}

}  // namespace

Both::Both(const ToJudge& reference, const ToJudge& candidate,
           const std::vector<CheckOptions>& ways)
    : r(run_of(reference)), c(run_of(candidate)) {
  const auto asks = [&](const char* rule) {
    return std::ranges::find_if(ways, [&](const auto& way) { return asks_for(way, rule); });
  };
  for (const CheckOptions& way : ways) {
    if (asks_for(way, "perturbation") && way.perturbed != asks("perturbation")->perturbed)
      throw std::invalid_argument("check_each: ways with different perturbed references");
  }
  std::optional<Run> perturbed;
  if (const auto way = asks("perturbation"); way != ways.end() && way->perturbed != nullptr)
    perturbed.emplace(*way->perturbed);
  pairs = compare(
      r, c,
      {asks("assert-close") != ways.end(), perturbed ? &*perturbed : nullptr, ways.front().hands});
}

Evidence::Evidence(const ToJudge& of_reference, const ToJudge& of_candidate, const Both& both,
                   bool given_choices, const CheckOptions& asked)
    : options(asked),
      reference(of_reference.trace),
      candidate(of_candidate.trace),
      merged_reference(of_reference.merged),
      merged_candidate(of_candidate.merged),
      r(both.r),
      c(both.c),
      pairs(both.pairs),
      order(candidate.graph ? DataflowOrder(*candidate.graph) : DataflowOrder(reference.about)),
      given_choices_(given_choices),
      select_(asked.only, asked.skip) {
  if (candidate.graph) {
    replays = Replays([this](const auto& wanted) {
      return replay(*candidate.graph, *merged_candidate, wanted, by_card());
    });
  } else if (!reference.graph) {
    told.emplace(PartialPromise::Told{r, reference.about},
                 PartialPromise::Told{c, candidate.about, candidate.ranks.size()});
    replays = Replays(
        [this](const auto& wanted) { return told->replayed(wanted, by_card(), options.hands); });
  }
  gather();
}

void Evidence::gather() {
  if (merged_reference == nullptr) {
    // Infinities that are given are meant: a candidate that has others starts from another mask.
    const auto given = [this](const Finding& f) {
      const auto says = reference.about.find(f.id);
      return std::isinf(f.value.value_or(0)) && says != reference.about.end() &&
             says->second.role == Role::given;
    };
    refuse_broken(
        r, [&](const Finding& f) { return !select_(f.id) || is_a_mask(f, pairs) || given(f); },
        reference.manifest.settings.contains("sketch")
            ? ", or leave the tensor out (--skip): a tile that holds an infinity has no sketch"
            : "",
        [&](const Finding& f) { return !looks_at(f); });
  }
  refuse_unknown_rules(options.rules);
  if (options.spreads != nullptr) refuse_other_run(*options.spreads, candidate.manifest);
  refuse_nothing_to_judge(c, select_);
  refuse_rules_without_ground(reference, candidate, options);
  if (asks("perturbation")) refuse_no_perturbed(r, pairs, order, options);
  look_at_structure();
  say_which_updates_are_lacking();
  if (options.better != nullptr) hold_against_the_better();
  if (candidate.graph && has_any_rank_order(*candidate.graph)) {
    so_far.notes.push_back(
        "the candidate's ranks add in an order that nobody knows: where more than two do, twins "
        "draw one, and bounds hold for every one");
  }
  say_how_twins_multiply();
  if (candidate.messages && !asks("replay"))
    so_far.notes.push_back("the candidate's collectives are not judged: the rule replay does so");
  if (const auto& says = candidate.manifest.settings; says.contains("sketch")) {
    so_far.notes.push_back(
        "judged are sketches (" + says.at("sketch") +
        "), and not the tensors: what differs there may be equal here; collectives are not "
        "kept, nor is how tensors are made that have tiles, or come from such");
  }
  for (const std::string& rule : options.rules) apply(rule);
  if (far_beyond_) doubt_updates_that_nobody_replayed();
  replay_what_was_followed();
}

static bool is_of_tensor(const Finding& f) { return !is_of_file(f) && !is_message(f.id); }

// --only chooses tensors. What is said of a rank's file or of a collective is left out by --skip alone.
bool Evidence::looks_at(const Finding& f) const {
  return is_of_tensor(f) ? select_(f.id) : !select_.skips(f.id);
}

// What is left out and of no tensor is counted: no tensor's line is missing for it.
void Evidence::tell(Finding f) {
  if (looks_at(f)) {
    so_far.findings.push_back(std::move(f));
  } else if (!is_of_tensor(f)) {
    ++so_far.skipped;
  }
}

// Has the candidate the reference's bits? Replicas that disagree have not.
bool Evidence::equal_bits() const {
  return c.findings.empty() && !given_choices_ &&
         std::ranges::all_of(c.values, [&](const auto& v) { return pairs.at(v.first).equal; });
}

// Numbers are compared in FP32.
static std::size_t count_of_fp64(const Trace& reference, const Trace& candidate) {
  std::set<std::string_view> ids;
  for (const Trace* run : {&reference, &candidate}) {
    for (const RankRecord& rank : run->ranks) {
      for (const auto& [id, shard] : rank.shards) {
        if (shard.in_file && shard.in_file->numbers.stored == Stored::f64)
          ids.insert(without_recompute(id));
      }
    }
  }
  return ids.size();
}

// Numbers of ranks' files that lie nowhere in any whole, as padding. Several tensors may be made of one.
static std::size_t count_beside_wholes(const Trace& trace) {
  std::size_t beside = 0;
  for (const RankRecord& rank : trace.ranks) {
    std::map<std::uint64_t, std::pair<std::size_t, std::size_t>>
        of_place;  // numbers; of these, lying
    for (const auto& [id, shard] : rank.shards) {
      if (!shard.in_file) continue;
      auto& [all, lying] = of_place[shard.in_file->numbers.place];
      all = shard.in_file->rows * shard.in_file->cols;
      for (const Piece& piece : shard.placement.pieces)
        lying += piece.local.rows * piece.local.cols;
    }
    for (const auto& [place, numbers] : of_place)
      beside += numbers.first - std::min(numbers.first, numbers.second);
  }
  return beside;
}

void Evidence::look_at_structure() {
  const std::size_t n = count_of_fp64(reference, candidate);
  Alike seen = alike(reference, r, candidate, {equal_bits(), n > 0});
  so_far.rules = options.rules;
  so_far.notes = std::move(seen.notes);
  if (n > 0) {
    so_far.notes.push_back(how_many(n, "tensor is", "tensors are") +
                           " in FP64, and compared in FP32: smaller differences are not seen");
  }
  if (const std::size_t beside = count_beside_wholes(candidate); beside > 0) {
    so_far.notes.push_back(how_many(beside, "number") +
                           " of the candidate's files are not looked at: they lie nowhere in a "
                           "whole, as padding does");
  }
  so_far.identical = seen.identical;
  ordered = seen.ordered;
  for (Finding& f :
       structure_findings(r, candidate, c, pairs, options.allow_unmatched, reference.about)) {
    tell(std::move(f));
  }
  auto left_out =
      std::ranges::count_if(c.values, [&](const auto& one) { return !select_(one.first); });
  left_out += std::ranges::count_if(r.values, [&](const auto& one) {
    return !select_(one.first) && !c.values.contains(one.first);
  });
  so_far.not_looked_at = static_cast<std::size_t>(left_out);
  if (left_out > 0) {
    so_far.notes.push_back(
        how_many(static_cast<std::size_t>(left_out), "tensor is", "tensors are") +
        " not looked at: --only or --skip leaves them out");
  }
  say_which_shapes_differ();
  std::vector<NotJudged> allowed = allowed_in_one_only(r, c, options.allow_unmatched);
  so_far.in_one_only = allowed.size();
  for (NotJudged& one : allowed) so_far.not_judged.push_back(std::move(one));
  if (std::string said = said_too_early(so_far.findings, c); !said.empty())
    so_far.notes.push_back(std::move(said));
  for (const std::string& id : shaped_by_layout(candidate)) {
    if (c.values.contains(id) && select_(id)) lines[id] = {id, "", 0, 0};
  }
  for (const auto& [id, tensor] : c.values) {
    if (!judgeable(id)) continue;
    const Difference& d = pairs.at(id).difference;
    const bool mask = d.non_finite > 0 && pairs.at(id).equal;
    lines[id] = {id,
                 "",
                 0,
                 mask ? 0 : d.relative(),
                 {},
                 static_cast<double>(d.largest),
                 mask ? 1 : d.cosine()};
    if (d.non_finite > 0) not_finite_.insert(id);
  }
}

// Is the one the other with dimensions joined?
static bool lie_alike(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
  const auto ends = [](const std::vector<std::size_t>& shape) {
    std::set<std::size_t> all{1};
    std::size_t so_far = 1;
    for (const std::size_t d : shape) all.insert(so_far *= d);
    return all;
  };
  const std::set<std::size_t> x = ends(a), y = ends(b);
  return std::ranges::includes(x, y) || std::ranges::includes(y, x);
}

// Numbers that lie one behind the other alike are compared, whatever their dimensions.
void Evidence::say_which_shapes_differ() {
  std::vector<std::string> differ;
  for (const auto& [id, says] : reference.about) {
    const auto there = candidate.about.find(id);
    if (there == candidate.about.end() || !judgeable(id)) continue;
    const auto &a = says.shape, &b = there->second.shape;
    if (a.empty() || b.empty() || a == b) continue;
    if (lie_alike(a, b) || pairs.at(id).equal) {
      differ.push_back(id);
    } else {
      crosswise_.insert(id);
      unjudged[id] = {
          id,
          fmt::format("is {}, the reference's {}, and neither is the other with dimensions joined: "
                      "is it said right how it lies ('places' in Python, --placement)?",
                      text_of(b), text_of(a)),
          Unjudged::Kind::unexplained};
    }
  }
  if (differ.empty()) return;
  so_far.notes.push_back(fmt::format(
      "{} other dimensions than in the reference, and {} compared number by number: {} is {}, there {}",
      how_many(differ.size(), "tensor has", "tensors have"), differ.size() == 1 ? "is" : "are",
      differ.front(), text_of(candidate.about.at(differ.front()).shape),
      text_of(reference.about.at(differ.front()).shape)));
}

// Where an optimizer holds what its producer does not know, a wrong rate of learning leaves no trace.
void Evidence::say_which_updates_are_lacking() {
  for (const auto& [run, whose] : {std::pair{&reference, "reference"}, {&candidate, "candidate"}}) {
    const auto& says = run->manifest.may_differ;
    const auto found = says.find("updates");
    if (found == says.end()) continue;
    so_far.notes.push_back(
        fmt::format("updates of weights are not in the {}'s trace: {}", whose, found->second));
    if (select_("updates"))
      so_far.lacks = "updates of weights are not in the traces, and nobody judges them";
  }
}

// Choices are right or wrong, not near or far.
void Evidence::hold_against_the_better() {
  refuse_no_better(reference.manifest, options.better->manifest);
  so_far.accuracies = accuracies(
      Run(*options.better), r, c,
      [&](const auto& id) { return judgeable(id) && !order.decides(id); }, options.hands);
  so_far.notes.push_back(summary(so_far.accuracies));
  const auto lacks = std::ranges::count_if(c.values, [&](const auto& v) {
    return judgeable(v.first) && !order.decides(v.first) && !so_far.accuracies.contains(v.first);
  });
  if (lacks > 0) {
    so_far.notes.push_back(fmt::format("the better run lacks {} of the judged tensors", lacks));
  }
}

bool Evidence::judgeable(const std::string& id) const {
  const auto pair = pairs.find(id);
  return pair != pairs.end() && pair->second.both && select_(id) && order.made(id);
}

// Does the size of its difference say anything? A single number has none to average over, a
// choice has none, and Adam's first step turns a flipped sign of a tiny gradient into a whole step
// (theory.md F6).
bool Evidence::has_a_size(const std::string& id) const {
  return judgeable(id) && !crosswise_.contains(id) && c.values.at(id).size() > 1 &&
         !order.decides(id) && order.phase_of(id) != Phase::optimizer;
}

void Evidence::apply(const std::string& rule) {
  options.progress("rule " + rule);
  if (rule == "twins") return apply_twins();
  if (rule == "replay") return apply_replay();
  for (auto& [id, line] : lines) {
    if (!has_a_size(id) || (not_finite_.contains(id) && pairs.at(id).equal)) continue;
    const Baseline seen = baseline(rule, id, pairs.at(id), options.margin, candidate.manifest);
    line.take(rule, seen.ratio, false);
    so_far.could_fail = so_far.could_fail || seen.could_fail;
    if (seen.ratio > 1) so_far.findings.push_back({id, rule, seen.ratio, seen.detail});
  }
}

bool Evidence::has_statistics(const std::string& id) const {
  return lines.contains(id) && !not_finite_.contains(id) && !crosswise_.contains(id);
}

}  // namespace plumb::trace

#include "trace/twins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trace/decisions.hpp"
#include "trace/execute.hpp"
#include "trace/without_rows.hpp"

namespace plumb::trace {
namespace {

int group_of(const std::string& id, const Whole& tensor) {
  if (id.ends_with("/wgrad") || id.ends_with("/main_grad")) {
    return tensor.cols == 1 ? Group::weight_vector : Group::weight_matrix;
  }
  return id.ends_with("/grad_in") || id.ends_with("/grad_out") ? Group::gradient : Group::forward;
}

Draws draws_of(const Around& around) {
  return {around.reference, around.reference.format, around.twins};
}

Around around_of(const std::string& id, const Values& reference, const Format& format,
                 const std::vector<Values>& twins) {
  Around one{Whole(reference.at(id), format), {}};
  for (const Values& t : twins) one.twins.emplace_back(t.at(id));
  return one;
}

// What a statistic is, for whoever reads a finding.
const char* in_words(Statistic s) {
  switch (s) {
    case Statistic::norm:
      return "the norm of the difference";
    case Statistic::mismatch:
      return "the share of elements that differ";
    case Statistic::scale:
      return "the slope of the difference on the reference";
    case Statistic::row:
      return "the worst row, in units of its expected size,";
    case Statistic::element:
      return "the worst element, in units of its expected size,";
  }
  return "";
}

// A slope has a sign, and the others are sizes. Where the reference is judged, `slope` is that of its difference
// on the candidate: the candidate is 1 / (1 + slope) times as large.
double told_of(const Null& null, const Measured& m, bool around_candidate) {
  if (null.statistic != Statistic::scale) return null.size_of(m.candidate);
  const double slope = m.candidate[static_cast<std::size_t>(Statistic::scale)];
  return around_candidate ? -slope / (1 + slope) : slope;
}

std::string explained(const Null& null, const Measured& m, double told, double threshold,
                      double chance) {
  if (null.how == Case::bitwise) {
    return "differs although nothing upstream is split: twins are equal bit by bit";
  }
  char text[224];
  std::snprintf(text, sizeof text,
                "%s is %.3g, twins allow %s%.3g (p = %.1e, noise %.2g of the tensor)",
                in_words(null.statistic), told, null.statistic == Statistic::scale ? "+-" : "",
                threshold, chance, m.noise);
  return text;
}

class Conclusion {
 public:
  Conclusion(const TwinTests& of, const TwinOptions& options, const Remake& remake)
      : drawn_(of.drawn),
        remake_(remake),
        measured_(of.drawn.measured),
        tests_(of.tests),
        of_run_(options.false_alarm),
        together_(options.together),
        around_candidate_(options.around_candidate),
        level_(options.false_alarm * (options.together ? 1 - part_of_together : 1)),
        at_level_(tests_, level_) {}

  TwinsJudgement run(const Run& candidate) {
    out_.tests = tests_.count();
    for (const Null& null : tests_.nulls()) look(null);
    std::map<std::string, std::size_t> rows;
    for (const auto& [id, finding] : by_id_) {
      if (const auto row = vanishes_without_a_row(id, candidate)) rows[id] = *row;
    }
    for (const auto& [id, row] : rows) out_.one_row.insert(id);
    if (remake_.graph != nullptr && !rows.empty()) look_behind(rows);
    const bool single = std::ranges::any_of(
        by_id_, [&](const auto& one) { return !out_.one_row.contains(one.first); });
    if (together_ && !single) look_together();
    if (together_) out_.common_slope = common_slope(measured_, found());
    for (auto& [id, finding] : by_id_) out_.findings.push_back(std::move(finding));
    // Only a producer's may be wrong.
    const auto& apart = tests_.apart();
    if ((together_ || around_candidate_) && apart && apart->chance < of_run_ &&
        excuses(*apart, candidate))
      out_.apart = apart;
    for (const Measured& m : measured_) note_undecidable(m);
    std::sort(scales_.begin(), scales_.end());
    if (!scales_.empty()) {
      out_.smallest_scale = scales_[scales_.size() / 2];
    } else if (out_.vacuous > 0) {
      out_.smallest_scale = infinite;  // of tensors that are mostly noise no scale is judged
    }
    return std::move(out_);
  }

 private:
  void look(const Null& null) {
    const Measured& m = measured_[null.tensor];
    const double threshold = at_level_.threshold(null);
    const double ratio = at_level_.standing(null, m.candidate);
    const double chance = tests_.chance(null, m.candidate);
    Worst& worst = out_.worst[m.id];
    if (worst.statistic.empty() || ratio > worst.ratio) {
      worst = {std::string(name_of(null.statistic)), ratio, chance};
    }
    if (null.statistic == Statistic::scale && null.how == Case::live) scales_.push_back(threshold);
    if (null.statistic == Statistic::norm) {
      const bool sharp = null.how == Case::bitwise || threshold / m.norm_of_reference <= 0.5;
      out_.could_fail = out_.could_fail || sharp;
      // A tensor that no twin moves (zeros, counts) is no noise.
      if (!sharp && null.how != Case::undecidable) out_.noisy.insert(m.id);
      out_.vacuous = out_.noisy.size();
    }
    if (chance >= level_) return;
    Finding& finding = by_id_[m.id];
    if (finding.id.empty() || ratio > finding.ratio) {
      const double told = told_of(null, m, around_candidate_);
      finding = {m.id, std::string(name_of(null.statistic)), ratio,
                 explained(null, m, told, threshold, chance)};
      finding.value = told;
      finding.tolerance = threshold;
      finding.p = chance;
    }
  }

  std::set<std::string> found() const {
    std::set<std::string> ids;
    for (const auto& [id, finding] : by_id_) ids.insert(id);
    return ids;
  }

  // Where no single tensor stands out. It is told of the largest.
  void look_together() {
    const bool both = has_clipped(measured_);
    const double chance = of_run_ * part_of_together / (both ? 2 : 1);
    for (const bool clipped : {false, true}) {
      const std::optional<Together> seen = gradients_together(measured_, chance, clipped);
      if (!seen) continue;
      out_.together.push_back(*seen);
      if (seen->p < chance) tell(*seen);
    }
  }
  void tell(const Together& seen) {
    const auto& [longer, allowed, p, id, clipped] = seen;
    Finding f{
        id, std::string(name_of(Statistic::norm)), std::fabs(longer) / allowed,
        fmt::format(
            "the norm of all gradients{} is 1 {} {:.2g} of the reference's, twins allow 1 +- {:.2g} (p = {:.1e})",
            clipped ? " behind the clip" : "", longer < 0 ? '-' : '+', std::fabs(longer), allowed,
            p)};
    f.value = 1 + longer;
    f.tolerance = allowed;
    f.p = p;
    Worst& worst = out_.worst[id];
    if (f.ratio > worst.ratio) worst = {f.statistic, f.ratio, p};
    out_.one_row.erase(id);
    by_id_.insert_or_assign(id, std::move(f));
  }

  // The row without which nothing is rejected.
  std::optional<std::size_t> vanishes_without_a_row(const std::string& id, const Run& candidate) {
    const Whole& c = candidate.values.at(id);
    const Expectation expected = drawn_.expected_of(id);
    const TopRow top = top_row(c, expected.reference());
    if (top.share < 0.5 || !passes(id, expected.of(c, top.row))) return {};
    return top.row;
  }

  // Findings that vanish where the rows upstream are the reference's.
  void look_behind(const std::map<std::string, std::size_t>& rows) {
    WithoutRows without(*remake_.graph, *remake_.values, drawn_.reference.values, rows);
    for (const auto& [id, finding] : by_id_) {
      const Tensor* other = rows.contains(id) ? nullptr : without.of(id);
      if (other == nullptr) continue;
      if (passes(id, drawn_.expected_of(id).of(Whole(*other)))) out_.one_row.insert(id);
    }
  }

  bool passes(const std::string& id, const Sample& sample) {
    return std::ranges::none_of(tests_.nulls(), [&](const Null& null) {
      return measured_[null.tensor].id == id &&
             (null.how == Case::bitwise || tests_.chance(null, sample) < level_);
    });
  }

  // Would the other twins find what this one does not let be found? Two cannot say. What one row carries may
  // be rare in both (V3), and worst rows and elements are measured in units that this twin has a part in.
  bool excuses(const Apart& apart, const Run& candidate) const {
    std::vector<Measured> of_others = measured_;
    for (Measured& m : of_others) {
      if (m.draws.empty()) continue;
      if (m.draws.size() < 4) return false;
      m.draws.erase(m.draws.begin() + static_cast<std::ptrdiff_t>(apart.twin));
      double squares = 0;
      for (const Sample& draw : m.draws)
        squares += std::pow(draw[static_cast<std::size_t>(Statistic::norm)], 2);
      m.noise = std::sqrt(squares / static_cast<double>(m.draws.size())) / m.norm_of_reference;
    }
    const Tests by_others(of_others, nullptr);
    return std::ranges::any_of(by_others.nulls(), [&](const Null& null) {
      const Measured& m = of_others[null.tensor];
      const bool may_say = null.how != Case::bitwise && null.statistic != Statistic::row &&
                           null.statistic != Statistic::element;
      return may_say && by_others.chance(null, m.candidate) < of_run_ &&
             top_row(candidate.values.at(m.id), drawn_.expected_of(m.id).reference()).share < 0.5;
    });
  }

  void note_undecidable(const Measured& m) {
    const auto norm = [](const Sample& s) { return s[static_cast<std::size_t>(Statistic::norm)]; };
    const bool silent = std::ranges::none_of(m.draws, [&](const Sample& s) { return norm(s) > 0; });
    if (!m.touched || !silent || norm(m.candidate) == 0) return;
    out_.undecidable.push_back(
        {m.id, "norm", infinite, "differs although no twin does; something is split upstream"});
  }

  const Drawn& drawn_;
  const Remake remake_;
  const std::vector<Measured>& measured_;
  const Tests& tests_;
  const double of_run_;  // the level of all tests
  const bool together_, around_candidate_;
  const double level_;
  const TestsAt at_level_;
  TwinsJudgement out_;
  std::map<std::string, Finding> by_id_;
  std::vector<double> scales_;
};

// Twice the variance makes a t of 8 out of one of 6: chances of 1e-6 become some 1e-5.
constexpr double outgrown = 2;

// Two twins say little of how they scatter, and all tensors say it of the same two: a refusal waits
// for as many as are drawn without stored spreads.
constexpr int twins_of_a_refusal = 4;

void refuse_outgrown(double ratio) {
  if (ratio <= outgrown) return;
  char text[200];
  std::snprintf(text, sizeof text,
                "the twins scatter %.1f times as much as the stored spreads say: the weights have "
                "moved on; learn again with plumb spreads, or leave --spreads out",
                std::sqrt(ratio));
  throw Failure(text);
}

}  // namespace

double level_of_first_look(double level) { return std::max(level, std::min(looser * level, 0.5)); }

double level_of_second_look(double level) { return level / std::clamp(0.1 / level, 1.0, stricter); }

bool judged_by_twins(const Node& node) {
  const Traits& traits = traits_of(node);
  return node.phase <= Phase::reduce && !traits.short_copy && !traits.makes_scales &&
         !traits.choice;
}

std::vector<Values> make_twins(const Graph& reference_graph, const Values& reference,
                               const Graph& candidate_graph, const TwinOptions& options) {
  return meet(reference_graph, reference, candidate_graph, nullptr, options.seed, options.twins,
              {Phase::reduce})
      .twins;
}

static Measured measured_by(const Draws& draws, const std::string& id, bool touched,
                            const Whole& c) {
  const Whole& r = draws.expectation().reference();
  Measured m{id, kind_of(id), group_of(id, r), {}, {}, 0, 0};
  m.elements = static_cast<double>(r.size());
  m.touched = touched;
  m.noise = draws.relative_noise();
  m.norm_of_reference = std::sqrt(draws.reference_energy());
  if (touched) {
    for (std::size_t k = 0; k < draws.count(); ++k) m.draws.push_back(draws.of_draw(k));
  }
  if (!equal(c, r)) m.candidate = draws.of(c);
  return m;
}

Measured measured_of(const std::string& id, bool touched, const Around& around, const Whole& c) {
  return measured_by(draws_of(around), id, touched, c);
}

Expectation Drawn::expected_of(const std::string& id) const {
  return read ? draws_of(read(id)).expectation() : expected.at(id);
}

Drawn draw_twins(const Graph& reference_graph, const Merged& reference,
                 const Graph& candidate_graph, const Merged& candidate,
                 const std::function<bool(const std::string&)>& wanted,
                 const TwinOptions& options) {
  options.progress(std::to_string(options.twins) + " twins");
  std::vector<Measured> measured;
  std::map<std::string, Expectation> expected;
  const auto look = [&](const Node& node, bool touched, const Meeting& made) {
    if (!judged_by_twins(node)) return;
    for (const std::string& id : node.outputs) {
      if (!wanted(id)) continue;
      const Around one = around_of(id, made.reference, reference.formats.at(id), made.twins);
      Draws draws = draws_of(one);
      measured.push_back(measured_by(draws, id, touched, candidate.values.at(id)));
      expected.emplace(id, std::move(draws).expectation());
    }
  };
  Meeting met = meet(reference_graph, reference.values, candidate_graph, &candidate.values,
                     options.seed, options.twins, {Phase::reduce}, look, options.keeps_twins);
  Drawn drawn{reference,          {}, std::move(met.followed), met.flips, std::move(measured),
              std::move(expected)};
  if (options.keeps_twins) drawn.twins = std::move(met.twins);
  drawn.reference.values = std::move(met.reference);
  if (options.spreads == nullptr) return drawn;
  const double ratio = moved_on(drawn.measured, options.spreads->learnt);
  if (ratio > outgrown && options.twins < twins_of_a_refusal) {
    TwinOptions more = options;
    more.twins = twins_of_a_refusal;
    return draw_twins(reference_graph, reference, candidate_graph, candidate, wanted, more);
  }
  refuse_outgrown(ratio);
  return drawn;
}

TwinsJudgement conclude(const TwinTests& tests, const Run& candidate, const TwinOptions& options,
                        const Remake& remake) {
  return Conclusion(tests, options, remake).run(candidate);
}

}  // namespace plumb::trace

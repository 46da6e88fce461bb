#include "trace/twins.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trace/decisions.hpp"
#include "trace/execute.hpp"
#include "trace/levels.hpp"

namespace plumb::trace {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

int group_of(const std::string& id, const Whole& tensor) {
  if (id.ends_with("/wgrad") || id.ends_with("/main_grad")) {
    return tensor.cols == 1 ? Group::weight_vector : Group::weight_matrix;
  }
  return id.ends_with("/grad_in") || id.ends_with("/grad_out") ? Group::gradient : Group::forward;
}

Draws draws_of(const Around& around) {
  return {around.reference, around.reference.format, around.twins};
}

Around around(const std::string& id, const Merged& reference, const std::vector<Values>& twins) {
  Around one{Whole(reference.values.at(id), reference.formats.at(id)), {}};
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

std::string explained(const Judged& j, const Measured& m, double threshold) {
  if (j.how == Case::bitwise) {
    return "differs although nothing upstream is split: twins are equal bit by bit";
  }
  char text[224];
  std::snprintf(text, sizeof text,
                "%s is %.3g, twins allow %.3g (p = %.1e, noise %.2g of the tensor)",
                in_words(j.statistic), j.size_of(m.candidate), threshold, j.p, m.noise);
  return text;
}

class Conclusion {
 public:
  Conclusion(const Drawn& drawn, const TwinOptions& options)
      : drawn_(drawn),
        measured_(drawn.measured),
        judged_(judge(measured_, options.spreads == nullptr ? nullptr : &options.spreads->learnt)),
        options_(options) {}

  TwinsJudgement run(const Run& candidate) {
    std::vector<double> p;
    for (const Judged& j : judged_) {
      if (j.how != Case::undecidable && j.how != Case::refused) p.push_back(j.p);
    }
    out_.tests = p.size();
    const std::vector<double> adjusted = holm(p);
    const double level =
        options_.false_alarm / static_cast<double>(std::max<std::size_t>(p.size(), 1));
    std::size_t next = 0;
    for (const Judged& j : judged_) {
      const bool tested = j.how != Case::undecidable && j.how != Case::refused;
      look(j, level, tested && adjusted[next] < options_.false_alarm);
      if (tested) ++next;
    }
    for (auto& [id, finding] : by_id_) {
      if (vanishes_without_a_row(id, level, candidate)) out_.one_row.insert(id);
      out_.findings.push_back(std::move(finding));
    }
    for (const Measured& m : measured_) note_undecidable(m);
    std::sort(scales_.begin(), scales_.end());
    if (!scales_.empty()) out_.smallest_scale = scales_[scales_.size() / 2];
    return std::move(out_);
  }

 private:
  void look(const Judged& j, double level, bool rejected) {
    const Measured& m = measured_[j.tensor];
    const double threshold = j.threshold(level);
    const double ratio = j.standing(m.candidate, level);
    Worst& worst = out_.worst[m.id];
    if (worst.statistic.empty() || ratio > worst.ratio) {
      worst = {std::string(name_of(j.statistic)), ratio, j.p};
    }
    if (j.statistic == Statistic::scale && j.how == Case::live) scales_.push_back(threshold);
    if (j.statistic == Statistic::norm) {
      const bool sharp = j.how == Case::bitwise || threshold / m.norm_of_reference <= 0.5;
      out_.could_fail = out_.could_fail || sharp;
      // A tensor that no twin moves (zeros, counts) is no noise.
      if (!sharp && j.how != Case::undecidable) ++out_.vacuous;
    }
    if (!rejected) return;
    Finding& finding = by_id_[m.id];
    const double shown = std::max(ratio, 1.0);  // Holm's later steps are sharper than the first
    if (finding.id.empty() || shown > finding.ratio) {
      finding = {m.id, std::string(name_of(j.statistic)), j.how == Case::bitwise ? infinite : shown,
                 explained(j, m, threshold)};
      finding.value = j.size_of(m.candidate);
      finding.tolerance = threshold;
      finding.p = j.p;
    }
  }

  bool vanishes_without_a_row(const std::string& id, double level, const Run& candidate) {
    const Whole& c = candidate.values.at(id);
    const Around tensor = drawn_.around(id);
    const TopRow top = top_row(c, tensor.reference);
    if (top.share < 0.5) return false;
    const Sample rest = draws_of(tensor).of(c, top.row);
    for (const Judged& j : judged_) {
      if (measured_[j.tensor].id != id) continue;
      if (j.how == Case::bitwise) return false;
      if ((j.how == Case::live || j.how == Case::few) && j.p_of(rest) < level) return false;
    }
    return true;
  }

  void note_undecidable(const Measured& m) {
    const auto norm = [](const Sample& s) { return s[static_cast<std::size_t>(Statistic::norm)]; };
    const bool silent = std::ranges::none_of(m.draws, [&](const Sample& s) { return norm(s) > 0; });
    if (!m.touched || !silent || norm(m.candidate) == 0) return;
    out_.undecidable.push_back(
        {m.id, "norm", infinite, "differs although no twin does; something is split upstream"});
  }

  const Drawn& drawn_;
  const std::vector<Measured>& measured_;
  std::vector<Judged> judged_;
  const TwinOptions& options_;
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

Measured measured_of(const std::string& id, bool touched, const Around& around, const Whole& c) {
  const Whole& r = around.reference;
  const Draws draws = draws_of(around);
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

std::vector<Measured> measure(const Graph& reference_graph, const Merged& reference,
                              const Graph& candidate_graph, const Merged& candidate,
                              const std::vector<Values>& twins,
                              const std::function<bool(const std::string&)>& wanted) {
  const std::set<std::string> differs = touched(reference_graph, candidate_graph);
  std::vector<Measured> all;
  for (const Node& node : candidate_graph.nodes) {
    if (!judged_by_twins(node)) continue;
    for (const std::string& id : node.outputs) {
      if (!wanted(id)) continue;
      all.push_back(measured_of(id, differs.contains(id), around(id, reference, twins),
                                candidate.values.at(id)));
    }
  }
  return all;
}

Drawn draw_twins(const Graph& reference_graph, const Merged& reference,
                 const Graph& candidate_graph, const Merged& candidate,
                 const std::function<bool(const std::string&)>& wanted,
                 const TwinOptions& options) {
  options.progress(std::to_string(options.twins) + " twins");
  Meeting met = meet(reference_graph, reference.values, candidate_graph, &candidate.values,
                     options.seed, options.twins, {Phase::reduce});
  Drawn drawn{reference, std::move(met.twins), std::move(met.followed), met.flips, {}};
  drawn.reference.values = std::move(met.reference);
  options.progress("comparing with the twins");
  drawn.measured =
      measure(reference_graph, drawn.reference, candidate_graph, candidate, drawn.twins, wanted);
  drawn.around = [reference = drawn.reference, twins = drawn.twins](const std::string& id) {
    return around(id, reference, twins);
  };
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

TwinsJudgement conclude(const Drawn& drawn, const Run& candidate, const TwinOptions& options) {
  return Conclusion(drawn, options).run(candidate);
}

}  // namespace plumb::trace

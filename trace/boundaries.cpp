#include "trace/boundaries.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "number/blocks.hpp"
#include "number/lanes.hpp"
#include "trace/decisions.hpp"

namespace plumb::trace {
namespace {

// Is no number beyond the format that has the scale of its own block (or tensor)?
bool all_fit(const Node& scales) {
  const auto rule = scales.attributes.find("rule");
  if (rule == scales.attributes.end()) return true;
  return rule->second == static_cast<double>(ScaleRule::ceil) ||
         rule->second == static_cast<double>(ScaleRule::exact);
}

// A format that goes on beyond its largest number.
Format open_above(Format format) {
  constexpr int far = 8;  // doublings
  format.emax += far;
  format.top_gap = 0;
  return format;
}

bool shaped_alike(const Tensor& a, const Tensor& b) { return a.rows == b.rows && a.cols == b.cols; }

// The numbers in which two evaluations of an output differ.
struct Flips {
  std::size_t count = 0;
  bool few = true;           // at most 20, or one in sixteen, each by one rounding
  double as_many_equal = 0;  // this many of one size would scatter as much: (sum e^2)^2 / sum e^4
};

double root_mean_square(const Tensor& x) {
  Doubles sums{}, wide;
  std::size_t e = 0;
  for (; e + doubles <= x.size(); e += doubles) {
    widen(x.values.data() + e, wide);
    sums += wide * wide;
  }
  double sum = total_of(sums);
  for (; e < x.size(); ++e) sum += static_cast<double>(x.values[e]) * x.values[e];
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(x.size(), 1)));
}

// The root mean square of a tensor, once somebody asks for it.
class Typical {
 public:
  explicit Typical(const Tensor& x) : x_(x) {}
  double operator()() const {
    if (!known_) known_ = root_mean_square(x_);
    return *known_;
  }

 private:
  const Tensor& x_;
  mutable std::optional<double> known_;
};

// Do more than so many numbers differ? Looks no further than it has to.
bool more_differ(const Tensor& a, const Tensor& b, std::size_t most) {
  constexpr std::size_t at_once = 64 * lanes;
  std::size_t differ = 0, e = 0;
  for (; e + at_once <= a.size() && differ <= most; e += at_once) {
    Ints seen{};
    for (std::size_t i = e; i < e + at_once; i += lanes) {
      Floats x, y;
      std::memcpy(&x, &a.values[i], sizeof x);
      std::memcpy(&y, &b.values[i], sizeof y);
      seen -= x != y;
    }
    for (std::size_t l = 0; l < lanes; ++l) differ += static_cast<std::size_t>(seen[l]);
  }
  for (; e < a.size() && differ <= most; ++e) differ += a.values[e] != b.values[e] ? 1 : 0;
  return differ > most;
}

// `typical`: root mean square of a. One ulp is that of the number or, where terms cancelled, of that.
Flips flips(const Node& node, const Tensor& a, const Tensor& b, const Typical& typical) {
  Flips seen;
  const std::size_t most = std::max(a.size() / 16, static_cast<std::size_t>(fewest_flips));
  seen.few = shaped_alike(a, b) && !more_differ(a, b, most);
  const bool copy = traits_of(node).short_copy;
  double squares = 0, fourths = 0;
  for (std::size_t e = 0; seen.few && e < a.size(); ++e) {
    const double x = a.values[e], y = b.values[e];
    if (x == y) continue;
    const double larger = std::max({std::fabs(x), std::fabs(y), typical()});
    const double d = (x - y) * (x - y);
    const bool near = std::isfinite(larger) && std::fabs(x - y) <= ulp(larger, node.how.output);
    seen.few = near || copy;
    ++seen.count;
    squares += d;
    fourths += d * d;
  }
  if (fourths > 0) seen.as_many_equal = squares * squares / fourths;
  return seen;
}

class SideBySide {
 public:
  SideBySide(const Graph& reference_graph, const Values& reference, const Graph& graph,
             const Values* candidate, std::uint64_t seed, int k, bool keeps)
      : reference_graph_(reference_graph),
        graph_(graph),
        candidate_(candidate),
        seed_(seed),
        keeps_(keeps),
        differs_(touched(reference_graph, graph)),
        out_{reference, std::vector<Values>(static_cast<std::size_t>(k)), {}, 0} {}

  Meeting run(Extent extent, const AsMade& see) {
    if (!keeps_) find_last_readers(extent);
    for (const auto& [id, tensor] : out_.reference) {
      if (differs_.contains(id)) continue;
      for (Values& twin : out_.twins) twin.emplace(id, tensor);
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase > extent.last) continue;
      const bool touched = differs_.contains(node.outputs.front());
      if (touched) step(reference_graph_.nodes[i], node);
      see(node, touched, out_);
      if (!keeps_) let_go(i);
    }
    return std::move(out_);
  }

 private:
  void find_last_readers(Extent extent) {
    std::map<std::string_view, std::size_t> last;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase > extent.last) continue;
      for (const auto* ids : {&node.inputs, &node.outputs}) {
        for (const std::string& id : *ids) last[id] = i;
      }
    }
    read_no_more_.resize(graph_.nodes.size());
    for (const auto& [id, i] : last) read_no_more_[i].emplace_back(id);
  }

  // Of what no later node reads.
  void let_go(std::size_t i) {
    for (const std::string& id : read_no_more_[i]) {
      for (Values& twin : out_.twins) twin.erase(id);
    }
  }

  void step(const Node& of_reference, const Node& node) {
    const bool again = std::ranges::any_of(
        node.inputs, [&](const std::string& id) { return changed_.contains(id); });
    if (again && !is_decision(node)) {
      make(by_followed_scale(of_reference), out_.reference);
      changed_.insert(node.outputs.begin(), node.outputs.end());
    }
    // Blocks that begin anew on each rank have scales of their own.
    const bool scales = traits_of(node).makes_scales && of_reference.how == node.how;
    if (scales && all_fit(node)) fitting_.insert(node.outputs.front());
    if (!is_decision(node) && !scales) {
      draw(by_followed_scale(node), out_.twins, seed_);
    }
    for (const std::string& id : node.outputs) {
      if (scales) follow(id, 0);
      const bool given = scales || is_decision(node);
      if (given || few_flips(node, id)) together(id);
    }
  }

  // A cast whose scale is the candidate's. The candidate's largest number lies just inside of the format,
  // the reference's and the twins' as often beyond: what cut them there would leave the candidate longer
  // than all of them (twins.md F3).
  Node by_followed_scale(Node node) const {
    const bool saturates = node.attributes.contains("saturate");
    if (node.inputs.size() > 1 && fitting_.contains(node.inputs[1]) && !saturates) {
      node.how.output = open_above(node.how.output);
    } else if (traits_of(node).may_saturate) {
      node.attributes["saturate"] = 1;
    }
    return node;
  }

  // Do twins and candidate differ from the reference in so few numbers that single runs decide? If
  // so, the reference takes the candidate's.
  bool few_flips(const Node& node, const std::string& id) {
    const Tensor& base = *out_.reference.at(id);
    const Typical typical(base);
    double sum = 0;
    for (const Values& twin : out_.twins) {
      const Flips of_twin = flips(node, base, *twin.at(id), typical);
      if (!of_twin.few) return false;
      sum += of_twin.as_many_equal;
    }
    if (sum > fewest_flips * static_cast<double>(out_.twins.size())) return false;
    if (candidate_ == nullptr || !candidate_->contains(id)) return true;
    const Flips of_candidate = flips(node, base, *candidate_->at(id), typical);
    if (of_candidate.few) follow(id, of_candidate.count);
    return of_candidate.few;
  }

  void follow(const std::string& id, std::size_t flips) {
    if (candidate_ == nullptr) return;
    const auto found = candidate_->find(id);
    if (found == candidate_->end()) return;
    auto& base = out_.reference.at(id);
    if (!shaped_alike(*base, *found->second) || *base == *found->second) return;
    base = found->second;
    changed_.insert(id);
    out_.followed.insert(id);
    out_.flips += flips;
  }

  void together(const std::string& id) {
    for (Values& twin : out_.twins) twin[id] = out_.reference.at(id);
  }

  const Graph& reference_graph_;
  const Graph& graph_;
  const Values* candidate_;
  std::uint64_t seed_;
  bool keeps_;
  std::vector<std::vector<std::string>> read_no_more_;  // behind each node
  std::set<std::string> differs_, changed_;
  std::set<std::string>
      fitting_;  // scales that are followed, in which all numbers fit that made them
  Meeting out_;
};

}  // namespace

Meeting meet(const Graph& reference_graph, const Values& reference, const Graph& graph,
             const Values* candidate, std::uint64_t seed, int k, Extent extent, const AsMade& see,
             bool keeps) {
  return SideBySide(reference_graph, reference, graph, candidate, seed, k, keeps).run(extent, see);
}

}  // namespace plumb::trace

#include "trace/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "bounds/on_machine.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/check_graph.hpp"
#include "trace/signature.hpp"

namespace plumb::trace {
namespace {

// Are they equal bit by bit, but for the payload of a NaN?
bool equal_number(float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); }
bool equal_values(const Tensor& a, const Tensor& b) {
  const bool one_size = a.size() == b.size() && a.size() > 0;
  // Bits are compared many at a time; where they differ, a zero may have the other sign.
  if (one_size && std::memcmp(&a.values[0], &b.values[0], a.size() * sizeof(float)) == 0)
    return true;
  return std::ranges::equal(a.values, b.values, equal_number);
}

class Replay {
 public:
  Replay(const Node& node, const Merged& run, const ReplayOptions& options, Replayed& out)
      : node_(node), run_(run), values_(run.values), options_(options), out_(out) {}

  void run() {
    const Operation* operation = find_operation(node_.op);
    if (operation == nullptr) return skip("operation '" + node_.op + "' is not in the catalogue");
    RealRoundings roundings;
    Call<float> call{{}, node_.attributes, node_.how, roundings};
    for (const std::string& id : node_.inputs) {
      const auto found = values_.find(id);
      if (found == values_.end()) return skip("its input '" + id + "' was not recorded");
      call.inputs.push_back(found->second.get());
    }
    const std::string wrong = wrong_with(node_, *operation, call.inputs);
    if (!wrong.empty()) return skip(wrong);
    std::vector<Tensor> promised;
    try {
      promised = operation->evaluate(call);
    } catch (const std::invalid_argument& refused) {
      return contradicts(refused.what());
    }
    bool equal = true;
    for (std::size_t i = 0; i < promised.size(); ++i) {
      const auto found = values_.find(node_.outputs[i]);
      if (found == values_.end()) continue;  // a missing tensor is a structure finding
      if (!has_shape(*found->second, promised[i], node_.outputs[i])) return;
      const bool same = equal_values(*found->second, promised[i]);
      if (same) out_.ratios[node_.outputs[i]] = 0;
      equal = equal && same;
    }
    if (!equal) against_bound(*operation, promised);
  }

 private:
  bool has_shape(const Tensor& got, const Tensor& promised, const std::string& id) {
    if (got.rows == promised.rows && got.cols == promised.cols) return true;
    out_.findings.push_back({id, "structure", std::numeric_limits<double>::infinity(),
                             "is " + size_of(got.rows, got.cols) + ", the promise makes " +
                                 size_of(promised.rows, promised.cols)});
    return false;
  }

  // The run holds inputs of which the promised operation can make nothing.
  void contradicts(const std::string& reason) {
    const auto here = std::ranges::find_if(
        node_.outputs, [&](const std::string& id) { return values_.contains(id); });
    out_.findings.push_back({here == node_.outputs.end() ? node_.outputs.front() : *here,
                             "structure", std::numeric_limits<double>::infinity(),
                             "cannot be made as promised, " + reason});
  }

  void skip(const std::string& reason) {
    for (const std::string& id : node_.outputs) out_.not_judged.push_back({id, reason});
  }

  void against_bound(const Operation& operation, const std::vector<Tensor>& promised) {
    std::vector<Matrix<double>> wide;
    for (const std::string& id : node_.inputs) {
      wide.push_back(converted<double>(*values_.at(id)));
    }
    ExactRoundings none;
    Call<double> call{{}, node_.attributes, node_.how, none};
    ToleranceCall ask{
        {}, node_.attributes, bounding(node_.how), options_.mode, options_.false_alarm, {}, {}};
    for (const Matrix<double>& input : wide) {
      call.inputs.push_back(&input);
      ask.inputs.push_back(&input);
    }
    const std::vector<Matrix<double>> truth = operation.value(call);
    ask.values = truth;
    ask.terms = false;
    const Outcome<Tolerance> tolerance = tolerance_of(operation, ask);
    if (!tolerance) return skip(tolerance.error().detail);
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const auto found = values_.find(node_.outputs[i]);
      if (found == values_.end() || equal_values(*found->second, promised[i])) {
        continue;
      }
      if (bits_are_promised()) {
        tell_bits(node_.outputs[i], *found->second, promised[i]);
        continue;
      }
      const std::size_t worst =
          compare(node_.outputs[i], *found->second, truth[i], tolerance->bound[i]);
      if (out_.ratios.at(node_.outputs[i]) <= 1) continue;
      ask.explained = {i, worst};
      ask.terms = true;
      const auto terms = tolerance_of(operation, ask)->terms[i];
      tell({i, worst}, *found->second, truth[i], tolerance->bound[i], terms);
      const std::string name = looks_like({node_, node_.outputs[i], i, call.inputs, values_,
                                           *found->second, truth[i], tolerance->bound[i]});
      out_.findings.back().looks_like = name;
      if (!name.empty()) out_.findings.back().detail += "; this fits every element: " + name;
    }
  }

  // Draws are a part of the promise, and so is each bit that they decide.
  bool bits_are_promised() const {
    return node_.attributes.contains("key") && !node_.how.by_chance;
  }

  void tell_bits(const std::string& id, const Tensor& got, const Tensor& promised) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    out_.ratios[id] = infinite;
    std::size_t differ = 0, first = got.size();
    for (std::size_t e = 0; e < got.size(); ++e) {
      if (equal_number(got.values[e], promised.values[e])) continue;
      ++differ;
      first = std::min(first, e);
    }
    const std::size_t columns = std::max<std::size_t>(got.cols, 1);
    Finding finding{id, "replay", infinite};
    finding.at = {first / columns, first % columns};
    finding.value = static_cast<double>(got.values[first]);
    finding.expected = static_cast<double>(promised.values[first]);
    finding.tolerance = 0;
    finding.detail = fmt::format(
        "the draws of {} are promised, and so is every bit; {} of {} elements differ, the first at "
        "({}, {}): promised {:.9g}, the run has {:.9g}",
        node_.op, differ, got.size(), finding.at->row, finding.at->column, *finding.expected,
        *finding.value);
    out_.findings.push_back(std::move(finding));
  }

  Outcome<Tolerance> tolerance_of(const Operation& operation, const ToleranceCall& ask) const {
    const auto format = run_.formats.find(node_.inputs.empty() ? "" : node_.inputs.front());
    return tolerance_by_card(node_.inputs.empty() ? nullptr : options_.machine, operation, ask,
                             format == run_.formats.end() ? fp32 : format->second);
  }

  // Returns the element that is furthest out, in units of its bound.
  std::size_t compare(const std::string& id, const Tensor& got, const Matrix<double>& truth,
                      const Matrix<double>& bound) {
    double worst = 0;
    std::size_t where = 0;
    bool zeros_pass = true;
    for (std::size_t e = 0; e < truth.size(); ++e) {
      zeros_pass = zeros_pass && std::fabs(truth.values[e]) <= bound.values[e];
      const double error = std::fabs(static_cast<double>(got.values[e]) - truth.values[e]);
      double ratio = error == 0 ? 0 : error / bound.values[e];
      if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
      if (ratio > worst) {
        worst = ratio;
        where = e;
      }
    }
    out_.ratios[id] = worst;
    if (zeros_pass && worst <= 1) out_.as_zeros.insert(id);
    return where;
  }

  void tell(const Place& place, const Tensor& got, const Matrix<double>& truth,
            const Matrix<double>& bound, const std::vector<Term>& terms) {
    const std::string& id = node_.outputs[place.output];
    const std::size_t columns = std::max<std::size_t>(truth.cols, 1);
    Finding finding{id, "replay", out_.ratios.at(id)};
    finding.at = {place.element / columns, place.element % columns};
    finding.value = static_cast<double>(got.values[place.element]);
    finding.expected = truth.values[place.element];
    finding.tolerance = bound.values[place.element];
    const int digits = digits_to_tell(*finding.expected, *finding.value);
    finding.detail = fmt::format(
        "from the run's own inputs {} gives {:.{}g} +- {:.3g} at ({}, {}); the run has {:.{}g}",
        node_.op, *finding.expected, digits, *finding.tolerance, finding.at->row,
        finding.at->column, *finding.value, digits);
    const auto most = std::ranges::max_element(terms, {}, &Term::largest);
    if (most != terms.end()) {
      finding.term = most->formula;
      finding.detail += fmt::format("; {:.0f} % of the tolerance is {}",
                                    100 * most->largest / *finding.tolerance, most->formula);
    }
    finding.profile = profile_of(truth.rows, truth.cols, true, [&](std::size_t i, std::size_t j) {
      const double error = std::fabs(static_cast<double>(got(i, j)) - truth(i, j));
      return error == 0 ? 0 : error / bound(i, j);
    });
    out_.findings.push_back(std::move(finding));
  }

  const Node& node_;
  const Merged& run_;
  const Values& values_;
  const ReplayOptions& options_;
  Replayed& out_;
};

}  // namespace

Outcome<Tolerance> tolerance_by_card(const Machine* machine, const Operation& operation,
                                     const ToleranceCall& call, const Format& input) {
  const bool by_card = machine != nullptr && (machine->rounds_to_nearest() || machine->order() ||
                                              operation.traits.one_product ||
                                              (machine->collective && operation.traits.of_ranks));
  return by_card ? tolerance_on(*machine, operation, call, input) : operation.tolerance(call);
}

void replay_one(const Node& node, std::size_t operations, const Merged& run,
                const ReplayOptions& options, Replayed& out) {
  if (options.mode == Mode::moments) {
    throw Failure(
        "moments say how large errors usually are, not how large they may be; replay by the mode "
        "deterministic or probabilistic");
  }
  ReplayOptions each = options;
  each.false_alarm /= static_cast<double>(std::max<std::size_t>(operations, 1));
  Replay(node, run, each, out).run();
}

Replayed replay(const Graph& graph, const Merged& run,
                const std::function<bool(const std::string&)>& wanted,
                const ReplayOptions& options) {
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes) {
    if (std::ranges::any_of(node.outputs, wanted)) nodes.push_back(&node);
  }
  Replayed out;
  for (const Node* node : nodes) replay_one(*node, nodes.size(), run, options, out);
  return out;
}

}  // namespace plumb::trace

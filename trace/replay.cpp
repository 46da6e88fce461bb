#include "trace/replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "trace/check_graph.hpp"

namespace plumb::trace {
namespace {

// Are they equal bit by bit, but for the payload of a NaN?
bool equal_values(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.values, b.values, [](float x, float y) {
    return x == y || (std::isnan(x) && std::isnan(y));
  });
}

class Replay {
 public:
  Replay(const Node& node, const Values& values, Replayed& out)
      : node_(node), values_(values), out_(out) {}

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
    const std::vector<Tensor> promised = operation->evaluate(call);
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

  void skip(const std::string& reason) {
    for (const std::string& id : node_.outputs) out_.not_judged.push_back(id + ": " + reason);
  }

  void against_bound(const Operation& operation, const std::vector<Tensor>& promised) {
    std::vector<Matrix<double>> wide;
    for (const std::string& id : node_.inputs) {
      wide.push_back(converted<double>(*values_.at(id)));
    }
    ExactRoundings none;
    Call<double> call{{}, node_.attributes, node_.how, none};
    ToleranceCall ask{{}, node_.attributes, node_.how, Mode::deterministic, 0, {}};
    for (const Matrix<double>& input : wide) {
      call.inputs.push_back(&input);
      ask.inputs.push_back(&input);
    }
    const std::vector<Matrix<double>> truth = operation.value(call);
    ask.values = truth;
    const Outcome<Tolerance> tolerance = operation.tolerance(ask);
    if (!tolerance) return skip(tolerance.error().detail);
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const auto found = values_.find(node_.outputs[i]);
      if (found == values_.end() || equal_values(*found->second, promised[i])) {
        continue;
      }
      compare(node_.outputs[i], *found->second, truth[i], tolerance->bound[i]);
    }
  }

  void compare(const std::string& id, const Tensor& got, const Matrix<double>& truth,
               const Matrix<double>& bound) {
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t e = 0; e < truth.size(); ++e) {
      const double error = std::fabs(static_cast<double>(got.values[e]) - truth.values[e]);
      double ratio = error == 0 ? 0 : error / bound.values[e];
      if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
      if (ratio > worst) {
        worst = ratio;
        where = e;
      }
    }
    out_.ratios[id] = worst;
    if (worst <= 1) return;
    const std::size_t columns = std::max<std::size_t>(truth.cols, 1);
    char detail[256];
    std::snprintf(detail, sizeof detail,
                  "from the run's own inputs %s gives %.6g +- %.3g at (%zu, %zu); the run has %.6g",
                  node_.op.c_str(), truth.values[where], bound.values[where], where / columns,
                  where % columns, static_cast<double>(got.values[where]));
    Finding finding{id, "replay", worst, detail};
    finding.at = {where / columns, where % columns};
    finding.value = static_cast<double>(got.values[where]);
    finding.expected = truth.values[where];
    finding.tolerance = bound.values[where];
    out_.findings.push_back(std::move(finding));
  }

  const Node& node_;
  const Values& values_;
  Replayed& out_;
};

}  // namespace

Replayed replay(const Graph& graph, const Values& values,
                const std::function<bool(const std::string&)>& wanted) {
  Replayed out;
  for (const Node& node : graph.nodes) {
    bool any = false;
    for (const std::string& id : node.outputs) any = any || wanted(id);
    if (any) Replay(node, values, out).run();
  }
  return out;
}

}  // namespace plumb::trace

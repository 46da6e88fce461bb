#include "trace/execute.hpp"

#include <algorithm>
#include <stdexcept>

#include "number/philox.hpp"
#include "trace/check_graph.hpp"

namespace plumb::trace {
namespace {

constexpr int of_candidate = 0;  // the draw that it stands for; twins are the next (twins.md M3)

// Names draw k of a node in a random key.
std::uint64_t draw_key(std::uint64_t seed, int k, const std::string& node) {
  return key_of(seed * 1009 + static_cast<std::uint64_t>(k), node);
}

[[noreturn]] void cannot_be_made(const Node& node, const std::string& why) {
  throw Failure("'" + node.outputs.front() + "' cannot be made as promised, " + why +
                "; the trace is damaged or of another program");
}

// `how`: in place of the node's own; `fits`: inputs of these shapes have been seen to fit the operation.
template <class T>
void run(const Node& node, ValuesOf<T>& values, Roundings<T>& roundings, const Evaluation& how,
         bool fits = false) {
  const Operation* operation = find_operation(node.op);
  if (operation == nullptr) {
    throw Failure("the promise uses the operation '" + node.op +
                  "', which this program does not know; trace again with this program");
  }
  Call<T> call{{}, node.attributes, how, roundings};
  for (const std::string& id : node.inputs) {
    const auto found = values.find(id);
    if (found == values.end()) {
      throw Failure("the trace lacks '" + id + "', which '" + node.outputs.front() +
                    "' is made from; record it, or trace again");
    }
    call.inputs.push_back(found->second.get());
  }
  if (!fits) {
    const std::string wrong = wrong_with(node, *operation, call.inputs);
    if (!wrong.empty()) cannot_be_made(node, wrong);
  }
  std::vector<Matrix<T>> outputs;
  try {
    if constexpr (std::is_same_v<T, float>) {
      outputs = operation->evaluate(call);
    } else {
      outputs = operation->value(call);
    }
  } catch (const std::invalid_argument& refused) {
    cannot_be_made(node, refused.what());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    values[node.outputs[i]] = std::make_shared<const Matrix<T>>(std::move(outputs[i]));
  }
}

template <class T>
void run(const Node& node, ValuesOf<T>& values, Roundings<T>& roundings) {
  run(node, values, roundings, node.how);
}

ValuesOf<double> widened(const Graph& graph, const Values& leaves) {
  ValuesOf<double> wide;
  for (const std::string& id : leaves_of(graph)) {
    const auto found = leaves.find(id);
    if (found == leaves.end()) continue;  // execute says which one is missing, and for what
    wide[id] = std::make_shared<const Matrix<double>>(converted<double>(*found->second));
  }
  return wide;
}

}  // namespace

template <class T>
ValuesOf<T> execute(const Graph& graph, const ValuesOf<T>& leaves, const MakeRoundings<T>& make,
                    Extent extent) {
  ValuesOf<T> values = leaves;
  for (const Node& node : graph.nodes) {
    if (node.phase > extent.last) continue;
    run(node, values, *make(node));
  }
  return values;
}
template ValuesOf<float> execute(const Graph&, const ValuesOf<float>&, const MakeRoundings<float>&,
                                 Extent);
template ValuesOf<double> execute(const Graph&, const ValuesOf<double>&,
                                  const MakeRoundings<double>&, Extent);

Values reference(const Graph& graph, const Values& leaves, Extent extent) {
  return execute<float>(
      graph, leaves, [](const Node&) { return std::make_unique<RealRoundings>(); }, extent);
}

ValuesOf<double> exact(const Graph& graph, const Values& leaves, Extent extent) {
  return execute<double>(
      graph, widened(graph, leaves), [](const Node&) { return std::make_unique<ExactRoundings>(); },
      extent);
}

void make(const Node& node, Values& values) {
  RealRoundings roundings;
  run<float>(node, values, roundings);
}

// Moves parts against each other if they are rounded to travel (twins.md M2). Parts that travel in
// FP32 lose nothing on the way, only where their terms were added up: another order of the same sum
// is as good as the candidate's (twins.md M3). (A transfer between the candidate's own parts would
// come on top: the twin would be the candidate and some noise, and lie too far off.) Orders of ranks
// and of a product's terms that nobody knows are drawn, too (twins.md M8, M9).
static void draw(const Node& node, Values& values, std::uint64_t seed, int k, bool fits) {
  const std::uint64_t key = draw_key(seed, k, without_micro_batch(node.outputs.front()));
  const bool moves = node.how.parts == 1 || node.how.wire != fp32;
  Evaluation how = node.how;
  if (how.any_order) how.order_key = key | 1;
  if (!moves) {
    how.tokens.key = key | 1;
    how.tokens.candidates_key =
        draw_key(seed, of_candidate, without_micro_batch(node.outputs.front()));
  }
  const TwinRoundings::Moves drawn{moves || node.how.by_chance, node.how.any_rank_order};
  if (node.how.by_chance) {
    ChanceRoundings roundings(key, draw_key(seed, k, node.outputs.front() + "/chance"), drawn);
    return run<float>(node, values, roundings, how, fits);
  }
  TwinRoundings roundings(key, drawn);
  run<float>(node, values, roundings, how, fits);
}

void draw(const Node& node, std::vector<Values>& twins, std::uint64_t seed) {
  for (std::size_t k = 0; k < twins.size(); ++k)
    draw(node, twins[k], seed, static_cast<int>(k + 1), k > 0);
}

Errors rounding_errors(const Graph& graph, const Values& leaves, Extent extent) {
  Errors errors;
  execute<float>(
      graph, leaves,
      [&](const Node& node) {
        return std::make_unique<RecordedRoundings>(errors[node.outputs.front()]);
      },
      extent);
  return errors;
}

ValuesOf<double> noise_draw(const Graph& graph, const Values& leaves, const Errors& errors,
                            std::uint64_t seed, int k, Extent extent) {
  return execute<double>(
      graph, widened(graph, leaves),
      [&](const Node& node) {
        return std::make_unique<SignedRoundings>(errors.at(node.outputs.front()),
                                                 draw_key(seed, k, node.outputs.front()));
      },
      extent);
}

Values with_replaced(const Graph& graph, const Values& base, const Values& others, Extent extent) {
  Values values = base;
  std::set<std::string> changed;
  for (const auto& [id, tensor] : others) {
    const auto before = base.find(id);
    if (before != base.end() && *before->second == *tensor) continue;
    values[id] = tensor;
    changed.insert(id);
  }
  RealRoundings roundings;
  for (const Node& node : graph.nodes) {
    const bool reads =
        std::ranges::any_of(node.inputs, [&](const auto& id) { return changed.contains(id); });
    if (!reads || node.phase > extent.last) continue;
    run<float>(node, values, roundings);
    for (const std::string& id : node.outputs) {
      const auto replaced = others.find(id);
      if (replaced != others.end()) values[id] = replaced->second;
      changed.insert(id);
    }
  }
  return values;
}

// Moves each element by a relative epsilon of the format, up or down.
static std::shared_ptr<const Tensor> moved(Tensor x, const Format& format, std::uint64_t key) {
  const auto epsilon = static_cast<float>(2 * format.unit_roundoff());
  for (std::size_t e = 0; e < x.size(); ++e) {
    x.values[e] *= uniform(key, e) < 0.5 ? 1 - epsilon : 1 + epsilon;
  }
  RealRoundings().round(x, format);
  return std::make_shared<const Tensor>(std::move(x));
}

Values perturbed(const Graph& graph, const Values& leaves, const std::string& where,
                 std::uint64_t seed, Extent extent) {
  Values values = leaves;
  RealRoundings roundings;
  for (const Node& node : graph.nodes) {
    if (node.phase > extent.last) continue;
    run<float>(node, values, roundings);
    for (const std::string& id : node.outputs) {
      if (id.ends_with(where))
        values[id] = moved(*values.at(id), node.how.output, key_of(seed, id));
      const auto taken = values.find(rewritten_id(id));
      if (taken == values.end()) continue;
      taken->second = moved(*taken->second, node.how.output, key_of(seed, taken->first));
    }
  }
  for (auto& [id, tensor] : values) {
    if (is_rewritten(id)) tensor = leaves.at(id);
  }
  return values;
}

}  // namespace plumb::trace

#include "trace/sum_parts.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

namespace plumb::trace {
namespace {

// The last input whose rows are the dealt size: a gradient stands behind what it belongs to.
std::optional<std::size_t> dealt_input(const Operation& operation, std::size_t inputs) {
  const Schema& schema = operation.schema;
  std::optional<std::size_t> found;
  std::size_t number = 0;
  for (const Operand& x : schema.inputs) {
    if (number < inputs && !schema.dealt.empty() && x.rows == schema.dealt) found = number;
    ++number;
  }
  return found;
}

// The residual stream and what joins it.
bool adds_two(const Operation& operation, const std::vector<const Matrix<double>*>& inputs) {
  return operation.traits.kind == Kind::residual && inputs.size() == 2 &&
         inputs[0]->rows == inputs[1]->rows && inputs[0]->cols == inputs[1]->cols;
}

}  // namespace

SumParts::SumParts(const Node& node, std::vector<const Matrix<double>*> inputs, std::size_t output)
    : node_(node), inputs_(std::move(inputs)), output_(output) {
  const Operation& operation = known_operation(node.op);
  if (operation.traits.adds_inputs || adds_two(operation, inputs_)) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) terms_.push_back({i, true, true, {}});
  }
  if (node.how.parts < 2 || operation.traits.kind == Kind::attention || count() > 0) return;
  if (operation.traits.one_product) {
    of_dimension(0, node.attributes.at("transpose_a") != 0);
  } else if (const auto input = dealt_input(operation, inputs_.size())) {
    of_dimension(*input, true);
  }
}

void SumParts::of_dimension(std::size_t input, bool rows) {
  const Matrix<double>& x = *inputs_[input];
  const SumPartition partition = parting(rows ? x.rows : x.cols, node_.how);
  for (std::size_t r = 0; r + 1 < partition.begins.size(); ++r) {
    const auto first = partition.order.begin() + static_cast<std::ptrdiff_t>(partition.begins[r]);
    const auto last =
        partition.order.begin() + static_cast<std::ptrdiff_t>(partition.begins[r + 1]);
    terms_.push_back({input, rows, false, {first, last}});
  }
}

std::string SumParts::name(std::size_t r) const {
  if (terms_[r].whole) return node_.inputs.at(terms_[r].input);
  return fmt::format("part {} of {} of its sum", r + 1, count());
}

Matrix<double> SumParts::without(std::size_t r) const {
  const Terms& terms = terms_.at(r);
  Matrix<double> x = *inputs_[terms.input];
  if (terms.whole) x = Matrix<double>(x.rows, x.cols);
  for (const std::size_t k : terms.numbers) {
    for (std::size_t n = 0; n < (terms.rows ? x.cols : x.rows); ++n) {
      (terms.rows ? x(k, n) : x(n, k)) = 0;
    }
  }
  ExactRoundings none;
  Call<double> call{inputs_, node_.attributes, node_.how, none};
  call.inputs[terms.input] = &x;
  return known_operation(node_.op).value(call).at(output_);
}

}  // namespace plumb::trace

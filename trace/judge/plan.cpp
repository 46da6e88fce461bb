#include "trace/judge/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trace/judge/pieces.hpp"

namespace plumb::trace {
namespace {

constexpr std::size_t block_elements = std::size_t(1) << 17;

bool empty(const GivenOperand& x) { return x.tensor->size() == 0; }

std::vector<OutputForm> forms_of(const JudgeOptions& asked, const std::vector<GivenOperand>& inputs,
                                 const Attributes& attributes) {
  std::vector<Shape> shapes;
  for (const GivenOperand& each : inputs) shapes.push_back(each.shape);
  const auto forms = check_call(*asked.operation, shapes, attributes, {});
  if (forms) return *forms;
  throw Failure(
      fmt::format("{}; give another, or change {}", forms.error().detail, asked.words.attributes));
}

}  // namespace

JudgePlan::JudgePlan(const JudgeOptions& asked)
    : attributes(attributes_of(*asked.operation, asked.attributes, asked.words)),
      inputs(inputs_in(*asked.operation, asked.inputs, asked.names, attributes, asked.words)),
      asked_(asked),
      operation_(*asked.operation) {
  for (const auto& [place, y] :
       outputs_in(operation_, inputs.size(), asked.outputs, asked.names, attributes, asked.words)) {
    outputs.push_back({place, y});
  }
  nothing = std::ranges::any_of(inputs, empty) &&
            std::ranges::all_of(outputs, empty, &PlannedOutput::operand);
  if (nothing) return;
  check_shapes();
  choose_formats();
  choose_rows();
}

void JudgePlan::check_shapes() {
  const std::vector<OutputForm> forms = forms_of(asked_, inputs, attributes);
  for (std::size_t o = 0; o < forms.size(); ++o) {
    const OutputForm& form = forms[o];
    const auto found = std::ranges::find(outputs, o, &PlannedOutput::place);
    if (found == outputs.end()) {
      not_given.emplace_back(form.name);
      continue;
    }
    const Shape& shape = found->operand.shape;
    refuse_shape(found->operand, form.rows.value_or(shape.rows), form.cols.value_or(shape.cols));
  }
}

void JudgePlan::refuse_shape(const GivenOperand& y, std::size_t n, std::size_t cols) const {
  if (y.shape == Shape{n, cols}) return;
  throw Failure(fmt::format("the output {} is {}, and {} of these inputs makes {} x {}; give that",
                            y.text(), text_of(y.tensor->shape()), operation_.id, n, cols));
}

Format JudgePlan::format_of(const GivenOperand& y) const {
  const Format& stored = y.tensor->format();
  if (operation_.traits.scales_output) {
    if (stored == fp32 && asked_.output != nullptr) return *asked_.output;
    throw Failure(
        fmt::format("the outputs of {} are what scaled short numbers stand for: give them in FP32, "
                    "divided by their scales, and say which format they were short in: {}",
                    operation_.id, asked_.words.format));
  }
  if (asked_.output == nullptr) return stored;
  if (stored == fp32 || stored == *asked_.output) return *asked_.output;
  throw Failure(fmt::format("the output {} is of {}, not of {}; leave {} out", y.text(),
                            stored.name, asked_.output->name, asked_.words.formats));
}

void JudgePlan::choose_formats() {
  for (PlannedOutput& y : outputs) {
    const Format format = format_of(y.operand);
    const auto known = std::ranges::find(formats, format);
    y.format = static_cast<std::size_t>(known - formats.begin());
    if (known == formats.end()) formats.push_back(format);
  }
  const Format& first = inputs[0].tensor->format();
  input = asked_.input != nullptr && first == fp32 ? *asked_.input : first;
  if (!operation_.traits.one_product) return;
  const Format& other = inputs[1].tensor->format();
  const bool unit = !asked_.machine->rounds_to_nearest() && !asked_.machine->product_order(1);
  if (!unit || other == first) return;
  throw Failure(
      fmt::format("{} is of {} and {} of {}, and a matrix unit multiplies numbers of one "
                  "format; give both in one",
                  inputs[0].text(), first.name, inputs[1].text(), other.name));
}

void JudgePlan::choose_rows() {
  const auto how = row_wise(operation_, inputs.size(), attributes);
  if (asked_.rows > 0 && !how) {
    throw Failure(
        fmt::format("the rows of {} depend on each other here, so that none can be judged "
                    "by themselves; leave {} out",
                    operation_.id, asked_.words.rows));
  }
  of_rows = outputs[0].operand.shape.rows;
  by_rows = how.has_value();
  cuts = how ? *how : std::vector<Cut>(inputs.size(), Cut::none);
  drawn = asked_.rows > 0 && asked_.rows < of_rows;
  rows.resize(of_rows);
  std::iota(rows.begin(), rows.end(), std::size_t(0));
  if (drawn) rows = drawn_rows(asked_.rows, of_rows, asked_.seed);
  std::size_t widest = 1;
  for (const PlannedOutput& y : outputs) widest = std::max(widest, y.operand.shape.cols);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (cuts[i] == Cut::rows) widest = std::max(widest, inputs[i].shape.cols);
    if (cuts[i] == Cut::columns) widest = std::max(widest, inputs[i].shape.rows);
  }
  block_rows = by_rows ? std::max<std::size_t>(1, block_elements / widest) : rows.size();
}

std::optional<Shape> shape_of_output(const JudgeOptions& asked, std::size_t output) {
  const Attributes attributes = attributes_of(*asked.operation, asked.attributes, asked.words);
  const auto inputs =
      inputs_in(*asked.operation, asked.inputs, asked.names, attributes, asked.words);
  const std::vector<OutputForm> forms = forms_of(asked, inputs, attributes);
  if (output >= forms.size()) return {};
  const OutputForm& form = forms[output];
  if (form.rows && form.cols) return Shape{*form.rows, *form.cols};
  throw Failure(
      fmt::format("the shape of {} depends on what {} finds in its inputs; give an output "
                  "of the shape that your kernel makes",
                  form.name, asked.operation->id));
}

}  // namespace plumb::trace

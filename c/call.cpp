#include "c/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/judge/named.hpp"

namespace plumb::c {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// `counted` things at an address.
template <class T>
std::span<const T> all_of(const T* first, std::size_t counted, const char* field) {
  if (first != nullptr || counted == 0) return {first, counted};
  throw Failure(
      fmt::format("the call has {} {} at the address NULL; say where they are", counted, field));
}

Stored stored_as(const plumb_tensor& tensor, const std::string& where) {
  const std::string format = text_or(tensor.format, "");
  if (const auto stored = find_stored(format)) return *stored;
  if (format.empty()) {
    throw Failure(fmt::format("{} has no format; name one of {}", where, listed(all_stored())));
  }
  if (format == tf32.name) {
    throw Failure(where +
                  " is of tf32, which lies in fp32: say so, and tf32 in the call's format "
                  "or input_format");
  }
  throw Failure(where + ": " + unknown("format", format, all_stored()));
}

std::shared_ptr<TensorInMemory> in_memory(const plumb_tensor& tensor, const std::string& where) {
  const Stored stored = stored_as(tensor, where);
  const std::size_t n = tensor.dimensions;
  if (n > PLUMB_DIMENSIONS) {
    throw Failure(
        fmt::format("{} says that it has {} dimensions; a tensor has at most {}, and "
                    "all but the last are rows: fold some",
                    where, n, PLUMB_DIMENSIONS));
  }
  std::vector<std::ptrdiff_t> strides(tensor.strides, tensor.strides + n);
  if (std::ranges::all_of(strides, [](std::ptrdiff_t s) { return s == 0; })) strides.clear();
  return std::make_shared<TensorInMemory>(tensor.data, stored,
                                          std::vector<std::size_t>(tensor.shape, tensor.shape + n),
                                          strides, where);
}

// What would change nothing is a mistake of whoever asked for it.
void refuse_without_effect(const plumb_call& call, const JudgeOptions& options) {
  if (call.delta != 0 && options.mode == Mode::deterministic) {
    throw Failure(
        "the call's delta is of the modes probabilistic and moments, and its mode is "
        "deterministic; change the mode or leave delta out");
  }
  if (call.rows == 0 && call.seed != 0) {
    throw Failure("the call's seed draws its rows; say how many, or leave seed out");
  }
  if (call.input_format != nullptr && !options.operation->traits.one_product) {
    throw Failure(fmt::format(
        "the call's input_format is of a product's inputs, and {} is none; leave it out",
        options.operation->id));
  }
}

}  // namespace

std::string text_or(const char* text, const char* otherwise) {
  return text == nullptr ? otherwise : text;
}

Asked::Asked(const plumb_call* given, bool bounds_only) {
  if (given == nullptr) throw Failure("the call is NULL; describe one");
  const plumb_call& call = *given;
  if (call.operation == nullptr) throw Failure("the call has no operation; name one, as \"gemm\"");
  options_.operation = &known_operation(call.operation);
  machine_ = machine_named(text_or(call.machine, "libraries"));
  options_.machine = &machine_;
  options_.mode = mode_named(text_or(call.mode, "deterministic"));
  options_.words = words_of_a_call;
  options_.bounds_only = bounds_only;
  if (call.format != nullptr) options_.output = &format_named(call.format);
  if (call.input_format != nullptr) options_.input = &format_named(call.input_format);
  if (call.delta != 0) options_.delta = call.delta;
  if (!(options_.delta > 0 && options_.delta < 1)) {
    throw Failure(
        fmt::format("the call's delta is {}; a probability is between 0 and 1, and 0 "
                    "stands for 1e-9",
                    call.delta));
  }
  options_.rows = call.rows;
  options_.seed = call.seed;
  refuse_without_effect(call, options_);
  take_attributes(call);
  take_inputs(call);
  take_outputs(call);
}

void Asked::take_attributes(const plumb_call& call) {
  for (const auto& [name, value] : all_of(call.attributes, call.attribute_count, "attributes")) {
    if (name == nullptr) throw Failure("an attribute of the call has no name; give it one");
    if (options_.attributes.emplace(name, value).second) continue;
    throw Failure(fmt::format("the attribute {} stands in the call twice; leave one out", name));
  }
}

void Asked::take_inputs(const plumb_call& call) {
  for (const plumb_tensor& x : all_of(call.inputs, call.input_count, "inputs")) {
    const std::string where = fmt::format("inputs[{}]", options_.inputs.size());
    options_.inputs.push_back({text_or(x.name, ""), {}, in_memory(x, where)});
  }
}

void Asked::take_outputs(const plumb_call& call) {
  for (const plumb_tensor& y : all_of(call.outputs, call.output_count, "outputs")) {
    const auto tensor = in_memory(y, fmt::format("outputs[{}]", outputs_.size()));
    places_[tensor.get()] = outputs_.size();
    options_.outputs.push_back({text_or(y.name, ""), {}, tensor});
    outputs_.push_back(y);
    for (double* array : {y.value, y.bound, y.bias}) {
      if (array != nullptr) std::fill_n(array, tensor->size(), nan);
    }
  }
  options_.keep = [this](const BoundedBlock& block) { write(block); };
}

void Asked::write(const BoundedBlock& block) const {
  const plumb_tensor& into = outputs_[place_of(block.output.tensor.get())];
  const std::size_t columns = block.output.shape.cols;
  const auto copy = [&](const Matrix<double>* from, double* to) {
    if (from == nullptr || to == nullptr) return;
    for (std::size_t i = 0; i < block.rows.size(); ++i) {
      std::copy_n(from->row(i), columns, to + block.rows[i] * columns);
    }
  };
  copy(&block.value, into.value);
  copy(&block.bound, into.bound);
  copy(block.bias, into.bias);
}

}  // namespace plumb::c

// A call to be judged: operation and attributes, its inputs and its outputs, with the names of the
// schema.
#include "trace/judge/judge.hpp"

#include "bounds/operation.hpp"
#include "number/outcome.hpp"
#include "tests/fuzz/reader.hpp"
#include "trace/judge/named.hpp"
#include "trace/store/json.hpp"

namespace plumb::fuzz::judge_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 3);
  const auto call = trace::parsed(std::string(parts[0]), "call");
  const auto op = call.value("op", nlohmann::json());
  const auto* operation = bounds::find_operation(op.is_string() ? op.get<std::string>() : "");
  if (operation == nullptr) throw Failure("there is no such operation");
  static const bounds::Machine machine = trace::machine_named("ieee");
  trace::JudgeOptions options{operation, &machine};
  for (const auto& [name, value] : call.items()) {
    if (value.is_number()) options.attributes[name] = value.get<double>();
  }
  options.inputs = {{"", put("judge-in.safetensors", framed(parts[1]))}};
  options.outputs = {{"", put("judge-out.safetensors", framed(parts[2]))}};
  (void)trace::judge_tensors(options);
}

const Reader judge("judge", read);

}  // namespace
}  // namespace plumb::fuzz::judge_reader

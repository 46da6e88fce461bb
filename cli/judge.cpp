#include <fmt/format.h>
#include <charconv>

#include "bounds/examples/shaped.hpp"
#include "cli/json.hpp"
#include "cli/judge_report.hpp"
#include "cli/machine_options.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/judge/named.hpp"

namespace plumb::cli {
namespace {

struct JudgeCommand {
  MachineOptions on;
  std::string op, recipe, input_format, format, bounds;
  std::vector<std::string> inputs, outputs, set, names;
  double delta = 1e-9;
  std::uint64_t rows = 0, seed = 1;
  bool as_json = false;
};

// NAME=VALUE
std::pair<std::string, std::string> halves(const std::string& text, const std::string& option,
                                           const std::string& form) {
  const std::size_t sign = text.find('=');
  if (sign != text.npos && sign > 0 && sign + 1 < text.size()) {
    return {text.substr(0, sign), text.substr(sign + 1)};
  }
  throw Failure(option + " takes " + form + ", found '" + text + "'");
}

double number_in(const std::string& name, const std::string& text) {
  double x = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), x);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return x;
  throw Failure("--set " + name + " takes a number, found '" + text + "'");
}

// FILE or NAME=FILE: a sign behind a folder belongs to the file.
std::vector<Source> sources(const std::vector<std::string>& words) {
  std::vector<Source> all;
  for (const std::string& word : words) {
    const std::size_t sign = word.find('=');
    const bool named = sign != word.npos && sign > 0 && sign < word.find('/');
    all.push_back(named ? Source{word.substr(0, sign), word.substr(sign + 1)} : Source{"", word});
  }
  return all;
}

TensorNames names_from(const JudgeCommand& asked, const Operation& operation) {
  TensorNames names;
  for (const std::string& word : asked.names) {
    const auto pair = halves(word, "--name", "INPUT=TENSOR or OUTPUT=TENSOR");
    const std::string& name = pair.first;
    std::vector<std::string> known;
    for (const Operand& x : operation.schema.inputs) known.emplace_back(x.name);
    for (const Operand& y : operation.schema.outputs) known.emplace_back(y.name);
    const std::string stem = name.substr(0, name.rfind('_'));
    const auto is = [&](const std::string& each) { return each == name || each == stem; };
    if (std::ranges::none_of(known, is)) throw Failure(unknown("input or output", name, known));
    names[name] = pair.second;
  }
  return names;
}

// The format that a recipe computes in. A product of short copies is judged by the copies.
Format format_of(const Recipe& recipe, const Operation& operation) {
  if (!recipe.operands || operation.traits.kind != Kind::product) return recipe.compute;
  throw Failure(
      fmt::format("recipe '{}' multiplies short copies of its operands; give judge the "
                  "copies, and leave --recipe out",
                  recipe.id));
}

JudgeOptions options_of(const JudgeCommand& asked) {
  const Operation& operation = known_operation(asked.op);
  JudgeOptions options{&operation, &machine_from(asked.on.machine)};
  options.inputs = sources(asked.inputs);
  options.outputs = sources(asked.outputs);
  options.names = names_from(asked, operation);
  for (const std::string& word : asked.set) {
    const auto [name, value] = halves(word, "--set", "ATTRIBUTE=NUMBER");
    if (!options.attributes.emplace(name, number_in(name, value)).second)
      throw Failure("--set says " + name + " twice; leave one out");
  }
  if (!asked.recipe.empty()) {
    static const Format of_recipe = format_of(recipe_from(asked.recipe), operation);
    options.input = options.output = &of_recipe;
  }
  if (!asked.input_format.empty()) {
    if (!operation.traits.one_product) {
      throw Failure("--input-format is of a product's inputs, and " + asked.op +
                    " is none; leave it out");
    }
    options.input = &format_named(asked.input_format);
  }
  if (!asked.format.empty()) options.output = &format_named(asked.format);
  options.mode = mode_from(asked.on.mode);
  options.delta = asked.delta;
  options.rows = asked.rows;
  options.seed = asked.seed;
  options.bounds = asked.bounds;
  return options;
}

void refuse_contradictions(const JudgeCommand& asked, const CLI::App& verb) {
  if (asked.on.mode == "deterministic" && verb.count("--delta") > 0) {
    throw Failure(
        "--delta is of --mode probabilistic and moments, this is deterministic; change "
        "the mode or leave --delta out");
  }
  if (!asked.bounds.empty() && !asked.bounds.ends_with(".safetensors")) {
    throw Failure("--bounds writes safetensors; give a file that ends so, found '" + asked.bounds +
                  "'");
  }
  if (asked.rows == 0 && verb.count("--seed") > 0) {
    throw Failure("--seed draws the rows of --rows; say how many, or leave --seed out");
  }
}

int judge_as(const JudgeCommand& asked) {
  const JudgeOptions options = options_of(asked);
  const JudgedTensors judged = judge_tensors(options);
  if (asked.as_json) {
    print_document("plumb-judge/1", json_of(judged, options));
  } else {
    cli::tell(judged, options);
  }
  return judged.exit_code();
}

}  // namespace

void add_judge(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand(
      "judge", "your own tensors: what your kernel made of its inputs, held against the bounds");
  static JudgeCommand asked;
  verb->add_option("OP", asked.op, "e.g. gemm, softmax, layernorm; all of them below")->required();
  verb->add_option("--inputs", asked.inputs,
                   "files .safetensors, or one .npy an input (in order, or NAME=FILE)")
      ->required();
  verb->add_option("--output", asked.outputs, "files of what the kernel made of them")->required();
  asked.on.add_to(*verb, "deterministic, probabilistic or moments");
  verb->add_option("--recipe", asked.recipe,
                   "of this recipe's format are inputs and output, though files hold them as F32");
  verb->add_option("--input-format", asked.input_format,
                   "of this format are a product's inputs, though files hold them as F32: tf32");
  verb->add_option("--format", asked.format,
                   "of this format is the output, though its file holds it as F32");
  verb->add_option("--delta", asked.delta, "failure probability of probabilistic and moments")
      ->capture_default_str()
      ->check(numbers(1e-300, 1));
  verb->add_option("--set", asked.set,
                   "ATTRIBUTE=NUMBER of the operation, e.g. eps=1e-5; flags are "
                   "0 if left out");
  verb->add_option("--name", asked.names,
                   "INPUT=TENSOR, where a file calls it otherwise; the same of outputs");
  verb->add_option("--rows", asked.rows, "judge so many rows of the output, drawn by chance")
      ->check(whole_numbers(1, std::uint64_t(1) << 40));
  verb->add_option("--seed", asked.seed, "which rows are drawn")->capture_default_str();
  verb->add_option("--bounds", asked.bounds, "write value and bound of each element here")
      ->check(new_traces());
  add_json(*verb, asked.as_json);
  verb->footer(fmt::format(
      "{}\nOperations: {}.\nTheir inputs, outputs and attributes stand at the top of "
      "their files in bounds/operations; all dimensions of a tensor but the last are rows.",
      verdict_codes, fmt::join(shaped_operations(), ", ")));
  verb->callback([&chosen, verb] {
    chosen = [verb] {
      refuse_contradictions(asked, *verb);
      return judge_as(asked);
    };
  });
}

}  // namespace plumb::cli

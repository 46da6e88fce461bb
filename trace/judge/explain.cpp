#include "trace/judge/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "number/words.hpp"

namespace plumb::trace {
namespace {

std::string largest_term(const JudgedOutput& output) {
  const Term* term = largest_of(output.terms);
  if (term == nullptr) return "";
  return fmt::format("  of that {:.4g} by {}: {}\n", term->largest, term->name, term->formula);
}

std::string_view bound_in(Mode mode) {
  return mode == Mode::moments ? "standard deviation" : "bound";
}

}  // namespace

const Term* largest_of(const std::vector<Term>& terms) {
  const auto found = std::ranges::max_element(terms, {}, &Term::largest);
  return found == terms.end() ? nullptr : &*found;
}

std::string head_of(const JudgedTensors& judged, const JudgeOptions& asked) {
  std::string text =
      fmt::format("{} on {}, {}", asked.operation->id, asked.machine->id, name_of(asked.mode));
  if (asked.mode != Mode::deterministic) text += fmt::format(", delta {:.1e}", asked.delta);
  if (judged.sums != name_of(SumOrder::none)) text += fmt::format(", assumes {}", judged.sums);
  for (const auto& [name, value] : judged.attributes) text += fmt::format(", {} = {}", name, value);
  text += "\n";
  if (judged.rows < judged.of_rows) {
    text += fmt::format("sampled: {} of {} rows, drawn by seed {}\n", judged.rows, judged.of_rows,
                        asked.seed);
  }
  for (const std::string& name : judged.not_given) {
    text += fmt::format("not judged: the output {}, which {}\n", name, asked.words.left_out);
  }
  return text;
}

std::string verdict_of(const JudgedTensors& judged) {
  std::size_t elements = 0, outside = 0;
  for (const JudgedOutput& output : judged.outputs) {
    elements += output.judgement.elements();
    outside += output.judgement.outside();
  }
  if (elements == 0) return "verdict: INCONCLUSIVE, nothing that was judged could have failed\n";
  const std::string all = how_many(elements, "element");
  if (outside == 0) return fmt::format("verdict: PASS: {}, none outside of its bound\n", all);
  return fmt::format("verdict: FAIL: {} of {} outside of their bounds\n", outside, all);
}

std::string line_of(const JudgedOutput& output) {
  return fmt::format("{}, {} {}: {} judged, {} outside\n", output.operand.name,
                     text_of(output.operand.tensor->shape()), output.format.name,
                     output.judgement.elements(), output.judgement.outside());
}

std::string worst_of(const JudgedOutput& output, Mode mode) {
  const Compared& w = output.judgement.worst();
  std::string text =
      fmt::format("  worst: {}{} is {:.9g}, exactly {:.9g}; off by {:.4g}, {} {:.4g}",
                  output.operand.name, output.operand.place(w.element), w.found, w.value,
                  std::fabs(w.found - w.value), bound_in(mode), w.bound);
  if (mode == Mode::moments) {
    text += fmt::format(", bias {:.4g}; the limit is {:.3g} deviations", w.bias,
                        output.judgement.lambda());
  }
  text += fmt::format(", ratio {:.4g}\n", w.ratio) + largest_term(output);
  if (const std::size_t n = output.judgement.not_finite(); n > 0) {
    text += fmt::format("  {} no finite number\n",
                        n == 1 ? "1 element is" : fmt::format("{} elements are", n));
  }
  return text;
}

std::string explanation_of(const JudgedTensors& judged, const JudgeOptions& asked) {
  std::string text = head_of(judged, asked) + verdict_of(judged);
  for (const JudgedOutput& output : judged.outputs) {
    text += line_of(output);
    if (output.judgement.elements() > 0) text += worst_of(output, asked.mode);
  }
  return text;
}

std::string bounds_explained(const JudgedTensors& judged, const JudgeOptions& asked) {
  std::string text = head_of(judged, asked);
  for (const JudgedOutput& output : judged.outputs) {
    text += fmt::format("{}, {} {}", output.operand.name, text_of(output.operand.tensor->shape()),
                        output.format.name);
    if (output.largest.bound < 0) {
      text += ": no element\n";
      continue;
    }
    const Compared& most = output.largest;
    text += fmt::format(": the largest {} is {:.4g}, at {}{}, which is {:.9g}\n",
                        bound_in(asked.mode), most.bound, output.operand.name,
                        output.operand.place(most.element), most.value);
    text += largest_term(output);
  }
  return text;
}

}  // namespace plumb::trace

#include "c/result.hpp"

#include <cmath>
#include <deque>
#include <memory>
#include <vector>

#include "trace/judge/explain.hpp"

namespace plumb::c {
namespace {

// All that a result points to.
struct Owned {
  std::deque<std::string> texts;  // which stay where they are
  std::deque<std::vector<plumb_term>> terms;
  std::vector<plumb_output> outputs;

  const char* text(std::string_view of) { return texts.emplace_back(of).c_str(); }
};

plumb_output output_of(const JudgedOutput& from, bool bounds_only, Owned& owned) {
  const Compared& worst = bounds_only ? from.largest : from.judgement.worst();
  std::vector<plumb_term>& terms = owned.terms.emplace_back();
  for (const Term& t : from.terms) {
    terms.push_back({owned.text(t.name), owned.text(t.formula), t.largest});
  }
  plumb_output to{};
  to.name = owned.text(from.operand.name);
  to.format = owned.text(from.format.name);
  to.elements = from.judgement.elements();
  to.outside = from.judgement.outside();
  to.not_finite = from.judgement.not_finite();
  to.worst_element = worst.element;
  to.worst_ratio = worst.ratio;
  to.found = worst.found;
  to.value = worst.value;
  to.bound = worst.bound;
  to.bias = worst.bias;
  to.terms = terms.data();
  to.term_count = terms.size();
  return to;
}

// Is one worse than the other? What is no number is the worst.
bool worse(const plumb_output& one, const plumb_output& other, bool bounds_only) {
  if (bounds_only) return one.bound > other.bound;
  if (std::isnan(other.found)) return false;
  return std::isnan(one.found) || one.worst_ratio > other.worst_ratio;
}

void take_worst(const plumb_output& worst, plumb_result& result) {
  result.worst_element = worst.worst_element;
  result.worst_ratio = worst.worst_ratio;
  result.found = worst.found;
  result.value = worst.value;
  result.bound = worst.bound;
  result.bias = worst.bias;
  for (std::size_t t = 0; t < worst.term_count; ++t) {
    if (result.term != nullptr && worst.terms[t].size <= result.term_size) continue;
    result.term = worst.terms[t].name;
    result.term_size = worst.terms[t].size;
  }
}

}  // namespace

void tell(const JudgedTensors& judged, const Asked& asked, int code, plumb_result& result) {
  const bool bounds_only = asked.options().bounds_only;
  auto owned = std::make_unique<Owned>();
  result.code = code;
  result.rows = judged.rows;
  result.of_rows = judged.of_rows;
  result.assumes = owned->text(judged.sums);
  result.explanation = owned->text(bounds_only ? bounds_explained(judged, asked.options())
                                               : explanation_of(judged, asked.options()));
  owned->outputs.resize(judged.outputs.size());
  for (const JudgedOutput& output : judged.outputs) {
    owned->outputs[asked.place_of(output.operand.tensor.get())] =
        output_of(output, bounds_only, *owned);
  }
  for (std::size_t o = 0; o < owned->outputs.size(); ++o) {
    const plumb_output& output = owned->outputs[o];
    result.elements += output.elements;
    result.outside += output.outside;
    result.not_finite += output.not_finite;
    if (worse(output, owned->outputs[result.worst_output], bounds_only)) result.worst_output = o;
  }
  if (!owned->outputs.empty()) take_worst(owned->outputs[result.worst_output], result);
  result.outputs = owned->outputs.data();
  result.output_count = owned->outputs.size();
  result.owner = owned.release();
}

void tell(const std::string& trouble, plumb_result& result) {
  auto owned = std::make_unique<Owned>();
  result.code = PLUMB_TROUBLE;
  result.explanation = owned->text(trouble);
  result.owner = owned.release();
}

void free_of(plumb_result& result) {
  delete static_cast<Owned*>(result.owner);
  result = {};
}

}  // namespace plumb::c

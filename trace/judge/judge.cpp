#include "trace/judge/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <future>
#include <memory>
#include <thread>

#include "bounds/on_machine.hpp"
#include "number/rounding.hpp"
#include "trace/judge/pieces.hpp"
#include "trace/store/bounds_file.hpp"

namespace plumb::trace {
namespace {

// The values of a block, and its tolerances, one for each format of outputs.
struct Bounded {
  std::vector<Matrix<double>> values;
  std::vector<Tolerance> by_format;
};

using Rows = std::span<const std::size_t>;

// A bound for numbers of a format says nothing of others.
void refuse_other_numbers(const GivenOperand& of, Cut cut, Rows which,
                          const Matrix<double>& numbers, const Format& format, const Words& words) {
  if (of.tensor->format() == format) return;
  for (std::size_t e = 0; e < numbers.size(); ++e) {
    const double x = numbers.values[e];
    if (!std::isfinite(x) || round_to(x, format) == x) continue;
    throw Failure(
        fmt::format("{} of {} is {:.9g}, which is no number of {}; name its format with "
                    "{}, or leave {} out",
                    of.place(element_of(of, cut, which, e)), of.text(), x, format.name,
                    words.format, words.formats));
  }
}

class Judge {
 public:
  explicit Judge(const JudgeOptions& asked)
      : asked_(asked), operation_(*asked.operation), plan_(asked) {
    judged_.attributes = plan_.attributes;
    judged_.not_given = plan_.not_given;
    judged_.rows = plan_.rows.size();
    judged_.of_rows = plan_.of_rows;
    judged_.sums = assumptions(*asked_.machine, operation_, asked_.mode);
    std::size_t elements = 0;
    for (const PlannedOutput& y : plan_.outputs) elements += plan_.elements_of(y.operand);
    const double lambda =
        asked_.mode == Mode::moments && elements > 0 ? lambda_of(elements, asked_.delta) : 1;
    for (const auto& [place, y, f] : plan_.outputs) {
      const Format& format = plan_.nothing ? y.tensor->format() : plan_.formats[f];
      judged_.outputs.push_back({y, format, Judgement(plan_.elements_of(y), format, lambda)});
    }
  }

  JudgedTensors judged() {
    if (plan_.nothing) return std::move(judged_);
    open_file();
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      whole_.push_back(plan_.cuts[i] == Cut::none ? read_input(i, {}) : Matrix<double>());
    }
    go_through_blocks();
    explain_worst();
    if (file_) file_->finish();
    return std::move(judged_);
  }

 private:
  void open_file() {
    if (asked_.bounds.empty()) return;
    std::vector<BoundsFile::Output> outputs;
    for (const auto& [place, y, format] : plan_.outputs) {
      const std::vector<std::size_t> drawn{plan_.rows.size(), y.shape.cols};
      outputs.push_back({y.name, plan_.drawn ? drawn : y.tensor->shape()});
    }
    file_ = std::make_unique<BoundsFile>(asked_.bounds, outputs, asked_.mode == Mode::moments,
                                         plan_.drawn ? Rows(plan_.rows) : Rows());
  }

  Matrix<double> read_input(std::size_t i, Rows which) const {
    const GivenOperand& input = plan_.inputs[i];
    Matrix<double> numbers = piece_of(input, plan_.cuts[i], which);
    refuse_not_finite(input, plan_.cuts[i], which, numbers);
    if (asked_.input != nullptr && operation_.traits.one_product && i < 2) {
      refuse_other_numbers(input, plan_.cuts[i], which, numbers, plan_.input, asked_.words);
    }
    return numbers;
  }

  std::vector<Matrix<double>> read_inputs(Rows which) const {
    std::vector<Matrix<double>> read;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      read.push_back(plan_.cuts[i] == Cut::none ? Matrix<double>() : read_input(i, which));
    }
    return read;
  }

  Bounded bounded(const std::vector<Matrix<double>>& read, Rows which,
                  std::optional<Place> explained = {}) const {
    std::vector<const Matrix<double>*> inputs;
    for (std::size_t i = 0; i < read.size(); ++i) {
      inputs.push_back(plan_.cuts[i] == Cut::none ? &whole_[i] : &read[i]);
    }
    if (which.front() == plan_.rows.front()) refuse_outputs_left_in_fp32(inputs);
    ExactRoundings exact;
    Bounded all;
    all.values = operation_.value({inputs, plan_.attributes, {1, fp32, plan_.formats[0]}, exact});
    const double delta =
        asked_.delta * static_cast<double>(which.size()) / static_cast<double>(plan_.rows.size());
    for (const Format& format : plan_.formats) {
      const ToleranceCall call{inputs, plan_.attributes, {1, fp32, format}, asked_.mode,
                               delta,  all.values,       explained};
      const auto tolerance = tolerance_on(*asked_.machine, operation_, call, plan_.input);
      if (!tolerance) refuse_bound(tolerance.error().detail, which);
      all.by_format.push_back(*tolerance);
    }
    return all;
  }

  // An operation that keeps an output in FP32 has no bound for what a kernel stores in fewer bits.
  void refuse_outputs_left_in_fp32(const std::vector<const Matrix<double>*>& wide) const {
    if (operation_.traits.one_product || operation_.traits.scales_output) return;
    std::vector<Matrix<float>> inputs;
    std::vector<const Matrix<float>*> pointers;
    for (const Matrix<double>* x : wide) inputs.push_back(converted<float>(*x));
    for (const Matrix<float>& x : inputs) pointers.push_back(&x);
    for (const auto& [o, y, f] : plan_.outputs) {
      const Format& format = plan_.formats[f];
      if (format == fp32) continue;
      RealRoundings real;
      const auto outputs =
          operation_.evaluate({pointers, plan_.attributes, {1, fp32, format}, real});
      const bool rounded = std::ranges::all_of(outputs.at(o).values, [&](float x) {
        return !std::isfinite(x) || round_to(x, format) == x;
      });
      if (rounded) continue;
      throw Failure(
          fmt::format("{} leaves {} in FP32, and {} is of {}: its bound is for the FP32 "
                      "numbers; judge these, before they are cast",
                      operation_.id, y.name, y.text(), format.name));
    }
  }

  [[noreturn]] void refuse_bound(const std::string& why, Rows which) const {
    const bool all = which.size() == plan_.of_rows;
    const std::string where =
        all ? "" : fmt::format(" (rows {} to {})", which.front(), which.back());
    throw Failure(fmt::format("{} has no bound here{}: {}; change {}, {} or the inputs",
                              operation_.id, where, why, asked_.words.machine, asked_.words.mode));
  }

  // Reads in order, bounds side by side, compares in order.
  void go_through_blocks() {
    struct Work {
      Rows which;
      std::future<Bounded> bounded;
    };
    const std::size_t hands = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 8);
    std::deque<Work> under_way;
    for (std::size_t first = 0; first < plan_.rows.size() || !under_way.empty();
         first += plan_.block_rows) {
      if (first < plan_.rows.size()) {
        const Rows which = plan_.block(first);
        under_way.push_back(
            {which, std::async(std::launch::async, [this, which, read = read_inputs(which)] {
               return bounded(read, which);
             })});
        if (under_way.size() < hands) continue;
      }
      compare(under_way.front().bounded.get(), under_way.front().which);
      under_way.pop_front();
    }
  }

  void compare(const Bounded& block, Rows which) {
    const Cut cut = plan_.cut_of_outputs();
    for (std::size_t k = 0; k < plan_.outputs.size(); ++k) {
      const auto& [o, y, format] = plan_.outputs[k];
      const Matrix<double>& value = block.values.at(o);
      if (!plan_.by_rows) plan_.refuse_shape(y, value.rows, value.cols);
      const Tolerance& t = block.by_format[format];
      const BoundedBlock bounded{y, which, value, t.bound[o],
                                 t.bias.empty() ? nullptr : &t.bias[o]};
      if (asked_.bounds_only) {
        look_for_the_largest(judged_.outputs[k].largest, bounded);
      } else {
        const Matrix<double> found = piece_of(y, cut, which);
        if (!operation_.traits.scales_output) {
          refuse_other_numbers(y, cut, which, found, plan_.formats[format], asked_.words);
        }
        judge(judged_.outputs[k].judgement, found, bounded);
      }
      keep(bounded);
    }
  }

  void judge(Judgement& judgement, const Matrix<double>& found, const BoundedBlock& block) const {
    for (std::size_t e = 0; e < found.size(); ++e) {
      judgement.add(element_of(block.output, plan_.cut_of_outputs(), block.rows, e),
                    found.values[e], block.value.values[e], block.bound.values[e],
                    block.bias == nullptr ? 0 : block.bias->values[e]);
    }
  }

  void look_for_the_largest(Compared& largest, const BoundedBlock& block) const {
    for (std::size_t e = 0; e < block.bound.size(); ++e) {
      if (block.bound.values[e] <= largest.bound) continue;
      const double value = block.value.values[e];
      largest = {element_of(block.output, plan_.cut_of_outputs(), block.rows, e),
                 value,
                 value,
                 block.bound.values[e],
                 block.bias == nullptr ? 0 : block.bias->values[e],
                 0};
    }
  }

  void keep(const BoundedBlock& block) {
    if (asked_.keep) asked_.keep(block);
    if (!file_) return;
    const std::string& name = block.output.name;
    file_->add(name + ".value", block.value.values);
    file_->add(name + ".bound", block.bound.values);
    if (block.bias != nullptr) file_->add(name + ".bias", block.bias->values);
  }

  // Once more the row of the worst element (of bounds alone: of the largest), which now says what
  // its bound is made of. By chance and in moments its whole block: whether data repeat is seen
  // there.
  void explain_worst() {
    const std::size_t at_once = asked_.mode == Mode::deterministic ? 1 : plan_.block_rows;
    for (std::size_t k = 0; k < plan_.outputs.size(); ++k) {
      const auto& [o, y, format] = plan_.outputs[k];
      const std::size_t element = asked_.bounds_only ? judged_.outputs[k].largest.element
                                                     : judged_.outputs[k].judgement.worst().element;
      Rows which = plan_.block(0);
      std::size_t in_block = element;
      if (plan_.by_rows) {
        const auto row = std::ranges::lower_bound(plan_.rows, element / y.shape.cols);
        const auto at = static_cast<std::size_t>(row - plan_.rows.begin());
        const std::size_t first = at / at_once * at_once;
        which = plan_.block(first);
        which = which.first(std::min(at_once, which.size()));
        in_block = (at - first) * y.shape.cols + element % y.shape.cols;
      }
      const Bounded again = bounded(read_inputs(which), which, Place{o, in_block});
      const auto& terms = again.by_format[format].terms;
      if (o < terms.size()) judged_.outputs[k].terms = terms[o];
    }
  }

  const JudgeOptions& asked_;
  const Operation& operation_;
  JudgePlan plan_;
  std::vector<Matrix<double>> whole_;  // inputs that every row needs
  std::unique_ptr<BoundsFile> file_;
  JudgedTensors judged_;
};

}  // namespace

int JudgedTensors::exit_code() const {
  std::size_t elements = 0;
  for (const JudgedOutput& output : outputs) {
    if (output.judgement.outside() > 0) return 1;
    elements += output.judgement.elements();
  }
  return elements == 0 ? 3 : 0;
}

JudgedTensors judge_tensors(const JudgeOptions& asked) { return Judge(asked).judged(); }

}  // namespace plumb::trace

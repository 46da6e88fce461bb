#include "trace/judge/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <future>
#include <memory>
#include <numeric>
#include <thread>

#include "bounds/on_machine.hpp"
#include "number/rounding.hpp"
#include "trace/judge/bounds_file.hpp"
#include "trace/judge/pieces.hpp"

namespace plumb::trace {
namespace {

constexpr std::size_t block_elements = std::size_t(1) << 17;

// The tolerances of a block, one for each format of outputs.
struct Bounded {
  std::vector<Matrix<double>> values;
  std::vector<Tolerance> by_format;
};

class Judge {
 public:
  explicit Judge(const JudgeOptions& asked)
      : asked_(asked),
        operation_(*asked.operation),
        attributes_(attributes_of(operation_, asked.attributes)),
        inputs_(inputs_in(operation_, asked.inputs, asked.names, attributes_)),
        outputs_(outputs_in(operation_, inputs_.size(), asked.outputs, asked.names, attributes_)) {}

  JudgedFiles judged() {
    result_.attributes = attributes_;
    result_.sums = assumed_sums(*asked_.machine, operation_, asked_.mode);
    if (nothing_there()) return std::move(result_);
    check_shapes();
    choose_formats();
    choose_rows();
    start();
    go_through_blocks();
    explain_worst();
    if (file_) file_->finish();
    return std::move(result_);
  }

 private:
  // Outputs without numbers, of inputs without numbers: there is nothing to be wrong.
  bool nothing_there() {
    const auto empty = [](const OperandInFile& x) { return x.tensor->size == 0; };
    if (std::ranges::none_of(inputs_, empty)) return false;
    for (const auto& [o, output] : outputs_) {
      if (!empty(output)) return false;
    }
    for (const auto& [o, output] : outputs_) {
      result_.outputs.push_back({output, output.tensor->format(), Judgement(0, fp32)});
    }
    return true;
  }

  void check_shapes() {
    std::vector<Shape> shapes;
    for (const OperandInFile& input : inputs_) shapes.push_back(input.shape);
    const auto forms = check_call(operation_, shapes, attributes_, {});
    if (!forms) throw Failure(forms.error().detail + "; write another, or change --set");
    for (std::size_t o = 0; o < forms->size(); ++o) {
      const OutputForm& form = (*forms)[o];
      const auto found = outputs_.find(o);
      if (found == outputs_.end()) {
        result_.not_given.emplace_back(form.name);
        continue;
      }
      refuse_shape(found->second, form.rows.value_or(found->second.shape.rows),
                   form.cols.value_or(found->second.shape.cols));
    }
  }

  void refuse_shape(const OperandInFile& y, std::size_t rows, std::size_t cols) const {
    if (y.shape == Shape{rows, cols}) return;
    throw Failure(
        fmt::format("the output {} is {}, and {} of these inputs makes {} x {}; write that",
                    y.text(), text_of(y.tensor->shape), operation_.id, rows, cols));
  }

  Format format_of(const OperandInFile& y) const {
    const Format& stored = y.tensor->format();
    if (operation_.traits.scales_output) {
      if (stored == fp32 && asked_.output != nullptr) return *asked_.output;
      throw Failure(fmt::format(
          "the outputs of {} are what scaled short numbers stand for: write them in F32, divided by "
          "their scales, and say which format they were short in with --format",
          operation_.id));
    }
    if (asked_.output == nullptr) return stored;
    if (stored == fp32 || stored == *asked_.output) return *asked_.output;
    throw Failure(fmt::format("the output {} is of {}, not of {}; leave --format and --recipe out",
                              y.text(), stored.name, asked_.output->name));
  }

  void choose_formats() {
    for (const auto& [o, y] : outputs_) {
      const Format format = format_of(y);
      const auto known = std::ranges::find(formats_, format);
      format_of_.push_back(static_cast<std::size_t>(known - formats_.begin()));
      if (known == formats_.end()) formats_.push_back(format);
    }
    input_ = asked_.input != nullptr && inputs_[0].tensor->format() == fp32
                 ? *asked_.input
                 : inputs_[0].tensor->format();
    if (!operation_.traits.one_product) return;
    const Format& other = inputs_[1].tensor->format();
    const bool unit = !asked_.machine->is_ieee() && !asked_.machine->order();
    if (!unit || other == inputs_[0].tensor->format()) return;
    throw Failure(fmt::format(
        "{} is of {} and {} of {}, and a matrix unit multiplies numbers of one "
        "format; write both in one",
        inputs_[0].text(), inputs_[0].tensor->format().name, inputs_[1].text(), other.name));
  }

  void choose_rows() {
    const auto cuts = row_wise(operation_, inputs_.size(), attributes_);
    const std::size_t all = outputs_.begin()->second.shape.rows;
    if (asked_.rows > 0 && !cuts) {
      throw Failure(
          fmt::format("the rows of {} depend on each other here, so that none can be judged "
                      "by themselves; leave --rows out",
                      operation_.id));
    }
    by_rows_ = cuts.has_value();
    cuts_ = cuts ? *cuts : std::vector<Cut>(inputs_.size(), Cut::none);
    drawn_ = asked_.rows > 0 && asked_.rows < all;
    rows_.resize(all);
    std::iota(rows_.begin(), rows_.end(), std::size_t(0));
    if (drawn_) rows_ = drawn_rows(asked_.rows, all, asked_.seed);
    std::size_t widest = 1;
    for (const auto& [o, y] : outputs_) widest = std::max(widest, y.shape.cols);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (cuts_[i] == Cut::rows) widest = std::max(widest, inputs_[i].shape.cols);
      if (cuts_[i] == Cut::columns) widest = std::max(widest, inputs_[i].shape.rows);
    }
    block_rows_ = cuts ? std::max<std::size_t>(1, block_elements / widest) : rows_.size();
    result_.rows = rows_.size();
    result_.of_rows = all;
  }

  std::size_t judged_of(const OperandInFile& y) const {
    return drawn_ ? rows_.size() * y.shape.cols : y.tensor->size;
  }

  void start() {
    const bool moments = asked_.mode == Mode::moments;
    std::size_t all = 0;
    for (const auto& [o, y] : outputs_) all += judged_of(y);
    const double lambda = moments ? lambda_of(all, asked_.delta) : 1;
    std::vector<BoundsFile::Output> in_file;
    for (const auto& [o, y] : outputs_) {
      const Format& format = formats_[format_of_[result_.outputs.size()]];
      result_.outputs.push_back({y, format, Judgement(judged_of(y), format, lambda)});
      in_file.push_back(
          {y.name, drawn_ ? std::vector{rows_.size(), y.shape.cols} : y.tensor->shape});
    }
    if (!asked_.bounds.empty()) {
      file_ = std::make_unique<BoundsFile>(
          asked_.bounds, in_file, moments,
          drawn_ ? std::span<const std::size_t>(rows_) : std::span<const std::size_t>());
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      whole_.push_back(cuts_[i] == Cut::none ? read_input(i, {}) : Matrix<double>());
    }
  }

  Matrix<double> read_input(std::size_t i, std::span<const std::size_t> which) const {
    Matrix<double> numbers = piece_of(inputs_[i], cuts_[i], which);
    refuse_not_finite(inputs_[i], cuts_[i], which, numbers);
    if (asked_.input != nullptr && operation_.traits.one_product && i < 2) {
      refuse_other_numbers(inputs_[i], cuts_[i], which, numbers, input_);
    }
    return numbers;
  }

  // --format and --recipe promise numbers of a format; a bound for it does not hold for others.
  void refuse_other_numbers(const OperandInFile& of, Cut cut, std::span<const std::size_t> which,
                            const Matrix<double>& numbers, const Format& format) const {
    if (of.tensor->format() == format) return;
    for (std::size_t e = 0; e < numbers.size(); ++e) {
      const double x = numbers.values[e];
      if (!std::isfinite(x) || round_to(x, format) == x) continue;
      throw Failure(
          fmt::format("{} of {} is {:.9g}, which is no number of {}; name its format with "
                      "--format or leave it out",
                      of.place(element_of(of, cut, which, e)), of.text(), x, format.name));
    }
  }

  std::vector<Matrix<double>> read_inputs(std::span<const std::size_t> which) const {
    std::vector<Matrix<double>> read;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      read.push_back(cuts_[i] == Cut::none ? Matrix<double>() : read_input(i, which));
    }
    return read;
  }

  Bounded bounded(const std::vector<Matrix<double>>& read, std::span<const std::size_t> which,
                  std::optional<Place> explained = {}) const {
    std::vector<const Matrix<double>*> inputs;
    for (std::size_t i = 0; i < read.size(); ++i) {
      inputs.push_back(cuts_[i] == Cut::none ? &whole_[i] : &read[i]);
    }
    ExactRoundings exact;
    Bounded all;
    all.values = operation_.value({inputs, attributes_, {1, fp32, formats_[0]}, exact});
    const double share =
        asked_.delta * static_cast<double>(which.size()) / static_cast<double>(rows_.size());
    for (const Format& format : formats_) {
      auto tolerance = tolerance_on(
          *asked_.machine, operation_,
          {inputs, attributes_, {1, fp32, format}, asked_.mode, share, all.values, explained},
          input_);
      if (!tolerance) refuse_bound(tolerance.error().detail, which);
      all.by_format.push_back(*std::move(tolerance));
    }
    return all;
  }

  [[noreturn]] void refuse_bound(const std::string& why, std::span<const std::size_t> which) const {
    const bool whole = which.size() == rows_.size() && !drawn_;
    throw Failure(fmt::format(
        "{} has no bound here{}: {}; change --machine, --mode or the inputs", operation_.id,
        whole ? "" : fmt::format(" (rows {} to {})", which.front(), which.back()), why));
  }

  std::span<const std::size_t> block(std::size_t first) const {
    return std::span(rows_).subspan(first, std::min(block_rows_, rows_.size() - first));
  }

  // Reads in order, bounds side by side, compares in order.
  void go_through_blocks() {
    struct Work {
      std::span<const std::size_t> which;
      std::future<Bounded> bounded;
    };
    const std::size_t hands = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 8);
    std::deque<Work> under_way;
    for (std::size_t first = 0; first < rows_.size() || !under_way.empty(); first += block_rows_) {
      if (first < rows_.size()) {
        const auto which = block(first);
        under_way.push_back(
            {which, std::async(std::launch::async, [this, which, read = read_inputs(which)] {
               return bounded(read, which);
             })});
        if (under_way.size() < hands) continue;
      }
      const Bounded done = under_way.front().bounded.get();
      compare(done, under_way.front().which);
      under_way.pop_front();
    }
  }

  void compare(const Bounded& done, std::span<const std::size_t> which) {
    std::size_t k = 0;
    for (const auto& [o, y] : outputs_) {
      const Matrix<double>& value = done.values.at(o);
      if (!by_rows_) refuse_shape(y, value.rows, value.cols);
      const Cut cut = by_rows_ ? Cut::rows : Cut::none;
      const Matrix<double> found = piece_of(y, cut, which);
      const Tolerance& t = done.by_format[format_of_[k]];
      JudgedOutput& output = result_.outputs[k++];
      if (!operation_.traits.scales_output) {
        refuse_other_numbers(y, cut, which, found, output.format);
      }
      for (std::size_t e = 0; e < found.size(); ++e) {
        output.judgement.add(element_of(y, cut, which, e), found.values[e], value.values[e],
                             t.bound[o].values[e], t.bias.empty() ? 0 : t.bias[o].values[e]);
      }
      if (!file_) continue;
      file_->add(y.name + ".value", value.values);
      file_->add(y.name + ".bound", t.bound[o].values);
      if (!t.bias.empty()) file_->add(y.name + ".bias", t.bias[o].values);
    }
  }

  // Once more the block of the worst element, which now says what its bound is made of.
  void explain_worst() {
    std::size_t k = 0;
    for (const auto& [o, y] : outputs_) {
      JudgedOutput& output = result_.outputs[k];
      const std::size_t element = output.judgement.worst().element;
      const std::size_t row = element / y.shape.cols;
      const auto at =
          static_cast<std::size_t>(std::ranges::lower_bound(rows_, row) - rows_.begin());
      const auto which = block(by_rows_ ? at / block_rows_ * block_rows_ : 0);
      const Place place{
          o, by_rows_ ? at % block_rows_ * y.shape.cols + element % y.shape.cols : element};
      const Bounded again = bounded(read_inputs(which), which, place);
      const auto& terms = again.by_format[format_of_[k++]].terms;
      if (o < terms.size()) output.terms = terms[o];
    }
  }

  const JudgeOptions& asked_;
  const Operation& operation_;
  Attributes attributes_;
  std::vector<OperandInFile> inputs_;
  std::map<std::size_t, OperandInFile> outputs_;
  std::vector<Format> formats_;         // that outputs have, each once
  std::vector<std::size_t> format_of_;  // of each judged output
  Format input_ = fp32;
  std::vector<Cut> cuts_;
  std::vector<std::size_t> rows_;
  std::size_t block_rows_ = 1;
  bool by_rows_ = false, drawn_ = false;
  std::vector<Matrix<double>> whole_;  // inputs that every row needs
  std::unique_ptr<BoundsFile> file_;
  JudgedFiles result_;
};

}  // namespace

int JudgedFiles::exit_code() const {
  std::size_t elements = 0;
  for (const JudgedOutput& output : outputs) {
    if (output.judgement.outside() > 0) return 1;
    elements += output.judgement.elements();
  }
  return elements == 0 ? 3 : 0;
}

JudgedFiles judge_files(const JudgeOptions& asked) { return Judge(asked).judged(); }

}  // namespace plumb::trace

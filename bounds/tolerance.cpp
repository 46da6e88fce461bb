#include "bounds/tolerance.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "number/rounding.hpp"

namespace plumb::bounds {
namespace {

constexpr double outward = 1 + 0x1p-40;  // for the last dozen operations of a bound

// The error that the cast of a number to one format may add; the format's numbers are looked up
// once.
class CastError {
 public:
  explicit CastError(const Format& to)
      : to_(to), u_(to.unit_roundoff()), at_zero_(to.spacing_at_zero()), largest_(to.largest()) {}
  template <class Number>
  double operator()(const Number& x) const {
    const double m = x.most();
    if (fits(x)) return 0;
    // Rounding is monotone: nothing up to the largest number becomes more than that.
    return m <= largest_ ? half_spacing(m, u_, at_zero_) : std::numeric_limits<double>::infinity();
  }
  // A stochastic cast may lose a whole spacing; a number that saturates loses what it has beyond
  // the largest.
  template <class Number>
  double operator()(const Number& x, const TensorCast& cast) const {
    if (!cast.saturate && !cast.key) return (*this)(x);
    const double m = x.most();
    if (fits(x)) return 0;
    const double within = half_spacing(std::min(m, largest_), u_, at_zero_);
    const double c = cast.key ? term<"tolerance.stochastic">(2 * within) : within;
    if (m <= largest_) return c;
    return cast.saturate ? std::max(c, term<"tolerance.saturated">((m - largest_) * outward))
                         : std::numeric_limits<double>::infinity();
  }

 private:
  template <class Number>
  bool fits(const Number& x) const {
    return x.exact() && round_to(x.value, to_) == x.value;
  }

  const Format& to_;
  double u_, at_zero_, largest_;
};

struct Names {
  const char* name;
  const char* formula;
};
constexpr std::array<Names, shares> cause{{
    {"sums", "half an fp32 spacing at each running sum"},
    {"steps", "half an fp32 spacing at each other intermediate result"},
    {"functions", "an fp32 ulp at each exp and log"},
    {"wire", "half a wire spacing at each part and each running sum of parts"},
    {"stored", "half an output spacing at |y|"},
}};

// The mode and the level, which the terms of one output share.
struct Rule {
  Mode mode;
  double lambda;
  bool repeated;
};

// What the bound of one element is made of.
struct Parts {
  std::array<double, shares + 2> share{};
  double bound = 0;
};
constexpr std::size_t likely_share = shares, judge_share = shares + 1;

// The terms in the words of their causes, or in those of the operation's own proof. They add up to
// the bound: what outward rounding has enlarged it by is one of them.
std::vector<Term> terms_of(const Parts& parts, const std::vector<Formula>& own) {
  std::vector<Term> terms;
  double sum = 0;
  const auto add = [&](const std::string& name, const std::string& formula, double share) {
    if (share > 0) terms.push_back({name, formula, share});
    sum += share;
  };
  for (std::size_t s = 0; s < shares; ++s) {
    const auto said = std::ranges::find(own, static_cast<Share>(s), &Formula::share);
    add(cause[s].name, said == own.end() ? cause[s].formula : said->text, parts.share[s]);
  }
  add("roundings", "lambda (common + sqrt energy) + drift", parts.share[likely_share]);
  add("judge", "|value as given - value mirrored|", parts.share[judge_share]);
  add("slack", "for the last operations of FP64: 2^-40 of the rest", parts.bound - sum);
  return terms;
}

double joined(double on_the_way, double stored, double judge) {
  return (on_the_way + stored + judge) * outward;
}

Parts bound_of(const RunningError& y, double value, const Rule& rule) {
  Parts parts;
  const double stored = y[Share::stored];
  const double judge = term<"tolerance.judge">(std::fabs(y.value - value));
  const double worst = y.worst() - stored;
  // 2^-10: the second-order factor phi of [HI23], below 7e-4 for 2^20 terms and lambda <= 8.
  const double likely =
      term<"tolerance.likely">(rule.lambda) * (y.common + std::sqrt(y.energy)) * (1 + 0x1p-10) +
      y.drift * outward;
  const bool by_chance = rule.mode == Mode::probabilistic && !rule.repeated && likely < worst;
  if (by_chance) {
    parts.share[likely_share] = likely;
  } else {
    std::copy_n(y.share.begin(), shares, parts.share.begin());
  }
  parts.share[static_cast<std::size_t>(Share::stored)] = stored;
  parts.share[judge_share] = judge;
  parts.bound = joined(by_chance ? likely : worst * outward, stored, judge);
  return parts;
}

Refusal out_of_range(std::size_t element, std::size_t output, double value) {
  return {Why::may_overflow, "element " + std::to_string(element) + " of output " +
                                 std::to_string(output) + ", about " +
                                 fmt::format("{:.3g}", value) +
                                 ", or a step to it may leave its format's range"};
}

void need_values(const ToleranceCall& call, std::size_t outputs) {
  if (call.values.size() == outputs) return;
  throw std::invalid_argument("a tolerance needs the values of the same call");
}

bool finite(const Matrix<double>& x) {
  return std::all_of(x.values.begin(), x.values.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

template <class Number>
void ErrorRoundings<Number>::before_parts(std::vector<Matrix<Number>>& parts, const Format&) {
  wire_calls_ = 2 * parts.size() - 1;
}

template <class Number>
void ErrorRoundings<Number>::round(Matrix<Number>& x, const Format& to) {
  const bool wire = wire_calls_ > 0;
  if (wire) --wire_calls_;
  if (to == fp32 || to == fp64) return;  // a float already
  const CastError error(to);
  for (Number& value : x.values) {
    const double c = error(value);
    if (wire) value.err(term<"tolerance.wire">(c), Share::wire);
    if (!wire) value[Share::stored] += term<"tolerance.stored">(c);
  }
}

template <class Number>
void ErrorRoundings<Number>::round_as(Matrix<Number>& x, const Format& to, const TensorCast& cast) {
  if (to == fp32 || to == fp64) return;
  const CastError error(to);
  for (Number& value : x.values) {
    value[Share::stored] += term<"tolerance.stored">(error(value, cast));
  }
}

template class ErrorRoundings<RunningError>;
template class ErrorRoundings<WorstError>;

RunningError added_in_any_order(const std::vector<Matrix<RunningError>>& parts, std::size_t element,
                                const Format& wire) {
  RunningError sum;
  double largest = 0;  // of any partial sum
  std::size_t numbers = 0;
  for (const Matrix<RunningError>& part : parts) {
    const RunningError& x = part.values[element];
    if (x.most() == 0) continue;
    ++numbers;
    sum.carry(term<"any_rank_order.parts">(1), x);
    sum.err_surely(RunningError::lost(sum.value, x.value, sum.value + x.value), Share::sums);
    sum.value += x.value;
    largest += x.most();
  }
  largest *= outward;
  const bool short_wire = wire != fp32 && wire != fp64;
  const double range = short_wire ? wire.largest() : fp32.largest();
  for (std::size_t k = 1; k < numbers; ++k) {
    double c = term<"any_rank_order.sums">(RunningError::half_spacing_fp32(largest));
    if (arithmetic_in_force.flushes) c += term<"any_rank_order.flush">(smallest_normal_fp32);
    sum.err_surely(c, Share::sums);
    largest += c;
    if (short_wire) {
      c = term<"any_rank_order.wire">(half_spacing(largest, wire));
      sum.err_surely(c, Share::wire);
      largest += c;
    }
    if (!(largest <= range)) sum.err_surely(std::numeric_limits<double>::infinity(), Share::wire);
  }
  return sum;
}

Matrix<RunningError> sum_in_any_rank_order(std::vector<Matrix<RunningError>>&& parts,
                                           const Format& wire, Roundings<RunningError>& roundings) {
  roundings.before_parts(parts, wire);
  for (Matrix<RunningError>& part : parts) roundings.round(part, wire);
  Matrix<RunningError> total = parts[0];
  for (std::size_t p = 1; p < parts.size(); ++p) {
    for (std::size_t e = 0; e < total.size(); ++e) total.values[e] += parts[p].values[e];
    roundings.round(total, wire);
  }
  for (std::size_t e = 0; e < total.size(); ++e) {
    const auto numbers = std::ranges::count_if(
        parts, [&](const Matrix<RunningError>& part) { return part.values[e].most() != 0; });
    if (numbers > 2) total.values[e] = added_in_any_order(parts, e, wire);
  }
  return total;
}

bool repeats(const Matrix<double>& x) {
  std::size_t pairs = 0;
  std::size_t along = 0;
  std::size_t down = 0;
  // Looks at every element of a small matrix, and at some thousands of a large one.
  const std::size_t step = std::max<std::size_t>(1, x.size() / 4096);
  for (std::size_t e = std::max<std::size_t>(x.cols, 1); e < x.size(); e += step) {
    const double v = x.values[e];
    if (v == 0) continue;
    ++pairs;
    along += x.values[e - 1] == v ? 1 : 0;
    down += x.values[e - x.cols] == v ? 1 : 0;
  }
  return pairs >= 8 && 8 * std::max(along, down) > pairs;
}

std::vector<Refusal> refusals_before(const ToleranceCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (finite(call[i])) continue;
    return {{Why::not_finite, "input " + std::to_string(i) + " holds an infinity or a NaN"}};
  }
  if (call.mode == Mode::moments && call.how.any_rank_order && call.how.parts > 2) {
    return {{Why::unsupported,
             "moments of a sum need its order, and nobody knows the one in which these ranks add"}};
  }
  if (call.mode == Mode::probabilistic && !(call.delta > 0 && call.delta < 1)) {
    throw std::invalid_argument("a probabilistic tolerance needs 0 < delta < 1");
  }
  return {};
}

Outcome<Tolerance> tolerance_of(const std::vector<Matrix<RunningError>>& outputs,
                                const ToleranceCall& call, bool dependent,
                                const std::vector<Formula>& own) {
  Tolerance tolerance{call.mode, call.mode == Mode::probabilistic ? call.delta : 0, {}, {}, {}};
  double elements = 0;
  for (const Matrix<RunningError>& y : outputs) elements += static_cast<double>(y.size());
  const double lambda =
      call.mode == Mode::probabilistic ? std::sqrt(2 * std::log(16 * elements / call.delta)) : 0;
  need_values(call, outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Matrix<RunningError>& y = outputs[o];
    if (call.values[o].size() != y.size()) need_values(call, 0);
    Matrix<double> bound(y.rows, y.cols);
    Parts largest, explained;
    for (std::size_t e = 0; e < y.size(); ++e) {
      const Parts parts =
          bound_of(y.values[e], call.values[o].values[e], {call.mode, lambda, dependent});
      bound.values[e] = parts.bound;
      if (parts.bound > largest.bound) largest = parts;
      if (call.explains(o, e)) explained = parts;
      if (!std::isfinite(bound.values[e])) return out_of_range(e, o, y.values[e].value);
    }
    tolerance.bound.push_back(std::move(bound));
    const bool asked = call.explained && call.explained->output == o;
    tolerance.terms.push_back(terms_of(asked ? explained : largest, own));
  }
  return tolerance;
}

bool short_numbers(const Matrix<double>& x) {
  const std::size_t step = std::max<std::size_t>(1, x.size() / 4096);
  std::size_t numbers = 0, few_bits = 0;
  for (std::size_t e = 0; e < x.size(); e += step) {
    const double v = x.values[e];
    if (v == 0) continue;
    ++numbers;
    int exponent = 0;
    const double bits = std::ldexp(std::frexp(v, &exponent), 12);
    few_bits += bits == std::trunc(bits) ? 1 : 0;
  }
  return numbers > 0 && 8 * few_bits > 7 * numbers;
}

Outcome<Tolerance> tolerance_by_evaluation(const ToleranceCall& call, const Proofs& proofs,
                                           std::initializer_list<std::size_t> summed,
                                           std::initializer_list<std::size_t> squared) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  const auto any = [&](std::initializer_list<std::size_t> inputs,
                       bool (*of)(const Matrix<double>&)) {
    return call.mode != Mode::deterministic &&
           std::ranges::any_of(inputs, [&](std::size_t i) { return of(call[i]); });
  };
  const bool repeated = any(summed, repeats);
  if (call.mode == Mode::moments) {
    if (repeated) return Refusal{Why::conflict, std::string(data_repeat)};
    if (call.sums.way == SumsIn::Way::any) return Refusal{Why::unsupported, std::string(no_order)};
    return moments_by_evaluation(call, proofs.moments);
  }
  std::vector<Matrix<RunningError>> inputs;
  std::vector<const Matrix<RunningError>*> pointers;
  inputs.reserve(call.inputs.size());
  for (const Matrix<double>* input : call.inputs) inputs.push_back(converted<RunningError>(*input));
  for (const Matrix<RunningError>& input : inputs) pointers.push_back(&input);
  RunningErrorRoundings roundings;
  return tolerance_of(
      proofs.bound({pointers, call.attributes, call.how, roundings, call.sums, call.form}), call,
      repeated || any(squared, short_numbers));
}

Outcome<Tolerance> bounds_by_place(const ToleranceCall& call, WorstEvaluation evaluate) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  constexpr std::size_t slice = 2048;  // whose numbers stay in a core's cache
  Tolerance tolerance{Mode::deterministic, 0, {}, {}, {}};
  for (const Matrix<double>& value : call.values) {
    tolerance.bound.emplace_back(value.rows, value.cols);
    tolerance.terms.emplace_back();
  }
  std::vector<Matrix<WorstError>> inputs(call.inputs.size());
  std::vector<const Matrix<WorstError>*> pointers;
  for (const Matrix<WorstError>& input : inputs) pointers.push_back(&input);
  ErrorRoundings<WorstError> roundings;
  for (std::size_t first = 0; first < call[0].size(); first += slice) {
    const std::size_t count = std::min(slice, call[0].size() - first);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = Matrix<WorstError>(1, count);
      std::copy_n(call[i].values.begin() + static_cast<std::ptrdiff_t>(first), count,
                  inputs[i].values.begin());
    }
    const auto outputs =
        evaluate({pointers, call.attributes, call.how, roundings, call.sums, call.form});
    need_values(call, outputs.size());
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      for (std::size_t e = 0; e < count; ++e) {
        const WorstError& y = outputs[o].values[e];
        const double judge =
            term<"tolerance.judge">(std::fabs(y.value - call.values[o].values[first + e]));
        double& bound = tolerance.bound[o].values[first + e];
        bound = joined(y.steps * outward, y.stored, judge);
        if (!std::isfinite(bound)) return out_of_range(first + e, o, y.value);
      }
    }
  }
  return tolerance;
}

}  // namespace plumb::bounds

#include "bounds/cast_product.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/cast_sums.hpp"
#include "bounds/on_machine.hpp"
#include "bounds/proof/term.hpp"
#include "bounds/tolerance.hpp"
#include "number/product.hpp"

namespace plumb::bounds {
namespace {

// What the bounds are counted from.
struct Values : CastValues {
  explicit Values(const CastProductCall& call) : Values(call, call.a.exact(), call.b.exact()) {}
  Values(const CastProductCall& call, const Matrix<double>& a, const Matrix<double>& b)
      : CastValues{product_by_rows(a, b), product_by_rows(sizes_of(a), sizes_of(b))},
        value(product_by_rows(call.a.input, call.b.input)),
        input_sizes(product_by_rows(sizes_of(call.a.input), sizes_of(call.b.input))) {}
  Matrix<double> value, input_sizes;  // A B, |A| |B|
};

// FP64 sums of K products, each a code and a scale by others.
double judge_of(const CastProductCall& call, double size) {
  return term<"cast.judge">(static_cast<double>(call.a.input.cols + 8) * 0x1p-52 * size);
}

std::optional<Refusal> refused(const CastProductCall& call) {
  for (const CastOperand* x : {&call.a, &call.b}) {
    for (const double v : x->input.values) {
      if (!std::isfinite(v)) return Refusal{Why::not_finite, "an operand is not finite"};
    }
    if (x->rule.scaled == CastRule::Scaled::no) continue;
    for (const double s : x->scales.values) {
      if (s >= 0x1p-45 && s <= 0x1p45) continue;
      return Refusal{Why::may_overflow,
                     "a scale is outside 2^-45 ... 2^45, where products with it are known to "
                     "stay in FP32's range; scale the tensors before they are cast"};
    }
  }
  if (call.mode == Mode::moments && (repeats(call.a.codes) || repeats(call.b.codes))) {
    return Refusal{Why::conflict, std::string(data_repeat)};
  }
  if (cast_by_chance(call) && call.mode != Mode::deterministic) {
    return Refusal{Why::unsupported,
                   "casts by chance are bounded in the worst case only; take --mode deterministic"};
  }
  return {};
}

class Finish {
 public:
  Finish(const CastProductCall& call, Values&& values, CastSums sums)
      : call_(call), x_(std::move(values)), sums_(std::move(sums)) {
    if (cast_by_chance(call)) moved_by_chance();
  }

  Outcome<CastProduct> operator()() {
    const double delta = call_.mode == Mode::probabilistic ? call_.delta : 0;
    const Matrix<double> zeros(x_.value.rows, x_.value.cols);
    const Tolerance none{call_.mode, delta, {zeros}, {}, {{}}};
    CastProduct all{{}, {}, none, none, !cast_by_chance(call_)};
    const bool moments = call_.mode == Mode::moments;
    if (moments) all.given_codes.bias = all.whole.bias = {zeros};
    for (std::size_t e = 0; e < zeros.size(); ++e) {
      all.given_codes.bound[0].values[e] = given(e);
      all.whole.bound[0].values[e] = whole(e);
      if (!(std::fabs(x_.value.values[e]) + whole(e) <= call_.how.output.largest())) {
        return Refusal{Why::may_overflow, "element " + std::to_string(e) +
                                              " or a step to it may leave its format's range"};
      }
      if (!moments) continue;
      const double bias = sums_.bias.values[e];
      all.given_codes.bias[0].values[e] = bias;
      all.whole.bias[0].values[e] = bias + x_.of_codes.values[e] - x_.value.values[e];
    }
    if (call_.explained) all.whole.terms[0] = terms(*call_.explained);
    all.value = std::move(x_.value);
    all.of_codes = std::move(x_.of_codes);
    return all;
  }

 private:
  double stored(double size) const {
    return call_.how.output == fp32 ? 0 : term<"cast.stored">(ulp(size, call_.how.output) / 2);
  }
  double stored_at(std::size_t e) const {
    if (cast_by_chance(call_)) return stored(std::fabs(x_.value.values[e]) + any_of(e));
    return stored(std::fabs(x_.of_codes.values[e]) + sums_.worst.values[e]);
  }
  double any_of(std::size_t e) const { return sums_.any_off.values[e] + moved_.values[e]; }
  double judge(std::size_t e) const { return judge_of(call_, x_.sizes.values[e]); }
  // Also of A B, and of the distance between both.
  double judge_whole(std::size_t e) const {
    return judge_of(call_, 2 * x_.sizes.values[e] + x_.input_sizes.values[e]);
  }

  double given(std::size_t e) const {
    const double cast = stored(std::fabs(x_.of_codes.values[e]) + sums_.worst.values[e]);
    const double off = sums_.off.values[e];
    if (call_.mode == Mode::moments) return std::sqrt(off * off + cast * cast / 3);
    return (off + judge(e) + cast) * (1 + 0x1p-50);
  }
  // The casts' share of these operands, or of any that chance may draw.
  double casts(std::size_t e) const {
    if (cast_by_chance(call_)) return term<"cast.moved">(moved_.values[e]);
    return term<"cast.moved">(std::fabs(x_.of_codes.values[e] - x_.value.values[e]));
  }
  double whole(std::size_t e) const {
    if (call_.mode == Mode::moments) return given(e);
    const double off = cast_by_chance(call_) ? sums_.any_off.values[e] : sums_.off.values[e];
    return (off + casts(e) + judge_whole(e) + stored_at(e)) * (1 + 0x1p-50);
  }

  // |A~ - A| |B| + |A~| |B~ - B|, for any codes.
  void moved_by_chance() {
    const Matrix<double> a = sizes_of(call_.a.input), b = sizes_of(call_.b.input);
    const Matrix<double> da = call_.a.moved(), db = call_.b.moved();
    Matrix<double> most = a;
    for (std::size_t e = 0; e < most.size(); ++e) most.values[e] += da.values[e];
    moved_ = product_by_rows(da, b);
    const Matrix<double> second = product_by_rows(most, db);
    for (std::size_t e = 0; e < moved_.size(); ++e) {
      moved_.values[e] = (moved_.values[e] + second.values[e]) * (1 + 0x1p-30);
    }
  }

  std::vector<Term> terms(std::size_t e) const {
    std::vector<Term> all = sums_.terms;
    const double cast = stored_at(e);
    const auto add = [&](const char* name, const std::string& formula, double share) {
      if (share > 0) all.push_back({name, formula, share});
    };
    if (call_.mode == Mode::moments) {
      add("stored", "half a spacing of " + std::string(call_.how.output.name) + " / sqrt(3)",
          cast / std::sqrt(3.0));
      return all;
    }
    if (cast_by_chance(call_)) {
      all = {{"sums", "of any codes that chance may draw", sums_.any_off.values[e]}};
    }
    add("stored", "half a spacing of " + std::string(call_.how.output.name), cast);
    add("casts",
        cast_by_chance(call_) ? "|A~ - A| |B| + |A~| |B~ - B|, a whole spacing each"
                              : "|A~ B~ - A B| of these inputs",
        casts(e));
    add("judge", "(K + 8) 2^-52 |A| |B|, FP64 sums", judge_whole(e));
    double sum = 0;
    for (const Term& t : all) sum += t.largest;
    add("slack", "for the last operations of FP64", whole(e) - sum);
    return all;
  }

  const CastProductCall& call_;
  Values x_;
  CastSums sums_;
  Matrix<double> moved_;
};

// Does the card describe FP32 sums? (Else its matrix unit.)
bool sums_in_fp32(const Machine& machine) { return machine.rounds_to_nearest() || machine.order(); }

}  // namespace

Matrix<double> sizes_of(const Matrix<double>& x) {
  Matrix<double> sizes = x;
  for (double& v : sizes.values) v = std::fabs(v);
  return sizes;
}

Matrix<double> product_by_rows(const Matrix<double>& a, const Matrix<double>& b) {
  return product(view(a), view(b, true));
}

bool cast_by_chance(const CastProductCall& call) {
  return call.a.rule.by_chance || call.b.rule.by_chance;
}

Outcome<CastProduct> cast_product_on(const Machine& machine, const CastProductCall& call) {
  if (const auto why = refused(call)) return *why;
  if (cast_by_chance(call) && !(machine.rounds_to_nearest() && !machine.order())) {
    return Refusal{Why::unsupported, "machine '" + machine.id +
                                         "': casts by chance are bounded for sums in any order "
                                         "only; take the machine ieee"};
  }
  Values values(call);
  if (sums_in_fp32(machine)) {
    const Arithmetic arithmetic = machine.arithmetic();
    if (arithmetic.flushes || (machine.order() && !arithmetic.fuses)) {
      return Refusal{
          Why::unsupported,
          "machine '" + machine.id +
              "': products of casts are bounded where subnormals are kept, and in a known "
              "order where products are fused; take the machine ieee"};
    }
    const Outcome<CastSums> sums = cast_sums_in_fp32(machine, call, values);
    if (!sums) return sums.error();
    return Finish(call, std::move(values), *sums)();
  }
  const Outcome<Mma> unit = unit_for(machine, call);
  if (!unit) return unit.error();
  return Finish(call, std::move(values), cast_sums_on(*unit, call))();
}

std::string assumed_sums_of_codes(const Machine& machine, const CastProductCall& call) {
  if (sums_in_fp32(machine)) {
    return assumptions(machine, *find_operation("gemm"), call.mode) +
           ", of products of the scaled numbers in FP32";
  }
  const Outcome<Mma> unit = unit_for(machine, call);
  if (unit && unit->block > 0) return "the steps of the matrix unit, which scales the codes itself";
  const std::vector<std::size_t> begins = chains_of(call);
  std::string words = "the steps of the matrix unit on the codes";
  if (begins.size() > 2) {
    words += ", chains of " + std::to_string(begins[1] - begins[0]) + " terms added in FP32";
  }
  const bool scaled =
      call.a.rule.scaled != CastRule::Scaled::no || call.b.rule.scaled != CastRule::Scaled::no;
  return words + (scaled ? ", scales applied in FP32" : "");
}

}  // namespace plumb::bounds

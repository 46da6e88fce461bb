#include <cmath>

#include "bounds/cast_sums.hpp"
#include "bounds/on_machine.hpp"
#include "bounds/proof/term.hpp"

namespace plumb::bounds {
namespace {

// The tolerance of gemm for operands of FP32, before its cast.
Outcome<Tolerance> of_gemm(const Machine& machine, const CastProductCall& call, Mode mode,
                           const Matrix<double>& a, const Matrix<double>& b) {
  Attributes attributes{{"transpose_a", 0}, {"transpose_b", 1}};
  if (call.promotion > 0) attributes["chain"] = static_cast<double>(call.promotion);
  const std::vector<Matrix<double>> values{product_by_rows(a, b)};
  std::optional<Place> place;
  if (call.explained) place = Place{0, *call.explained};
  Evaluation how = call.how;
  how.output = fp32;
  return tolerance_on(machine, *find_operation("gemm"),
                      {{&a, &b}, attributes, how, mode, call.delta, values, place}, fp32);
}

// The largest magnitudes that the operand's codes may have, whatever chance draws.
Matrix<double> most_of(const CastOperand& x) {
  Matrix<double> most = x.moved();
  for (std::size_t e = 0; e < most.size(); ++e) {
    most.values[e] = static_cast<double>(
        std::nextafter(static_cast<float>(most.values[e] + std::fabs(x.input.values[e])), 3e38F));
  }
  return most;
}

}  // namespace

Outcome<CastSums> cast_sums_in_fp32(const Machine& machine, const CastProductCall& call,
                                    const CastValues& x) {
  const Matrix<double> a = call.a.in_fp32(), b = call.b.in_fp32();
  const Outcome<Tolerance> sums = of_gemm(machine, call, call.mode, a, b);
  if (!sums) return sums.error();
  const Outcome<Tolerance> worst =
      call.mode == Mode::probabilistic ? of_gemm(machine, call, Mode::deterministic, a, b) : sums;
  if (!worst) return worst.error();
  CastSums all{sums->bound[0], Matrix<double>(x.sizes.rows, x.sizes.cols), worst->bound[0], {}, {}};
  const double inexact = (call.a.powers() ? 0 : 1) + (call.b.powers() ? 0 : 1);
  const Matrix<double> held = product_by_rows(a, b);
  const auto scales = [&](std::size_t e) {
    return term<"cast.scaled">(inexact * 0x1.000002p-24 * x.sizes.values[e]);
  };
  for (std::size_t e = 0; e < held.size(); ++e) {
    all.worst.values[e] += scales(e);
    if (call.mode != Mode::moments) all.off.values[e] += scales(e);
    if (call.mode != Mode::moments) continue;
    all.bias.values[e] = sums->bias[0].values[e] + held.values[e] - x.of_codes.values[e];
  }
  if (cast_by_chance(call)) {
    const Matrix<double> most_a = most_of(call.a), most_b = most_of(call.b);
    const auto any = of_gemm(machine, call, call.mode, most_a, most_b);
    if (!any) return any.error();
    all.any_off = any->bound[0];
    const Matrix<double> sizes = product_by_rows(most_a, most_b);
    for (std::size_t e = 0; e < held.size(); ++e) {
      all.any_off.values[e] += inexact * 0x1.000002p-24 * sizes.values[e];
    }
  }
  if (!call.explained) return all;
  for (const Term& t : sums->terms[0]) {  // the last slack is that of the whole
    if (t.name != "slack") all.terms.push_back(t);
  }
  const double share = scales(*call.explained);
  if (share > 0 && call.mode != Mode::moments) {
    all.terms.push_back({"scales", "u |A~| |B~| for each operand scaled in FP32", share});
  }
  return all;
}

}  // namespace plumb::bounds

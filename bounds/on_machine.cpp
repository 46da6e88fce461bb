#include "bounds/on_machine.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/forms.hpp"
#include "bounds/mma.hpp"
#include "bounds/ordered.hpp"
#include "bounds/proof/term.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

// The words of a bound for one kind of sum.
struct Wording {
  std::string name, worst, likely;
};

// What the bound of one element is made of.
struct Shown {
  double sums = 0, stored = 0, judge = 0;
};

class Finish {
 public:
  Finish(const ToleranceCall& call, const Wording& wording, bool repeated)
      : call_(call), wording_(wording), repeated_(repeated) {
    const double elements = static_cast<double>(call.values[0].size());
    if (call.mode == Mode::probabilistic)
      lambda_ = std::sqrt(2 * std::log(2 * elements / call.delta));
  }

  Tolerance operator()(const SumErrors& errors) {
    const Matrix<double>& value = call_.values[0];
    Tolerance t{call_.mode, call_.mode == Mode::probabilistic ? call_.delta : 0, {}, {}, {}};
    t.bound = {Matrix<double>(value.rows, value.cols)};
    if (call_.mode == Mode::moments) t.bias = {errors.bias};
    for (std::size_t e = 0; e < value.size(); ++e) t.bound[0].values[e] = one(errors, e);
    t.terms = {{{wording_.name, by_chance_ ? wording_.likely : wording_.worst, shown_.sums}}};
    const auto add = [&](const std::string& name, const std::string& formula, double share) {
      if (share > 0) t.terms[0].push_back({name, formula, share});
    };
    add("stored", "half a spacing of " + std::string(call_.how.output.name), shown_.stored);
    add("judge", "|value as given - value mirrored|", shown_.judge);
    if (call_.mode == Mode::moments) return t;  // whose terms add up in squares
    add("slack", "for the last operations of FP64: 2^-50 of the rest",
        largest_ - (shown_.sums + shown_.stored + shown_.judge));
    return t;
  }

 private:
  double one(const SumErrors& errors, std::size_t e) {
    const double worst = errors.worst.values[e];
    const double size = std::fabs(call_.values[0].values[e]) + worst;
    const double cast = call_.how.output == fp32 ? 0 : ulp(size, call_.how.output) / 2;
    if (call_.mode == Mode::moments) {
      const double all = std::sqrt(errors.variance.values[e] + cast * cast / 3);
      show(e, all, {std::sqrt(errors.variance.values[e]), cast / std::sqrt(3.0), 0});
      return all;
    }
    double bound = worst;
    if (call_.mode == Mode::probabilistic && !repeated_) {
      bound = errors.likely(e, lambda_);
      by_chance_ = by_chance_ || bound < worst;
    }
    // The value as given and the sum from which errors are counted: two orders of FP64.
    const double judge =
        term<"on_machine.judge">(std::fabs(errors.sum.values[e] - call_.values[0].values[e]));
    const double all = (bound + judge + term<"on_machine.stored">(cast)) * (1 + 0x1p-50);
    show(e, all, {bound, cast, judge});
    return all;
  }

  // Keeps the shares of the element that is asked for, or of the one with the largest bound.
  void show(std::size_t element, double bound, const Shown& shares) {
    if (call_.explained ? !call_.explains(0, element) : !(bound > largest_)) return;
    largest_ = bound;
    shown_ = shares;
  }

  const ToleranceCall& call_;
  const Wording& wording_;
  bool repeated_, by_chance_ = false;
  double lambda_ = 0, largest_ = 0;
  Shown shown_;
};

Outcome<Tolerance> of_product(const ToleranceCall& call, const Machine& machine,
                              const std::optional<Order>& order, const std::optional<Mma>& unit) {
  const auto refused = refusals_before(call);
  if (!refused.empty()) return refused.front();
  const bool repeated = call.mode != Mode::deterministic && (repeats(call[0]) || repeats(call[1]));
  if (repeated && call.mode == Mode::moments) {
    return Refusal{Why::conflict, std::string(data_repeat)};
  }
  const View<double> a = view(call[0], call.attribute("transpose_a") != 0);
  const View<double> b = view(call[1], call.attribute("transpose_b") != 0);
  const ArithmeticScope scope(order ? machine.arithmetic() : Arithmetic());
  const Asked asked = call.mode == Mode::deterministic ? Asked::worst : Asked::all;
  const SumErrors errors = order ? errors_in_order(a, b, *order) : mma_errors(a, b, *unit, asked);
  if (call.mode == Mode::moments && errors.flushed) {
    return Refusal{Why::unsupported,
                   "machine '" + machine.id +
                       "': numbers below 2^-126 may be flushed here, and moments do not foretell "
                       "what that loses; ask for --mode deterministic"};
  }
  const Wording wording =
      order ? Wording{"sums",
                      "half an fp32 spacing (a whole one unless nearest) at each partial sum "
                      "that loses bits, order " +
                          text_of(*order),
                      "|bias| + drift + lambda sqrt(energy) of the partial sums that lose bits"}
            : Wording{"matrix unit", words_of(*unit), "|bias| + lambda sqrt(energy) of the cuts"};
  Finish finish(call, wording, repeated);
  Tolerance t = finish(errors);
  for (std::size_t e = 0; e < t.bound[0].size(); ++e) {
    const double most = std::fabs(call.values[0].values[e]) + t.bound[0].values[e];
    if (!(most <= call.how.output.largest())) {
      return Refusal{Why::may_overflow, "element " + std::to_string(e) +
                                            " or a step to it may leave its format's range"};
    }
  }
  return t;
}

// Of how many products is an element the sum?
std::size_t terms_of(const ToleranceCall& call) {
  return call.attribute("transpose_a") != 0 ? call[0].rows : call[0].cols;
}

// The order of a call's sums, if the card knows it for sums that long.
std::optional<Order> order_of(const Machine& machine, const Operation& operation,
                              const ToleranceCall& call) {
  if (operation.traits.one_product) return machine.product_order(terms_of(call));
  if (operation.terms == nullptr) return machine.order();
  return machine.order_of(operation.id, operation.terms(call));
}

// The sum over ranks as the card says that they add up; its additions are FP32's to nearest.
Outcome<Tolerance> of_ranks(const ToleranceCall& call, const Machine& machine,
                            const Operation& all_reduce) {
  const Collective& how = *machine.collective;
  if (call.inputs.size() != static_cast<std::size_t>(how.ranks)) {
    return Refusal{Why::unsupported, "machine '" + machine.id + "': its collective has " +
                                         std::to_string(how.ranks) + " ranks, not " +
                                         std::to_string(call.inputs.size())};
  }
  Attributes attributes{{"algorithm", static_cast<double>(how.algorithm)}};
  if (how.rotation) attributes["rotation"] = *how.rotation;
  return all_reduce.tolerance({call.inputs,
                               attributes,
                               {1, how.wire, call.how.output},
                               call.mode,
                               call.delta,
                               call.values,
                               call.explained});
}

// Does a tolerance for sums of this kind hold where they are taken in that order?
bool covers(SumOrder sums, const Order& order) {
  switch (sums) {
    case SumOrder::none:
    case SumOrder::any:
      return true;
    case SumOrder::chain:
      return order.kind == Order::Kind::sequential;
    case SumOrder::tree:
      return order.kind == Order::Kind::pairwise;
    case SumOrder::own:
      return false;
  }
  return false;
}

// What to ask an operation for that takes its sums as asked, or whose worst case is of any order. In
// moments an order has to be known: there, without one, its own is assumed.
std::optional<SumsIn> asked_for(const Operation& operation, const std::optional<Order>& order,
                                Mode mode) {
  if (order && operation.sums_as_asked) return SumsIn{SumsIn::Way::ordered, *order};
  if (order || mode == Mode::moments) return {};
  const bool any = operation.sums_as_asked || operation.sums == SumOrder::any;
  return any ? std::optional(SumsIn{SumsIn::Way::any, {}}) : std::nullopt;
}

// Functions and quotients that err otherwise than moments take for granted, where they matter.
std::optional<Refusal> why_no_moments(const Operation& operation, ToleranceCall call,
                                      const Arithmetic& arithmetic) {
  Arithmetic promised;
  promised.fuses = arithmetic.fuses;
  if (call.mode != Mode::moments || arithmetic == promised) return {};
  call.mode = Mode::deterministic;
  const auto as_known = operation.tolerance(call);
  const ArithmeticScope scope(promised);
  const auto as_promised = operation.tolerance(call);
  if (!as_known || !as_promised || as_known->bound == as_promised->bound) return {};
  return Refusal{Why::unsupported,
                 "moments are derived for functions that round once, and for subnormals that are "
                 "kept; the card says otherwise, or nothing"};
}

// For sums as asked, by the formulas that the card knows, with its arithmetic in force.
Outcome<Tolerance> as_known(const Machine& machine, const Operation& operation,
                            const ToleranceCall& call) {
  const Arithmetic arithmetic = machine.arithmetic();
  const ArithmeticScope scope(arithmetic);
  if (const auto refused = why_no_moments(operation, call, arithmetic)) return *refused;
  return tolerance_of_forms(operation, call, forms_on(machine, operation, call.mode));
}

}  // namespace

namespace {

std::string order_of_sums(const Machine& machine, const Operation& operation, Mode mode) {
  const bool described = operation.traits.one_product;
  const std::optional<Order> order = described ? machine.product_order(1)
                                     : operation.terms != nullptr
                                         ? machine.order_of(operation.id, 1)
                                         : machine.order();
  if (described && !order && !machine.rounds_to_nearest()) {
    const Fact* steps = machine.fact("steps");
    const bool any = steps != nullptr && steps->value == "any";
    return any ? "the steps of the matrix unit, in any arrangement"
               : "the steps of the matrix unit, one after the other";
  }
  if (order && (described || operation.sums_as_asked)) {
    const std::string longer = order->up_to == 0 ? "" : " terms, longer ones in any order";
    return "sums in the order of the machine, " + text_of(*order) + longer;
  }
  // Formulas of attention but the promised one are bounded for any order.
  const bool attends = operation.traits.kind == Kind::attention && operation.forms.size() > 0 &&
                       mode == Mode::deterministic &&
                       forms_on(machine, operation, mode).front() != 0;
  if (attends || asked_for(operation, order, mode)) return std::string(name_of(SumOrder::any));
  return std::string(name_of(operation.sums_in(mode)));
}

}  // namespace

std::string assumptions(const Machine& machine, const Operation& operation, Mode mode) {
  std::vector<std::string> all{order_of_sums(machine, operation, mode)};
  if (machine.rounds_to_nearest()) {
    if (all.front() == name_of(SumOrder::none)) all.clear();
    for (const std::string& other :
         {assumed_forms(machine, operation, mode), machine.arithmetic().words()}) {
      if (!other.empty()) all.push_back(other);
    }
  }
  if (machine.draws_results()) all.emplace_back("results rounded stochastically");
  if (all.empty()) return std::string(name_of(SumOrder::none));
  std::string text = all.front();
  for (std::size_t i = 1; i < all.size(); ++i) text += "; " + all[i];
  return text;
}

Outcome<Tolerance> tolerance_on(const Machine& machine, const Operation& operation,
                                const ToleranceCall& call, const Format& input) {
  if (machine.draws_results() && !call.how.by_chance) {
    if (call.mode == Mode::moments) {
      return Refusal{Why::unsupported, "machine '" + machine.id +
                                           "': moments of results that are rounded stochastically "
                                           "are not foretold; take another mode"};
    }
    ToleranceCall drawn = call;
    drawn.how.by_chance = true;
    drawn.how = bounding(drawn.how);
    return tolerance_on(machine, operation, drawn, input);
  }
  if (machine.collective && operation.traits.of_ranks) return of_ranks(call, machine, operation);
  if (!machine.fact("rounding")) {
    return Refusal{Why::unsupported,
                   "machine '" + machine.id +
                       "': its card does not say how sums are rounded, so no bound holds for it; "
                       "measure it with plumb calibrate, or take the machine libraries"};
  }
  const bool product = operation.traits.one_product;
  const std::optional<Order> order = order_of(machine, operation, call);
  const auto refuse = [&](const std::string& why) {
    return Refusal{Why::unsupported, "machine '" + machine.id + "': " + why};
  };
  if (machine.rounds_to_nearest() && !(order && product)) {
    if (const auto sums = asked_for(operation, order, call.mode)) {
      ToleranceCall as_asked = call;
      as_asked.sums = *sums;
      return as_known(machine, operation, as_asked);
    }
    const SumOrder sums = operation.sums_in(call.mode);
    if (!order || covers(sums, *order)) return as_known(machine, operation, call);
    return refuse("its sums are " + text_of(*order) + ", and the bound of " +
                  std::string(operation.id) + " is for " + std::string(name_of(sums)) +
                  "; take the machine ieee if that is the order");
  }
  if (!product) {
    return refuse(order ? "its sums are not rounded to nearest, and only gemm has a bound there, "
                          "not " +
                              std::string(operation.id)
                        : "its card describes the matrix unit, and only gemm has a bound there; "
                          "for " +
                              std::string(operation.id) +
                              ", which runs outside of it, take the machine ieee");
  }
  if (call.how.parts != 1 || call.inputs.size() != 2) {
    return refuse("only a whole product without bias is described");
  }
  const std::optional<Mma> unit = machine.mma(input);
  if (!order && !unit) return refuse("its card has no matrix unit for " + std::string(input.name));
  if (!order && call.mode != Mode::deterministic && !unit->foretold()) {
    return refuse(
        "of its matrix unit only the worst case is derived; ask for --mode deterministic");
  }
  return of_product(call, machine, order, unit);
}

}  // namespace plumb::bounds

#include "bounds/forms.hpp"

#include <algorithm>

#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::bounds {
namespace {

std::vector<std::string> names_of(const Operation& operation) {
  std::vector<std::string> names;
  for (const Form& form : operation.forms) names.emplace_back(form.name);
  return names;
}

// Does the card say that all formulas are the promised ones, unless it names another?
bool as_written(const Machine& machine) {
  const Fact* all = machine.fact("forms");
  if (all == nullptr || all->value == "any") return false;
  if (all->value == "as_written") return true;
  throw Failure("machine card '" + machine.id + "': forms = '" + all->value +
                "'; expected as_written or any");
}

// Which formula the card names; none: any.
std::optional<std::size_t> named_form(const Machine& machine, const Operation& operation) {
  const Fact* known = machine.fact("form_" + std::string(operation.id));
  if (known == nullptr && as_written(machine)) return 0;
  if (known == nullptr || known->value == "any") return {};
  std::size_t at = 0;
  for (const Form& form : operation.forms) {
    if (form.name == known->value) return at;
    ++at;
  }
  throw Failure("machine card '" + machine.id + "': " + known->name + " = '" + known->value +
                "'; " + std::string(operation.id) + " has " + listed(names_of(operation)) +
                ", or any");
}

double largest_of(const Tolerance& t, std::size_t output) {
  return *std::ranges::max_element(t.bound[output].values);
}

// Widens `all` to what `other` needs.
void widen(Tolerance& all, const Tolerance& other, const std::optional<Place>& explained) {
  for (std::size_t o = 0; o < all.bound.size(); ++o) {
    if (all.bound[o].size() == 0) continue;
    const bool asked = explained && explained->output == o;
    const bool more =
        asked ? other.bound[o].values[explained->element] > all.bound[o].values[explained->element]
              : largest_of(other, o) > largest_of(all, o);
    if (more) all.terms[o] = other.terms[o];
    for (std::size_t e = 0; e < all.bound[o].size(); ++e) {
      all.bound[o].values[e] = std::max(all.bound[o].values[e], other.bound[o].values[e]);
    }
  }
}

// One of the formulas has no bound; which, and what helps.
Refusal by_form(const Operation& operation, std::size_t form, const Refusal& refused) {
  const std::string id(operation.id), name((operation.forms.begin() + form)->name);
  return {refused.why, "by the formula " + name + ": " + refused.detail +
                           "; if your kernel takes another, name it in a card (form_" + id + ")"};
}

// By one of the formulas. Where its worst case alone is derived, that is what is known by chance, too.
Outcome<Tolerance> tolerance_of_form(const Operation& operation, ToleranceCall call,
                                     std::size_t form) {
  call.form = form;
  const bool worst_only =
      operation.forms.size() > 0 && (operation.forms.begin() + form)->worst_only;
  if (!worst_only || call.mode == Mode::deterministic) return operation.tolerance(call);
  if (call.mode == Mode::moments) {
    return Refusal{Why::unsupported, "of this formula only the worst case is derived"};
  }
  call.mode = Mode::deterministic;
  const Outcome<Tolerance> worst = operation.tolerance(call);
  if (!worst) return worst;
  Tolerance by_chance = *worst;
  by_chance.mode = Mode::probabilistic;
  return by_chance;
}

}  // namespace

std::vector<std::size_t> forms_on(const Machine& machine, const Operation& operation, Mode mode) {
  if (operation.forms.size() == 0) return {0};
  if (const auto named = named_form(machine, operation)) return {*named};
  if (mode == Mode::moments) return {0};
  std::vector<std::size_t> forms;
  for (std::size_t f = 0; f < operation.forms.size(); ++f) {
    if (!(operation.forms.begin() + f)->covered) forms.push_back(f);
  }
  return forms;
}

std::string assumed_forms(const Machine& machine, const Operation& operation, Mode mode) {
  if (operation.forms.size() == 0) return "";
  const bool any = !named_form(machine, operation) && mode != Mode::moments;
  if (any) return "any of the formulas " + listed(names_of(operation));
  const std::size_t form = forms_on(machine, operation, mode).front();
  return "the formula " + std::string((operation.forms.begin() + form)->name);
}

Outcome<Tolerance> tolerance_of_forms(const Operation& operation, const ToleranceCall& call,
                                      const std::vector<std::size_t>& forms) {
  const Outcome<Tolerance> first = tolerance_of_form(operation, call, forms.front());
  if (forms.size() == 1) return first;
  if (!first) return by_form(operation, forms.front(), first.error());
  Tolerance all = *first;
  for (std::size_t i = 1; i < forms.size(); ++i) {
    const Outcome<Tolerance> other = tolerance_of_form(operation, call, forms[i]);
    if (!other) return by_form(operation, forms[i], other.error());
    widen(all, *other, call.explained);
  }
  return all;
}

}  // namespace plumb::bounds

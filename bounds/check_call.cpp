#include "bounds/check_call.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace plumb::bounds {
namespace {

Refusal refuse(const Operation& operation, const std::string& why) {
  return {Why::unsupported, std::string(operation.id) + ": " + why};
}

std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

std::string text_of(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", x);
  return text;
}

// What an attribute has to be, where `x` is not; else empty.
std::string wanted(const Attribute& a, double x) {
  using Kind = Attribute::Kind;
  if (!std::isfinite(x)) return "a finite number";
  if (a.kind == Kind::real) {
    const bool fits = a.least == a.most || (a.least <= x && x <= a.most);
    return fits ? "" : "a number from " + text_of(a.least) + " to " + text_of(a.most);
  }
  if (a.kind == Kind::flag && x != 0 && x != 1) return "0 or 1";
  const bool fits = x == std::floor(x) && a.least <= x && x <= a.most;
  return fits ? "" : "a whole number from " + text_of(a.least) + " to " + text_of(a.most);
}

// The sizes of a call, by symbol; those of attributes are known from the beginning.
class Sizes {
 public:
  explicit Sizes(const Schema& schema, const Attributes& attributes) {
    for (const Attribute& a : schema.attributes) {
      const bool whole = a.kind == Attribute::Kind::count || a.kind == Attribute::Kind::flag;
      if (whole) known_[std::string(a.name)] = attributes.at(std::string(a.name));
    }
  }

  void set(std::string_view symbol, double size) { known_[std::string(symbol)] = size; }

  // Does the expression hold a product of two symbols that are not known yet?
  bool open(std::string_view expression) const {
    return expression != "*" && read(expression).open;
  }

  // Is `size` what the expression says? A symbol that stands there first becomes what it has to.
  bool fit(std::string_view expression, std::size_t size) {
    if (expression == "*") return true;
    const Linear sum = read(expression);
    const auto rest = static_cast<double>(size) - sum.constant;
    if (sum.symbol.empty()) return rest == 0;
    const double symbol = rest / sum.factor;
    if (!(symbol >= 0) || symbol != std::floor(symbol)) return false;
    known_[std::string(sum.symbol)] = symbol;
    return true;
  }

  std::optional<std::size_t> of(std::string_view expression) const {
    if (expression == "*") return {};
    const Linear sum = read(expression);
    if (sum.open || !sum.symbol.empty() || !(sum.constant >= 0)) return {};
    return static_cast<std::size_t>(sum.constant);
  }

 private:
  struct Linear {  // constant + factor symbol
    double constant = 0, factor = 0;
    std::string_view symbol = "";
    bool open = false;
  };

  Linear read(std::string_view expression) const {
    Linear sum;
    double sign = 1, product = 1;
    std::string_view unknown;
    const auto end_product = [&] {
      if (unknown.empty()) {
        sum.constant += sign * product;
      } else {
        sum.symbol = unknown;
        sum.factor += sign * product;
      }
      product = 1;
      unknown = "";
    };
    while (!expression.empty()) {
      const std::size_t length = std::min(expression.find(' '), expression.size());
      const std::string_view word = expression.substr(0, length);
      expression.remove_prefix(std::min(length + 1, expression.size()));
      double number = 0;
      if (word == "+" || word == "-") {
        end_product();
        sign = word == "+" ? 1 : -1;
      } else if (std::from_chars(word.data(), word.data() + word.size(), number).ec ==
                 std::errc()) {
        product *= number;
      } else if (const auto found = known_.find(word); found != known_.end()) {
        product *= found->second;
      } else {
        sum.open = sum.open || !unknown.empty();
        unknown = word;
      }
    }
    end_product();
    return sum;
  }

  std::map<std::string, double, std::less<>> known_;
};

std::string said(std::string_view expression, const Sizes& sizes) {
  const auto size = sizes.of(expression);
  return std::string(expression) + (size ? " = " + std::to_string(*size) : "");
}

// How often an operand stands in a call, where `left` inputs are left.
std::size_t times(const Operand& x, const Attributes& attributes, std::size_t left) {
  const auto by = [&] { return attributes.at(std::string(x.by)); };
  switch (x.presence) {
    case Presence::once:
      return 1;
    case Presence::optional:
      return left > 0 ? 1 : 0;
    case Presence::repeated:
      return left;
    case Presence::counted:
      return x.may_be_absent && left == 0 ? 0 : static_cast<std::size_t>(by());
    case Presence::given:
      return (x.least == 0 ? by() != 0 : by() >= x.least) ? 1 : 0;
  }
  return 0;
}

std::string names_of(const Schema& schema) {
  std::string names;
  for (const Operand& x : schema.inputs) {
    const bool optional = x.presence == Presence::optional || x.presence == Presence::given;
    const bool many = x.presence == Presence::repeated || x.presence == Presence::counted;
    names += names.empty() ? "" : ", ";
    names += (optional || x.may_be_absent ? "[" : "") + std::string(x.name) + (many ? " ..." : "") +
             (optional || x.may_be_absent ? "]" : "");
  }
  return names;
}

// Returns what is wrong with the shapes; sizes whose symbols stand in later inputs wait for these.
std::string fit_all(std::span<const Shape> inputs, const std::vector<const Operand*>& operands,
                    const Attributes& all, Sizes& sizes) {
  for (const bool waited : {false, true}) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto [rows, cols] = sizes_in(*operands[i], all);
      if (inputs[i].rows == 0 || inputs[i].cols == 0) {
        return "input " + quoted(operands[i]->name) + " has no numbers";
      }
      const bool open = sizes.open(rows) || sizes.open(cols);
      if (open && !waited) continue;
      if (sizes.fit(rows, inputs[i].rows) && sizes.fit(cols, inputs[i].cols)) continue;
      return "input " + quoted(operands[i]->name) + " is " + std::to_string(inputs[i].rows) +
             " x " + std::to_string(inputs[i].cols) + ", and must be (" + said(rows, sizes) + ", " +
             said(cols, sizes) + ")";
    }
  }
  return "";
}

// Why the terms cannot be dealt to ranks; empty: they can, or they are not.
std::string deal_refused(const Schema& schema, const Sizes& sizes, const Evaluation& how) {
  if (how.tokens.ranks == 1) return "";
  if (schema.dealt.empty()) return "it has no terms that could be dealt to ranks";
  const auto n = sizes.of(schema.dealt);
  const auto sequence = static_cast<std::size_t>(std::max(how.tokens.sequence, 1));
  if (n && *n % sequence != 0) {
    return std::to_string(*n) + " terms are no whole sequences of " + std::to_string(sequence);
  }
  return "";
}

}  // namespace

SizeNames sizes_in(const Operand& x, const Attributes& all) {
  if (x.where.empty() || all.at(std::string(x.where)) == 0) return {x.rows, x.cols};
  return {x.other_rows, x.other_cols};
}

Outcome<Attributes> check_attributes(const Operation& operation, const Attributes& attributes) {
  Attributes all = attributes;
  for (const Attribute& a : operation.schema.attributes) {
    const auto found = attributes.find(a.name);
    if (found == attributes.end() && a.required) {
      return refuse(operation, "the attribute " + quoted(a.name) + " is missing");
    }
    if (found == attributes.end()) {
      all[std::string(a.name)] = a.otherwise;
    } else if (const std::string must = wanted(a, found->second); !must.empty()) {
      return refuse(operation, "the attribute " + quoted(a.name) + " is " + text_of(found->second) +
                                   ", and must be " + must);
    }
  }
  if (all.size() == operation.schema.attributes.size()) return all;
  for (const auto& [name, value] : attributes) {
    const auto is = [&name = name](const Attribute& a) { return a.name == name; };
    if (std::ranges::none_of(operation.schema.attributes, is)) {
      return refuse(operation, "it has no attribute " + quoted(name));
    }
  }
  return all;
}

// The operand that each input stands for. `all`: attributes, with those that were left out.
static Outcome<std::vector<const Operand*>> operands_of(const Operation& operation,
                                                        std::size_t inputs, const Attributes& all) {
  const auto wrong = [&] {
    return refuse(operation, "it has " + std::to_string(inputs) + " input" +
                                 (inputs == 1 ? "" : "s") + ", and takes " +
                                 names_of(operation.schema));
  };
  std::vector<const Operand*> operands;
  std::vector<const Operand*> group;  // that is repeated
  for (const Operand& x : operation.schema.inputs) {
    if (x.presence == Presence::repeated) {
      group.push_back(&x);
      continue;
    }
    const std::size_t n = times(x, all, inputs - operands.size());
    if (n > inputs - operands.size()) return wrong();
    operands.insert(operands.end(), n, &x);
  }
  const std::size_t left = inputs - operands.size();
  if (group.empty() ? left > 0 : left == 0 || left % group.size() != 0) return wrong();
  for (std::size_t i = 0; i < left; ++i) operands.push_back(group[i % group.size()]);
  return operands;
}

Outcome<std::vector<const Operand*>> check_inputs(const Operation& operation, std::size_t inputs,
                                                  const Attributes& attributes) {
  const auto all = check_attributes(operation, attributes);
  if (!all) return all.error();
  return operands_of(operation, inputs, *all);
}

namespace {

struct Form {
  Attributes all;  // with those that were left out
  std::vector<const Operand*> operands;
  std::size_t outputs = 0;
};

Outcome<Form> form_of(const Operation& operation, std::size_t inputs,
                      const Attributes& attributes) {
  const auto all = check_attributes(operation, attributes);
  if (!all) return all.error();
  const auto operands = operands_of(operation, inputs, *all);
  if (!operands) return operands.error();
  const auto repeats = std::ranges::count_if(
      *operands, [](const Operand* x) { return x->presence == Presence::repeated; });
  std::size_t outputs = 0;
  for (const Operand& y : operation.schema.outputs) {
    outputs += times(y, *all, static_cast<std::size_t>(repeats));
  }
  return Form{*all, *operands, outputs};
}

}  // namespace

Outcome<std::size_t> check_form(const Operation& operation, std::size_t inputs,
                                const Attributes& attributes) {
  const auto form = form_of(operation, inputs, attributes);
  if (!form) return form.error();
  return form->outputs;
}

Outcome<std::vector<OutputForm>> check_call(const Operation& operation,
                                            std::span<const Shape> inputs,
                                            const Attributes& attributes, const Evaluation& how) {
  const auto known = form_of(operation, inputs.size(), attributes);
  if (!known) return known.error();
  const auto& [all, operands, count] = *known;
  const Schema& schema = operation.schema;
  Sizes sizes(schema, all);
  for (const Operand& x : schema.inputs) {
    if (!x.absent_size.empty() && std::ranges::find(operands, &x) == operands.end()) {
      sizes.set(x.absent_size, 0);
    }
  }
  if (const std::string why = fit_all(inputs, operands, all, sizes); !why.empty()) {
    return refuse(operation, why);
  }
  if (const std::string why = deal_refused(schema, sizes, how); !why.empty()) {
    return refuse(operation, why);
  }
  std::vector<OutputForm> outputs;
  const std::size_t repeats = count + 1 - schema.outputs.size();
  for (const Operand& y : schema.outputs) {
    const auto [rows, cols] = sizes_in(y, all);
    const OutputForm form{y.name, sizes.of(rows), sizes.of(cols)};
    outputs.insert(outputs.end(), times(y, all, repeats), form);
  }
  return outputs;
}

}  // namespace plumb::bounds

#include "trace/judge/operands.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "number/words.hpp"
#include "trace/judge/finder.hpp"

namespace plumb::trace {
namespace {

// Those of a name that repeats: x_1, x_2 ...
std::string numbered(const Operand& x, std::size_t n) {
  return std::string(x.name) + "_" + std::to_string(n);
}

// Tensors of operands that repeat: neighbours alternate, as o_1, l_1, o_2, l_2.
void add_repeated(Finder& finder, const std::vector<const Operand*>& group,
                  std::vector<GivenOperand>& found) {
  if (group.empty()) return;
  for (std::size_t n = 1;; ++n) {
    for (const Operand* x : group) {
      auto one = finder.named(numbered(*x, n), *x);
      if (!one && n == 1) one = finder.named(std::string(x->name), *x);
      if (!one) one = finder.next(numbered(*x, n), *x);
      if (!one && (x != group.front() || n == 1)) finder.refuse_missing(numbered(*x, n));
      if (!one) return;
      found.push_back(*one);
    }
  }
}

void add_counted(Finder& finder, const Operand& x, std::size_t count,
                 std::vector<GivenOperand>& found) {
  for (std::size_t n = 1; n <= count; ++n) {
    auto one = finder.named(numbered(x, n), x);
    if (!one && count == 1) one = finder.named(std::string(x.name), x);
    if (!one) one = finder.next(numbered(x, n), x);
    if (!one && x.may_be_absent && n == 1) return;
    if (!one) finder.refuse_missing(numbered(x, n));
    found.push_back(*one);
  }
}

}  // namespace

std::string GivenOperand::text() const { return fmt::format("'{}' ({})", name, tensor->where()); }

Attributes attributes_of(const Operation& operation, const Attributes& given, const Words& words) {
  Attributes all = given;
  std::vector<std::string> missing;
  for (const Attribute& a : operation.schema.attributes) {
    if (!a.required || given.contains(a.name)) continue;
    if (a.kind == Attribute::Kind::flag) {
      all[std::string(a.name)] = 0;
    } else {
      missing.emplace_back(a.name);
    }
  }
  if (!missing.empty()) {
    throw Failure(fmt::format("{} needs {} {}; say {}: {}{}=...", operation.id,
                              missing.size() == 1 ? "the attribute" : "the attributes",
                              listed(missing), missing.size() == 1 ? "it" : "each",
                              words.one_attribute,
                              fmt::join(missing, fmt::format("=... {}", words.one_attribute))));
  }
  const auto checked = check_attributes(operation, all);
  if (!checked) {
    throw Failure(fmt::format("{}; mend {}", checked.error().detail, words.attributes));
  }
  return all;
}

std::vector<GivenOperand> inputs_in(const Operation& operation, const std::vector<Source>& sources,
                                    const TensorNames& names, const Attributes& attributes,
                                    const Words& words) {
  Finder finder(operation, operation.schema.inputs, sources, names, attributes, words);
  std::vector<GivenOperand> found;
  std::vector<const Operand*> group;
  for (const Operand& x : operation.schema.inputs) {
    if (x.presence == Presence::repeated) {
      group.push_back(&x);
    } else if (x.presence == Presence::counted) {
      add_counted(finder, x, static_cast<std::size_t>(attributes.at(std::string(x.by))), found);
    } else {
      const std::string name(x.name);
      const auto one = finder.find(name, x);
      if (!one && x.presence == Presence::once) finder.refuse_missing(name);
      if (one) found.push_back(*one);
    }
  }
  add_repeated(finder, group, found);
  finder.refuse_unused();
  return found;
}

std::map<std::size_t, GivenOperand> outputs_in(const Operation& operation, std::size_t inputs,
                                               const std::vector<Source>& sources,
                                               const TensorNames& names,
                                               const Attributes& attributes, const Words& words) {
  Finder finder(operation, operation.schema.outputs, sources, names, attributes, words);
  const auto count = check_form(operation, inputs, attributes);
  if (!count) {
    throw Failure(fmt::format("{}; mend {}", count.error().detail, words.inputs));
  }
  const std::size_t repeats = *count + 1 - operation.schema.outputs.size();
  std::map<std::size_t, GivenOperand> found;
  std::size_t o = 0;
  for (const Operand& y : operation.schema.outputs) {
    const bool several = y.presence == Presence::repeated || y.presence == Presence::counted;
    for (std::size_t n = 1; n <= (several ? repeats : 1) && o < *count; ++n, ++o) {
      const auto one = finder.find(several ? numbered(y, n) : std::string(y.name), y);
      if (one) found.emplace(o, *one);
    }
  }
  if (found.empty()) finder.refuse_missing(std::string(operation.schema.outputs.begin()->name));
  finder.refuse_unused();
  return found;
}

}  // namespace plumb::trace

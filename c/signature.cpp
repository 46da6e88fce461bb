#include "c/signature.hpp"

#include <fmt/format.h>

#include <vector>

#include "number/words.hpp"

namespace plumb::c {
namespace {

std::string text_of(const Operand& x) {
  std::string sizes = fmt::format("({}, {})", x.rows, x.cols);
  if (!x.where.empty()) {
    sizes += fmt::format(" or, with {}, ({}, {})", x.where, x.other_rows, x.other_cols);
  }
  switch (x.presence) {
    case Presence::once:
      return fmt::format("{} {}", x.name, sizes);
    case Presence::optional:
      return fmt::format("[{} {}]", x.name, sizes);
    case Presence::repeated:
      return fmt::format("{0}_1, {0}_2 ... {1}", x.name, sizes);
    case Presence::counted:
      return fmt::format("{3}{0}_1, {0}_2 ... {1} by {2}{4}", x.name, sizes, x.by,
                         x.may_be_absent ? "[" : "", x.may_be_absent ? "]" : "");
    case Presence::given:
      return x.least == 0 ? fmt::format("[{} {} with {}]", x.name, sizes, x.by)
                          : fmt::format("[{} {} with {} >= {}]", x.name, sizes, x.by, x.least);
  }
  return "";
}

std::string text_of(const Attribute& a) {
  if (!a.required) return fmt::format("[{}]", a.name);
  return fmt::format("{}{}", a.name, a.kind == Attribute::Kind::flag ? " = 0" : "");
}

template <class T>
std::string all_of(const List<T>& items) {
  std::vector<std::string> texts;
  for (const T& item : items) texts.push_back(text_of(item));
  return listed(texts);
}

}  // namespace

std::string signature_of(const Operation& operation) {
  const Schema& schema = operation.schema;
  std::string text =
      fmt::format("{}: {} -> {}", operation.id, all_of(schema.inputs), all_of(schema.outputs));
  if (schema.attributes.size() > 0) text += "; " + all_of(schema.attributes);
  return text;
}

}  // namespace plumb::c

#include "bounds/row_wise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bounds/check_call.hpp"

namespace plumb::bounds {
namespace {

// Is it a factor of the size?
bool mentions(std::string_view size, std::string_view symbol) {
  return fmt::format(" {} ", size).find(fmt::format(" {} ", symbol)) != std::string::npos;
}

// The symbol of the outputs' rows, which says nothing else; empty: there is none.
std::string_view symbol_of_rows(const Operation& operation, const Attributes& all) {
  const std::string_view symbol = sizes_in(*operation.schema.outputs.begin(), all).rows;
  const bool letter = !symbol.empty() && ((symbol[0] >= 'A' && symbol[0] <= 'Z') ||
                                          (symbol[0] >= 'a' && symbol[0] <= 'z'));
  if (!letter || symbol.find(' ') != symbol.npos || all.contains(symbol)) return "";
  for (const Operand& y : operation.schema.outputs) {
    const auto [rows, cols] = sizes_in(y, all);
    if (rows != symbol || cols == "*" || mentions(cols, symbol)) return "";
  }
  return symbol;
}

std::optional<Cut> cut_of(const Operand& x, std::string_view symbol, const Attributes& all) {
  const auto [rows, cols] = sizes_in(x, all);
  const bool transposed = rows == x.other_rows && cols == x.other_cols && !x.where.empty();
  if (rows == "*" || cols == "*") return {};
  if (rows == symbol) {
    if (cols == "1" || mentions(cols, symbol)) return {};
    return Cut::rows;
  }
  if (mentions(rows, symbol)) return {};
  if (cols == symbol && transposed) return Cut::columns;
  if (mentions(cols, symbol)) return {};
  return Cut::none;
}

}  // namespace

std::optional<std::vector<Cut>> row_wise(const Operation& operation, std::size_t inputs,
                                         const Attributes& attributes) {
  const auto operands = check_inputs(operation, inputs, attributes);
  if (!operands) throw std::invalid_argument(operands.error().detail);
  const Attributes all = *check_attributes(operation, attributes);
  const Traits& traits = operation.traits;
  if (traits.of_ranks || traits.shaped_by_parts || traits.keeps_history || traits.exact) return {};
  for (const Attribute& a : operation.schema.attributes) {
    if (a.kind == Attribute::Kind::key && attributes.contains(a.name)) return {};
  }
  const std::string_view symbol = symbol_of_rows(operation, all);
  if (symbol.empty()) return {};
  std::vector<Cut> cuts;
  for (const Operand* x : *operands) {
    const auto cut = cut_of(*x, symbol, all);
    if (!cut) return {};
    cuts.push_back(*cut);
  }
  const bool any = std::ranges::any_of(cuts, [](Cut cut) { return cut != Cut::none; });
  return any ? std::optional(cuts) : std::nullopt;
}

}  // namespace plumb::bounds

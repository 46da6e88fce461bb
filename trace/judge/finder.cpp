#include "trace/judge/finder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "number/words.hpp"

namespace plumb::trace {
namespace {

Shape folded(const std::vector<std::size_t>& shape, std::string_view cols) {
  std::size_t rows = 1, last = shape.empty() ? 1 : shape.back();
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  return cols == "1" ? Shape{rows * last, 1} : Shape{rows, last};
}

bool several(const Operand& x) {
  return x.presence == Presence::repeated || x.presence == Presence::counted;
}

}  // namespace

Finder::Finder(const Operation& operation, const List<Operand>& operands,
               const std::vector<Source>& sources, const TensorNames& names,
               const Attributes& attributes, const Words& words)
    : operation_(operation),
      operands_(operands),
      names_(names),
      words_(words),
      all_(*check_attributes(operation, attributes)) {
  for (const Source& source : sources) {
    if (!source.name.empty() && !asked_for(source.name)) {
      throw Failure(fmt::format("{} has no '{}'; it has {}", operation.id, source.name, known()));
    }
    if (source.tensor) {
      const std::string where = source.tensor->where();
      sources_.push_back(
          {where, source.name.empty() ? where : source.name, {{"", source.tensor}}, source.name});
    } else {
      sources_.push_back({source.file.string(), source.file.filename().string(),
                          tensors_in(source.file), source.name});
    }
  }
}

bool Finder::asked_for(const std::string& name) const {
  return std::ranges::any_of(operands_, [&](const Operand& x) {
    const std::string stem = std::string(x.name) + "_";
    return name == x.name || (several(x) && name.starts_with(stem) && name.size() > stem.size());
  });
}

std::optional<GivenOperand> Finder::named(const std::string& name, const Operand& operand) {
  const auto mapped = names_.find(name);
  const std::string wanted = mapped == names_.end() ? name : mapped->second;
  std::optional<GivenOperand> found;
  for (Open& open : sources_) {
    const GivenTensors& tensors = open.tensors;
    if (!open.label.empty() ? open.label != name : !tensors.contains(wanted)) continue;
    if (found) {
      throw Failure(fmt::format("'{}' is in {} and in {}; name one of them", wanted,
                                found->tensor->where(), open.where));
    }
    const auto tensor = tensors.find(wanted);
    found =
        operand_of(name, operand, open, tensor == tensors.end() ? only_one(open) : tensor->second);
  }
  if (!found && mapped != names_.end()) {
    throw Failure(fmt::format("{} a tensor '{}' for '{}'; there are {}", words_.nowhere, wanted,
                              name, tensors_there()));
  }
  return found;
}

std::optional<GivenOperand> Finder::next(const std::string& name, const Operand& operand) {
  for (Open& open : sources_) {
    if (!open.used && nameless(open)) return operand_of(name, operand, open, only_one(open));
  }
  return {};
}

std::optional<GivenOperand> Finder::find(const std::string& name, const Operand& operand) {
  auto one = named(name, operand);
  return one ? one : next(name, operand);
}

void Finder::refuse_unused() const {
  for (const Open& open : sources_) {
    if (open.used) continue;
    throw Failure(fmt::format(
        "nothing asks for a tensor of {}: {} has {}, {} {}; leave it out, or {}", open.where,
        operation_.id, known(), words_.all_of_them, tensors_there(), words_.any_name));
  }
}

void Finder::refuse_missing(const std::string& name) const {
  throw Failure(fmt::format("{} '{}' of {}; there are {}; {}", words_.nowhere, name, operation_.id,
                            tensors_there(), fmt::format(fmt::runtime(words_.name_it), name)));
}

std::string Finder::known() const {
  std::vector<std::string> names;
  for (const Operand& x : operands_) {
    const std::string name(x.name);
    names.push_back(several(x) ? name + "_1, " + name + "_2 ..." : name);
  }
  return listed(names);
}

std::string Finder::tensors_there() const {
  std::vector<std::string> names;
  for (const Open& open : sources_) {
    for (const auto& [name, tensor] : open.tensors) {
      names.push_back("'" + (name.empty() ? open.nameless : name) + "'");
    }
  }
  if (names.size() > 12) {
    names.resize(12);
    names.emplace_back("...");
  }
  return names.empty() ? "no tensors" : listed(names);
}

const std::shared_ptr<GivenTensor>& Finder::only_one(const Open& open) const {
  const GivenTensors& tensors = open.tensors;
  if (tensors.size() == 1) return tensors.begin()->second;
  throw Failure(fmt::format("{} has {}, none of them '{}'; say which it is: --name {}=TENSOR",
                            open.where, how_many(tensors.size(), "tensor"), open.label,
                            open.label));
}

bool Finder::nameless(const Open& open) const {
  const GivenTensors& tensors = open.tensors;
  if (!open.label.empty() || tensors.size() != 1) return false;
  const std::string& name = tensors.begin()->first;
  const bool mapped = std::ranges::any_of(
      names_, [&](const auto& pair) { return pair.second == name && asked_for(pair.first); });
  return !mapped && !(asked_for(name) && !names_.contains(name));
}

GivenOperand Finder::operand_of(const std::string& name, const Operand& operand, Open& open,
                                const std::shared_ptr<GivenTensor>& tensor) const {
  open.used = true;
  if (const std::string why = tensor->unreadable(); !why.empty()) {
    throw Failure(fmt::format("'{}' of {} {}", name, open.where, why));
  }
  return {name, tensor, folded(tensor->shape(), sizes_in(operand, all_).cols)};
}

}  // namespace plumb::trace

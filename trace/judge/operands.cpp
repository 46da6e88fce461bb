#include "trace/judge/operands.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "number/words.hpp"

namespace plumb::trace {
namespace {

struct Open {
  std::shared_ptr<TensorFile> file;
  std::string label;  // the operand that it was given as
  bool used = false;
};

Shape folded(const std::vector<std::size_t>& shape, std::string_view cols) {
  std::size_t rows = 1;
  for (const std::size_t d : shape) rows *= d;
  if (shape.empty()) return {1, 1};
  if (cols == "1" && shape.back() != 1) return {rows, 1};
  if (shape.size() == 1) return cols == "1" ? Shape{rows, 1} : Shape{1, rows};
  rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  return {rows, shape.back()};
}

class Finder {
 public:
  Finder(const Operation& operation, const List<Operand>& operands,
         const std::vector<Source>& sources, const TensorNames& names, const Attributes& attributes)
      : operation_(operation),
        operands_(operands),
        names_(names),
        all_(*check_attributes(operation, attributes)) {
    for (const Source& source : sources) {
      files_.push_back({std::make_shared<TensorFile>(source.file), source.name});
      if (!source.name.empty() && !asked_for(source.name)) {
        throw Failure(
            fmt::format("{} has no operand '{}'; it has {}", operation.id, source.name, known()));
      }
    }
  }

  bool asked_for(const std::string& name) const {
    return std::ranges::any_of(operands_, [&](const Operand& x) {
      if (name == x.name) return true;
      const std::string stem = std::string(x.name) + "_";
      return several(x) && name.starts_with(stem) && name.size() > stem.size();
    });
  }

  // The tensor of that name, or nothing.
  std::optional<OperandInFile> named(const std::string& name, const Operand& operand) {
    const auto mapped = names_.find(name);
    const std::string wanted = mapped == names_.end() ? name : mapped->second;
    std::optional<OperandInFile> found;
    for (Open& open : files_) {
      const auto& tensors = open.file->tensors();
      if (!open.label.empty() ? open.label != name : !tensors.contains(wanted)) continue;
      if (found) {
        throw Failure(fmt::format("'{}' is in {} and in {}; name one of them", wanted,
                                  found->file->path().string(), open.file->path().string()));
      }
      const StoredTensor* tensor =
          open.label.empty() || tensors.contains(wanted) ? &tensors.at(wanted) : only_one(open);
      found = operand_of(name, operand, open, tensor);
    }
    if (!found && mapped != names_.end()) {
      throw Failure(fmt::format("no file has a tensor '{}' for '{}'; there are {}", wanted, name,
                                tensors_there()));
    }
    return found;
  }

  // The next file that has one tensor, which no name asks for.
  std::optional<OperandInFile> next(const std::string& name, const Operand& operand) {
    for (Open& open : files_) {
      if (!open.used && nameless(open)) return operand_of(name, operand, open, only_one(open));
    }
    return {};
  }

  void refuse_unused() const {
    for (const Open& open : files_) {
      if (open.used) continue;
      throw Failure(
          fmt::format("nothing asks for a tensor of {}: {} has {}, the files {}; leave it "
                      "out, or say which it is with --name",
                      open.file->path().string(), operation_.id, known(), tensors_there()));
    }
  }

  [[noreturn]] void refuse_missing(const std::string& name) const {
    throw Failure(
        fmt::format("no file has '{}' of {}; there are {}; say which it is: --name {}=TENSOR", name,
                    operation_.id, tensors_there(), name));
  }

 private:
  static bool several(const Operand& x) {
    return x.presence == Presence::repeated || x.presence == Presence::counted;
  }

  std::string known() const {
    std::vector<std::string> names;
    for (const Operand& x : operands_) {
      names.push_back(std::string(x.name) +
                      (several(x) ? "_1, " + std::string(x.name) + "_2 ..." : ""));
    }
    return listed(names);
  }

  std::string tensors_there() const {
    std::vector<std::string> names;
    for (const Open& open : files_) {
      for (const auto& [name, tensor] : open.file->tensors()) {
        names.push_back("'" + (name.empty() ? open.file->path().filename().string() : name) + "'");
      }
    }
    if (names.size() > 12) names.resize(12), names.emplace_back("...");
    return names.empty() ? "no tensors" : listed(names);
  }

  const StoredTensor* only_one(const Open& open) const {
    const auto& tensors = open.file->tensors();
    if (tensors.size() == 1) return &tensors.begin()->second;
    throw Failure(fmt::format("{} has {}, none of them '{}'; say which it is: --name {}=TENSOR",
                              open.file->path().string(), how_many(tensors.size(), "tensor"),
                              open.label, open.label));
  }

  bool nameless(const Open& open) const {
    const auto& tensors = open.file->tensors();
    if (!open.label.empty() || tensors.size() != 1) return false;
    const std::string& name = tensors.begin()->first;
    const bool mapped = std::ranges::any_of(
        names_, [&](const auto& pair) { return pair.second == name && asked_for(pair.first); });
    return !mapped && !(asked_for(name) && !names_.contains(name));
  }

  OperandInFile operand_of(const std::string& name, const Operand& operand, Open& open,
                           const StoredTensor* tensor) const {
    open.used = true;
    if (!tensor->unreadable.empty()) {
      throw Failure(
          fmt::format("'{}' of {} {}", name, open.file->path().string(), tensor->unreadable));
    }
    return {name, open.file, tensor, folded(tensor->shape, sizes_in(operand, all_).cols)};
  }

  const Operation& operation_;
  const List<Operand>& operands_;
  const TensorNames& names_;
  Attributes all_;
  std::vector<Open> files_;
};

// Those of a name that repeats: x_1, x_2 ...
std::string numbered(const Operand& x, std::size_t n) {
  return std::string(x.name) + "_" + std::to_string(n);
}

// Tensors of operands that repeat: neighbours alternate, as o_1, l_1, o_2, l_2.
void add_repeated(Finder& finder, const std::vector<const Operand*>& group,
                  std::vector<OperandInFile>& found) {
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
                 std::vector<OperandInFile>& found) {
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

std::string OperandInFile::text() const {
  return fmt::format("'{}' ({})", name, file->path().string());
}

std::string OperandInFile::place(std::size_t element) const {
  std::vector<std::size_t> index(tensor->shape.size());
  for (std::size_t d = index.size(); d-- > 0;) {
    index[d] = element % tensor->shape[d];
    element /= tensor->shape[d];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

Attributes attributes_of(const Operation& operation, const Attributes& given) {
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
    throw Failure(fmt::format("{} needs {} {}; say {}: --set {}=...", operation.id,
                              missing.size() == 1 ? "the attribute" : "the attributes",
                              listed(missing), missing.size() == 1 ? "it" : "each",
                              fmt::join(missing, "=... --set ")));
  }
  const auto checked = check_attributes(operation, all);
  if (!checked) throw Failure(checked.error().detail + "; mend --set");
  return all;
}

std::vector<OperandInFile> inputs_in(const Operation& operation, const std::vector<Source>& files,
                                     const TensorNames& names, const Attributes& attributes) {
  Finder finder(operation, operation.schema.inputs, files, names, attributes);
  std::vector<OperandInFile> found;
  std::vector<const Operand*> group;
  for (const Operand& x : operation.schema.inputs) {
    if (x.presence == Presence::repeated) {
      group.push_back(&x);
    } else if (x.presence == Presence::counted) {
      add_counted(finder, x, static_cast<std::size_t>(attributes.at(std::string(x.by))), found);
    } else {
      const std::string name(x.name);
      auto one = finder.named(name, x);
      if (!one) one = finder.next(name, x);
      if (!one && x.presence == Presence::once) finder.refuse_missing(name);
      if (one) found.push_back(*one);
    }
  }
  add_repeated(finder, group, found);
  finder.refuse_unused();
  return found;
}

std::map<std::size_t, OperandInFile> outputs_in(const Operation& operation, std::size_t inputs,
                                                const std::vector<Source>& files,
                                                const TensorNames& names,
                                                const Attributes& attributes) {
  Finder finder(operation, operation.schema.outputs, files, names, attributes);
  const auto count = check_form(operation, inputs, attributes);
  if (!count) throw Failure(count.error().detail + "; mend --inputs");
  const bool one_each = *count == operation.schema.outputs.size();
  std::map<std::size_t, OperandInFile> found;
  for (std::size_t o = 0; o < *count; ++o) {
    const Operand& y =
        one_each ? *(operation.schema.outputs.begin() + o) : *operation.schema.outputs.begin();
    const std::string name = one_each ? std::string(y.name) : numbered(y, o + 1);
    auto one = finder.named(name, y);
    if (!one) one = finder.next(name, y);
    if (one) found.emplace(o, *one);
  }
  if (found.empty()) finder.refuse_missing(std::string(operation.schema.outputs.begin()->name));
  finder.refuse_unused();
  return found;
}

}  // namespace plumb::trace

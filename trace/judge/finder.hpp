// trace/judge/finder.hpp: the tensors of some sources, asked for by the names of an operation's inputs
// or outputs (operands.hpp says by which rules).
//
// TESTED   tests/trace/judge_test.cpp
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trace/judge/operands.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

class Finder {
 public:
  // Of `operands`, the inputs or the outputs. Throws Failure on a source that says to be another.
  Finder(const Operation& operation, const List<Operand>& operands,
         const std::vector<Source>& sources, const TensorNames& names, const Attributes& attributes,
         const Words& words);

  // The tensor of that name, or nothing.
  std::optional<GivenOperand> named(const std::string& name, const Operand& operand);
  // The next source that has one tensor, which no name asks for.
  std::optional<GivenOperand> next(const std::string& name, const Operand& operand);
  // By its name, else the next.
  std::optional<GivenOperand> find(const std::string& name, const Operand& operand);

  void refuse_unused() const;
  [[noreturn]] void refuse_missing(const std::string& name) const;

 private:
  struct Open {
    std::string where, nameless;  // its place; what a tensor without a name is called
    GivenTensors tensors;
    std::string label;  // the operand that it was given as
    bool used = false;
  };

  bool asked_for(const std::string& name) const;
  bool nameless(const Open& open) const;
  const std::shared_ptr<GivenTensor>& only_one(const Open& open) const;
  GivenOperand operand_of(const std::string& name, const Operand& operand, Open& open,
                          const std::shared_ptr<GivenTensor>& tensor) const;
  std::string known() const;
  std::string tensors_there() const;

  const Operation& operation_;
  const List<Operand>& operands_;
  const TensorNames& names_;
  const Words& words_;
  Attributes all_;
  std::vector<Open> sources_;
};

}  // namespace plumb::trace

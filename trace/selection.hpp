// trace/selection.hpp: which tensors are looked at.
//
// TESTED   tests/trace/selection_test.cpp
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trace/sees.hpp"

namespace re2 {
class RE2;
}

namespace plumb::trace {

// A user's regular expression, in RE2: time linear in the text whatever the expression is, and no
// recursion, so that it can neither hang nor overflow. No text matches nothing.
class Pattern {
 public:
  // Throws Failure, naming the option, if `text` is not a regular expression.
  Pattern(const std::string& text, const std::string& option);
  bool empty() const { return expression_ == nullptr; }
  bool matches(const std::string& id) const;  // anywhere in it
  // `form` with \1 to \9 replaced by what the groups of the first match hold, \0 by all of it; empty
  // where nothing matches or `form` names a group that there is not.
  std::string rewritten(const std::string& id, const std::string& form) const;

 private:
  static constexpr std::int64_t most_memory = std::int64_t(8) << 20;
  std::shared_ptr<const re2::RE2> expression_;
};

// The expression that matches this text anywhere and nothing else.
std::string expression_of(const std::string& text);

// Ids chosen by --only and --skip. Throws Failure if one is not a regular expression.
class Selection {
 public:
  Selection(const std::string& only, const std::string& skip)
      : only_(only, "--only"), skip_(skip, "--skip") {}
  bool operator()(const std::string& id) const {
    return (only_.empty() || only_.matches(id)) && !skip_.matches(id);
  }
  bool skips(const std::string& id) const { return skip_.matches(id); }
  bool all() const { return only_.empty() && skip_.empty(); }

 private:
  Pattern only_, skip_;
};

}  // namespace plumb::trace

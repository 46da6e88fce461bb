#include "trace/selection.hpp"

#include <re2/re2.h>

#include "number/outcome.hpp"

namespace plumb::trace {

Pattern::Pattern(const std::string& text, const std::string& option) {
  if (text.empty()) return;
  re2::RE2::Options options;
  options.set_log_errors(false);  // a library does not print
  options.set_max_mem(most_memory);
  expression_ = std::make_shared<const re2::RE2>(text, options);
  if (expression_->ok()) return;
  constexpr std::size_t enough = 60;  // of a text that may be a file's worth
  throw Failure(option + " '" + text.substr(0, enough) + (text.size() > enough ? "..." : "") +
                "' is not a regular expression (" + expression_->error().substr(0, enough) +
                "); mend it or quote it");
}

bool Pattern::matches(const std::string& id) const {
  return expression_ != nullptr && re2::RE2::PartialMatch(id, *expression_);
}

std::string expression_of(const std::string& text) { return re2::RE2::QuoteMeta(text); }

std::string Pattern::rewritten(const std::string& id, const std::string& form) const {
  std::string made;
  if (expression_ == nullptr || !re2::RE2::Extract(id, *expression_, form, &made)) return "";
  return made;
}

}  // namespace plumb::trace

// Regular expressions of a user, an id, and a form that is rewritten by the first of them.
#include "trace/selection.hpp"

#include <stdexcept>

#include "number/outcome.hpp"
#include "tests/fuzz/reader.hpp"

namespace plumb::fuzz::selection_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 4);
  const std::string only(parts[0]), skip(parts[1]), id(parts[2]), form(parts[3]);
  try {
    const trace::Selection selection(only, skip);
    (void)(selection(id) && selection.all());
    (void)trace::Pattern(only, "--only").rewritten(id, form);
    if (!id.empty() && !trace::Pattern(trace::expression_of(id), "id").matches(id))
      throw std::logic_error("an id is not matched by its own expression");
  } catch (const Failure&) {  // which repeats the user's own words
  }
}

const Reader selection("selection", read);

}  // namespace
}  // namespace plumb::fuzz::selection_reader

// A layout as a user types it: its name is read as the same layout.
#include "model/spec/layout.hpp"

#include <stdexcept>

#include "tests/fuzz/reader.hpp"
#include "trace/store/json.hpp"

namespace plumb::fuzz::layout_reader {
namespace {

void read(Bytes bytes) {
  if (trace::steers_a_terminal(std::string(bytes))) return;  // the user's own words, repeated
  const model::Layout layout = model::parse_layout(std::string(bytes));
  const std::string name = model::name_of(layout);
  if (model::name_of(model::parse_layout(name)) != name)
    throw std::logic_error(name + " is no name of a layout");
  (void)model::idle_parts(layout);
  model::check_layout(layout, {}, model::most_planned_ranks);
}

const Reader layout("layout", read);

}  // namespace
}  // namespace plumb::fuzz::layout_reader

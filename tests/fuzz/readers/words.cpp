// Words of users and cards: orders of sums, formats, types, shapes of operations.
#include <stdexcept>

#include "bounds/examples/shaped.hpp"
#include "number/format.hpp"
#include "number/order.hpp"
#include "number/outcome.hpp"
#include "tests/fuzz/reader.hpp"
#include "trace/store/stored.hpp"

namespace plumb::fuzz::words_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 2);
  (void)find_format(parts[0]);
  (void)trace::find_stored(parts[0]);
  const auto order = parse_order(parts[0]);
  if (order && text_of(*order) != parts[0]) throw std::logic_error("an order in other words");
  if (parts[1].find_first_not_of("0123456789x") != parts[1].npos) return;  // the user's own
  for (const std::string& operation : bounds::shaped_operations()) {
    try {
      (void)bounds::sizes_of_shape(operation, std::string(parts[1]));
    } catch (const Failure&) {
    }
  }
}

const Reader words("words", read);

}  // namespace
}  // namespace plumb::fuzz::words_reader

// Rows of results, and the facts beside them: what is read is written and read again.
#include "experiments/table.hpp"

#include <stdexcept>

#include "tests/fuzz/reader.hpp"

namespace plumb::fuzz::table_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 2);
  (void)experiments::provenance_of(parts[1]);
  const auto table = experiments::table_of(parts[0], "table.csv");
  if (experiments::table_of(table.text(), "table.csv").rows() != table.rows())
    throw std::logic_error("a table is another one when it is read again");
}

const Reader table("table", read);

}  // namespace
}  // namespace plumb::fuzz::table_reader

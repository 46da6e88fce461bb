// A rank's record as another process sends it.
#include "tests/fuzz/reader.hpp"
#include "trace/store/store.hpp"

namespace plumb::fuzz::record_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 2);
  const auto record = trace::record_from(std::string(parts[0]) + "\n" + framed(parts[1]));
  (void)trace::record_from(trace::bytes_of(record));
}

const Reader record("record", read);

}  // namespace
}  // namespace plumb::fuzz::record_reader

// Stored spreads.
#include "tests/fuzz/reader.hpp"
#include "trace/store/spreads_file.hpp"

namespace plumb::fuzz::spreads_reader {
namespace {

const Reader spreads("spreads", [](Bytes bytes) {
  trace::refuse_other_run(trace::read_spreads(put("spreads.json", bytes)), {});
});

}  // namespace
}  // namespace plumb::fuzz::spreads_reader

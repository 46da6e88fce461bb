// The tensors of a rank in a trace of version 1, and how they make whole ones.
#include <sstream>

#include "tests/fuzz/reader.hpp"
#include "trace/merge.hpp"
#include "trace/store/safetensors.hpp"

namespace plumb::fuzz::shards_reader {
namespace {

void read(Bytes bytes) {
  trace::Trace trace;
  for (const Bytes part : parts_of(bytes, 1)) {  // a rank each
    std::istringstream in(framed(part));
    trace.ranks.emplace_back().shards = trace::read_shards(in, in.view().size(), "shards");
  }
  (void)trace::merge(trace);
}

const Reader shards("shards", read);

}  // namespace
}  // namespace plumb::fuzz::shards_reader

// A folder of version 1: manifest, promise, what ran, and the files of two ranks.
#include "tests/fuzz/reader.hpp"
#include "trace/merge.hpp"
#include "trace/store/store.hpp"

namespace plumb::fuzz::format1_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 5);
  put("format1/manifest.json", parts[0]);
  put("format1/graph.json", parts[1]);
  put("format1/step_000001/ran.json", parts[2]);
  for (const std::size_t rank : {0, 1}) {
    const Bytes part = parts[3 + rank];
    put("format1/step_000001/rank_0000" + std::to_string(rank) + ".safetensors",
        part.empty() ? "" : framed(part));
  }
  (void)trace::traces_of(folder() / "format1");
  (void)trace::merge(trace::read_trace(folder() / "format1"));
}

const Reader format1("format1", read);

}  // namespace
}  // namespace plumb::fuzz::format1_reader

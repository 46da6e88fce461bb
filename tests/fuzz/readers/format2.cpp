// A folder of version 2: manifest, the files of four ranks, and what two of them sent and got.
#include "tests/fuzz/reader.hpp"
#include "trace/merge.hpp"
#include "trace/store/store.hpp"

namespace plumb::fuzz::format2_reader {
namespace {

void put_rank(const std::string& kind, std::size_t rank, Bytes part) {
  put("format2/step_000001/" + kind + "_0000" + std::to_string(rank) + ".safetensors",
      part.empty() ? "" : framed(part));
}

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 7);
  put("format2/manifest.json", parts[0]);
  for (std::size_t rank = 0; rank < 4; ++rank) put_rank("rank", rank, parts[1 + rank]);
  for (std::size_t rank = 0; rank < 2; ++rank) put_rank("messages", rank, parts[5 + rank]);
  (void)trace::read_as_held(folder() / "format2");
  (void)trace::merge(trace::read_trace(folder() / "format2"));
}

const Reader format2("format2", read);

}  // namespace
}  // namespace plumb::fuzz::format2_reader

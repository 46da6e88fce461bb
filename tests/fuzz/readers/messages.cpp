// What each of some ranks recorded of its collectives, and how that is judged.
#include "trace/messages.hpp"
#include "tests/fuzz/reader.hpp"
#include "trace/store/messages_file.hpp"

namespace plumb::fuzz::messages_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Bytes part = parts[rank];
    put("messages/messages_0000" + std::to_string(rank) + ".safetensors",
        part.empty() ? "" : framed(part));
  }
  const int ranks = parts[2].empty() ? 2 : 3;
  (void)trace::judge_messages(trace::read_messages(folder() / "messages", ranks));
}

const Reader messages("messages", read);

}  // namespace
}  // namespace plumb::fuzz::messages_reader

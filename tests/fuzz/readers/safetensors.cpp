// A file of tensors of any program: whole, or its header alone before the values.
#include "tests/fuzz/read_all.hpp"
#include "tests/fuzz/reader.hpp"

namespace plumb::fuzz::safetensors_reader {
namespace {

const Reader safetensors("safetensors", [](Bytes bytes) {
  read_all(put("x.safetensors", bytes.starts_with('{') ? framed(bytes) : std::string(bytes)));
});

}  // namespace
}  // namespace plumb::fuzz::safetensors_reader

// A .npy, as numpy.save writes it.
#include "tests/fuzz/read_all.hpp"
#include "tests/fuzz/reader.hpp"

namespace plumb::fuzz::npy_reader {
namespace {

const Reader npy("npy", [](Bytes bytes) { read_all(put("x.npy", bytes)); });

}  // namespace
}  // namespace plumb::fuzz::npy_reader

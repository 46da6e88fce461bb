// trace/store/npy.hpp: the header of a .npy, as numpy.save writes it: a magic word, a version,
// a length, and the text of a Python dictionary. Untrusted.
//
// TESTED   tests/trace/tensor_file_test.cpp
#pragma once

#include <cstdint>
#include <iosfwd>

#include "trace/store/tensor_file.hpp"

namespace plumb::trace {

// Refuses with what is wrong, to stand after the file's name.
Outcome<StoredTensor> read_npy_header(std::istream& in, std::uint64_t size);

}  // namespace plumb::trace

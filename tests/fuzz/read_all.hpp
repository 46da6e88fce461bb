// tests/fuzz/read_all.hpp: reads every tensor of a file.
#pragma once

#include "trace/store/tensor_file.hpp"

namespace plumb::fuzz {

inline void read_all(const std::filesystem::path& file) {
  trace::TensorFile tensors(file);
  for (const auto& [name, tensor] : tensors.tensors()) {
    if (!tensor.unreadable.empty()) continue;
    std::vector<double> values(tensor.size);
    tensors.read(tensor, 0, values, true);
    tensors.read(tensor, 0, values);
  }
}

}  // namespace plumb::fuzz

// tests/support/tensors.hpp: files of tensors as other programs write them, made without any code of
// the project.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace plumb {

struct Written {
  std::string name, dtype;
  std::vector<std::size_t> shape;
  std::string bytes;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
inline Written f32(const std::string& name, std::vector<std::size_t> shape,
                   const std::vector<float>& values) {
  return {name, "F32", std::move(shape), bytes_of(values)};
}
// Rounded to nearest even, by hand.
inline std::uint16_t to_bf16(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float from_bf16(std::uint16_t code) {
  const std::uint32_t bits = static_cast<std::uint32_t>(code) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline Written bf16_tensor(const std::string& name, std::vector<std::size_t> shape,
                           const std::vector<float>& values) {
  std::vector<std::uint16_t> codes;
  for (const float x : values) codes.push_back(to_bf16(x));
  return {name, "BF16", std::move(shape), bytes_of(codes)};
}

inline std::string text_of_shape(const std::vector<std::size_t>& shape) {
  std::string text;
  for (const std::size_t d : shape) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return text;
}

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

inline std::string with_header(const std::string& header, const std::string& values) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + values;
}

inline std::string safetensors(const std::vector<Written>& tensors) {
  std::string header, values;
  for (const Written& t : tensors) {
    header += (header.empty() ? "{" : ",") + ("\"" + t.name + "\":{\"dtype\":\"" + t.dtype) +
              "\",\"shape\":[" + text_of_shape(t.shape) + "],\"data_offsets\":[" +
              std::to_string(values.size()) + "," + std::to_string(values.size() + t.bytes.size()) +
              "]}";
    values += t.bytes;
  }
  return with_header(header + "}", values);
}

// `shape` as Python writes a tuple: "3, 4" or "3,".
inline std::string npy(const std::string& descr, const std::string& shape,
                       const std::string& values, const std::string& fortran = "False") {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': (" + shape + "), }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  const auto n = static_cast<std::uint16_t>(header.size());
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(reinterpret_cast<const char*>(&n), 2) +
         header + values;
}

}  // namespace plumb

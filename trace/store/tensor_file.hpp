// trace/store/tensor_file.hpp: tensors of any program, in a file of the safetensors format or in one
// of numpy's .npy, read a piece at a time.
//
//   safetensors   F64 F32 F16 BF16 F8_E4M3 F8_E5M2, whole numbers, BOOL
//   .npy          f8 f4 f2, whole numbers, bool; V2, which is what a bfloat16 array becomes
//
// ASSUMES  Numbers are those of FP32, in whatever type: a kernel got them as such. Others are refused.
// REFUSES  with one sentence: what is cut short or lies outside of the file, types that are not
//          above, bytes that no tensor owns, big-endian and transposed .npy.
// COSTS    memory of the header; each read() that of its piece.
// TESTED   tests/trace/tensor_file_test.cpp (hostile files, too)
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "number/outcome.hpp"
#include "trace/sees.hpp"
#include "trace/store/stored.hpp"

namespace plumb::trace {

struct StoredTensor {
  std::vector<std::size_t> shape;
  std::string type;             // as the file says it
  std::uint64_t at = 0;         // where its values begin
  std::size_t size = 0;         // numbers, 1 of a scalar
  std::string unreadable = "";  // why it cannot be read, to stand after its name
  Stored stored = Stored::f32;

  const Format& format() const { return format_of(stored); }
};

// "4 x 5", "scalar"
std::string text_of(const std::vector<std::size_t>& shape);

class TensorFile {
 public:
  // Throws Failure on anything that is not such a file.
  explicit TensorFile(std::filesystem::path file);

  const std::filesystem::path& path() const { return path_; }
  // By name; the one of a .npy has none.
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // Texts by name: __metadata__ of safetensors.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Reads numbers from `first` on. Throws Failure on one that FP32 does not have, unless `any` may
  // be read.
  void read(const StoredTensor& tensor, std::size_t first, std::span<double> into,
            bool any = false);
  // The same of whole numbers, as bits (read_whole_numbers).
  void read_whole(const StoredTensor& tensor, std::size_t first, std::span<std::uint64_t> into);

 private:
  // Until the next one is read.
  std::span<const char> bytes_of(const StoredTensor& tensor, std::size_t first, std::size_t n);
  void read_npy(std::uint64_t size);
  void read_safetensors(std::uint64_t size);

  std::filesystem::path path_;
  std::ifstream in_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::vector<char> bytes_;
};

}  // namespace plumb::trace

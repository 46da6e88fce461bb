// trace/store/bounds_file.hpp: values and bounds of the judged elements, as a file of the safetensors
// format: for an output p the tensors p.value, p.bound and, under moments, p.bias, in F64; where rows
// were drawn, `rows` has their numbers, in I64.
//
// TESTED   tests/trace/judge_test.cpp
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "number/matrix.hpp"
#include "trace/sees.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::trace {

class BoundsFile {
 public:
  struct Output {
    std::string name;
    std::vector<std::size_t> shape;
  };
  // `rows`: which were drawn; empty: all. Throws Failure if the file cannot be written.
  BoundsFile(const std::filesystem::path& file, const std::vector<Output>& outputs, bool moments,
             std::span<const std::size_t> rows);

  // Appends to what, "p.value" and so on. Throws Failure as finish() does.
  void add(const std::string& tensor, std::span<const double> numbers);
  // Throws Failure if the file could not be written whole.
  void finish();

 private:
  std::filesystem::path path_;
  Unfinished unfinished_;
  std::unique_ptr<DiskFile> out_;
  std::map<std::string, std::uint64_t> next_;  // where the next numbers of a tensor go
};

}  // namespace plumb::trace

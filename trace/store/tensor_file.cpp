#include "trace/store/tensor_file.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "trace/store/json.hpp"
#include "trace/store/npy.hpp"
#include "trace/store/read_file.hpp"
#include "trace/store/safetensors_header.hpp"

namespace plumb::trace {
namespace {

using nlohmann::json;

constexpr std::uint64_t most_values = std::uint64_t(1) << 40;
constexpr std::size_t most_dimensions = 32;

[[noreturn]] void no_tensors(const std::filesystem::path& file, const std::string& what) {
  const bool advised = what.find(';') != what.npos, known = file.extension() == ".safetensors";
  throw Failure(file.string() + " " + what +
                (advised ? ""
                 : known ? "; write it again"
                         : "; write it again, as .safetensors or .npy"));
}

struct Type {
  std::string_view name;
  Stored stored;
};
constexpr Type types[] = {
    {"F64", Stored::f64},      {"F32", Stored::f32},      {"F16", Stored::f16},
    {"BF16", Stored::bf16},    {"F8_E4M3", Stored::e4m3}, {"F8_E5M2", Stored::e5m2},
    {"F8_E8M0", Stored::e8m0}, {"I8", Stored::i8},        {"I16", Stored::i16},
    {"I32", Stored::i32},      {"I64", Stored::i64},      {"U8", Stored::u8},
    {"U16", Stored::u16},      {"U32", Stored::u32},      {"U64", Stored::u64},
    {"BOOL", Stored::u8}};

// How many numbers a shape has, if no more than `most`.
std::optional<std::size_t> numbers_of(const std::vector<std::size_t>& shape, std::uint64_t most) {
  std::size_t n = 1;
  for (const std::size_t d : shape) {
    if (d == 0) return 0;
  }
  for (const std::size_t d : shape) {
    if (n > most / d) return {};
    n *= d;
  }
  return n;
}

// Bytes of a file, from the first to the one behind the last.
using Bytes = std::pair<std::uint64_t, std::uint64_t>;

// Do they follow each other, without gaps and without bytes that two have?
bool cover(std::vector<Bytes> all, std::uint64_t room) {
  std::ranges::sort(all);
  std::uint64_t next = 0;
  for (const auto& [first, last] : all) {
    if (first != next) return false;
    next = last;
  }
  return next == room;
}

// As a file writes it, if that is not long.
std::string quoted(const json& value) {
  constexpr std::size_t most = 60;
  const std::string all = value.dump(-1, ' ', true);
  return all.size() <= most ? all : all.substr(0, most) + " ...";
}

// A whole number of at most `most`.
std::optional<std::uint64_t> number_of(const json& value, std::uint64_t most) {
  // A parser reads what has neither sign nor point as unsigned.
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) return {};
  return value.get<std::uint64_t>();
}

bool has_fields(const json& entry) {
  return entry.is_object() && entry.contains("dtype") && entry.at("dtype").is_string() &&
         entry.contains("shape") && entry.at("shape").is_array() &&
         entry.contains("data_offsets") && entry.at("data_offsets").is_array() &&
         entry.at("data_offsets").size() == 2;
}

// Refuses with what is wrong with a tensor, to stand after its name.
Outcome<StoredTensor> tensor_of(const json& entry, std::uint64_t room, std::uint64_t start,
                                std::vector<Bytes>& covered) {
  if (!has_fields(entry))
    return no("needs a dtype (a text), a shape (a list) and data_offsets (two numbers)");
  StoredTensor tensor;
  tensor.type = entry.at("dtype").get<std::string>();
  if (entry.at("shape").size() > most_dimensions)
    return no("has more than " + std::to_string(most_dimensions) + " dimensions");
  for (const json& d : entry.at("shape")) {
    const auto size = number_of(d, most_values);
    if (!size) return no("has " + quoted(d) + " in its shape, which is no size of a tensor");
    tensor.shape.push_back(*size);
  }
  const json& offsets = entry.at("data_offsets");
  const auto first = number_of(offsets[0], room), last = number_of(offsets[1], room);
  if (!first || !last || *first > *last) {
    return no("cannot lie at " + quoted(offsets) + " of " + std::to_string(room) +
              " bytes of numbers");
  }
  tensor.at = start + *first;
  covered.emplace_back(*first, *last);
  const auto* type = std::ranges::find(types, tensor.type, &Type::name);
  if (type == std::end(types)) {
    tensor.unreadable = "is of type " + tensor.type +
                        "; plumb reads F32, F16, BF16, F8_E4M3, F8_E5M2, F64 and whole numbers";
    return tensor;
  }
  tensor.stored = type->stored;
  const std::size_t width = width_of(type->stored);
  const auto n = numbers_of(tensor.shape, room);
  if (!n || *n > room / width || *n * width != *last - *first) {
    return no("is said to be " + text_of(tensor.shape) + " numbers of " + tensor.type +
              ", and has " + std::to_string(*last - *first) + " bytes of them");
  }
  tensor.size = *n;
  return tensor;
}

// The usual way for a tensor not to fit: the file ends before it does.
void refuse_cut_short(const std::filesystem::path& file, const std::string& name, const json& entry,
                      std::uint64_t room) {
  const json offsets = entry.is_object() ? entry.value("data_offsets", json()) : json();
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[1].is_number_unsigned()) return;
  const auto end = offsets[1].get<std::uint64_t>();
  if (end <= room) return;
  no_tensors(file, "is cut short, or its header is another file's: '" + name + "' ends at byte " +
                       std::to_string(end) + " of its numbers, and the file has " +
                       std::to_string(room));
}

void read_metadata(const std::filesystem::path& file, const json& entry,
                   std::map<std::string, std::string>& into) {
  if (!entry.is_object()) no_tensors(file, "has a __metadata__ that is no object of texts");
  for (const auto& [name, text] : entry.items()) {
    if (!text.is_string()) no_tensors(file, "has a __metadata__ that is no object of texts");
    into.emplace(name, text.get<std::string>());
  }
}

}  // namespace

std::string text_of(const std::vector<std::size_t>& shape) {
  std::string text;
  for (const std::size_t d : shape) text += (text.empty() ? "" : " x ") + std::to_string(d);
  return text.empty() ? "scalar" : text;
}

TensorFile::TensorFile(std::filesystem::path file) : path_(std::move(file)) {
  // Asked before it is opened: opening a pipe waits for a writer.
  refuse_unreadable(path_);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error))
    no_tensors(path_, "is missing or not a file");
  const std::uint64_t size = std::filesystem::file_size(path_);
  in_.open(path_, std::ios::binary);
  if (!in_) no_tensors(path_, "cannot be read");
  path_.extension() == ".npy" ? read_npy(size) : read_safetensors(size);
}

void TensorFile::read_npy(std::uint64_t size) {
  auto tensor = read_npy_header(in_, size);
  if (!tensor) no_tensors(path_, tensor.error().detail);
  StoredTensor one = *tensor;
  const std::size_t width = width_of(one.stored);
  const auto n = numbers_of(one.shape, size / width);
  if (!n || *n * width != size - one.at) {
    no_tensors(path_, "says that it is " + text_of(one.shape) + " numbers of " +
                          std::to_string(width) + " bytes, and has " +
                          std::to_string(size - one.at) + " bytes of them");
  }
  one.size = *n;
  tensors_.emplace("", std::move(one));
}

void TensorFile::read_safetensors(std::uint64_t size) {
  const auto header = read_safetensors_header(in_, size);
  if (!header) no_tensors(path_, header.error().detail);
  const std::uint64_t room = size - header->values;
  std::vector<Bytes> covered;
  for (const auto& [name, entry] : header->json.items()) {
    if (name == "__metadata__") {
      read_metadata(path_, entry, metadata_);
      continue;
    }
    refuse_cut_short(path_, name, entry, room);
    const auto tensor = tensor_of(entry, room, header->values, covered);
    if (!tensor) no_tensors(path_, "has a tensor '" + name + "' that " + tensor.error().detail);
    tensors_.emplace(name, *tensor);
  }
  if (!cover(std::move(covered), room))
    no_tensors(path_, "has bytes that no tensor owns, or that several do");
}

std::span<const char> TensorFile::bytes_of(const StoredTensor& tensor, std::size_t first,
                                           std::size_t n) {
  const std::size_t width = width_of(tensor.stored);
  bytes_.resize(n * width);
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(tensor.at + first * width));
  if (!in_.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()))) {
    no_tensors(path_, "has become shorter while it was read");
  }
  return bytes_;
}

void TensorFile::read_whole(const StoredTensor& tensor, std::size_t first,
                            std::span<std::uint64_t> into) {
  if (into.empty()) return;
  read_whole_numbers(bytes_of(tensor, first, into.size()), tensor.stored, into);
}

void TensorFile::read(const StoredTensor& tensor, std::size_t first, std::span<double> into,
                      bool any) {
  if (into.empty()) return;
  const std::span<const char> bytes = bytes_of(tensor, first, into.size());
  std::size_t read = read_numbers(bytes, tensor.stored, into);
  while (any && read < into.size()) {  // each call ends with a number that FP32 does not have
    const std::size_t from = read + 1;
    const std::span rest = bytes.subspan(from * width_of(tensor.stored));
    read = from + read_numbers(rest, tensor.stored, into.subspan(from));
  }
  if (read == into.size()) return;
  no_tensors(path_, "holds " + std::to_string(into[read]) + " as number " +
                        std::to_string(first + read) + " of " + tensor.type +
                        ", which FP32 does not have; cast it as the kernel does, and write that");
}

}  // namespace plumb::trace

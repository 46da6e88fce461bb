#include "trace/store/npy.hpp"

#include <charconv>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "trace/store/json.hpp"

namespace plumb::trace {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t longest_npy_header = 65536;  // of a header

// The dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, and no other.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : rest_(text) {}

  bool read() {
    if (!take("{")) return false;
    while (!take("}")) {
      const auto key = quoted();
      if (!key || !take(":") || !value_of(*key)) return false;
      take(",");
    }
    return descr && fortran && shape;
  }

  std::optional<std::string_view> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<std::size_t>> shape;

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool take(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    if (!take("'")) return {};
    const std::size_t end = rest_.find('\'');
    if (end == rest_.npos) return {};
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    if (steers_a_terminal(std::string(text))) return {};  // failures say it
    return text;
  }
  bool value_of(std::string_view key) {
    if (key == "descr") return (descr = quoted()).has_value();
    if (key == "shape") return read_shape();
    if (key != "fortran_order") return false;
    fortran = take("True");
    return *fortran || take("False");
  }
  bool read_shape() {
    if (!take("(")) return false;
    shape.emplace();
    while (!take(")")) {
      skip_blanks();
      std::size_t n = 0;
      const auto got = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
      if (got.ec != std::errc() || shape->size() == 32) return false;
      rest_.remove_prefix(static_cast<std::size_t>(got.ptr - rest_.data()));
      shape->push_back(n);
      take(",");
    }
    return true;
  }

  std::string_view rest_;
};

struct Type {
  std::string_view name;
  Stored stored;
};
constexpr Type types[] = {{"f8", Stored::f64},  {"f4", Stored::f32}, {"f2", Stored::f16},
                          {"V2", Stored::bf16}, {"i1", Stored::i8},  {"i2", Stored::i16},
                          {"i4", Stored::i32},  {"i8", Stored::i64}, {"u1", Stored::u8},
                          {"u2", Stored::u16},  {"u4", Stored::u32}, {"u8", Stored::u64},
                          {"b1", Stored::u8}};

// Returns what is wrong with a type; empty: `into` has it.
std::string type_refused(std::string_view descr, Stored& into) {
  const std::string said = "holds numbers of type '" + std::string(descr) + "'";
  if (descr.size() == 3 && descr.substr(1) != "V1" && descr.substr(1) != "f1") {
    for (const auto& [name, stored] : types) {
      if (descr.substr(1) != name) continue;
      into = stored;
      return descr[0] == '>'
                 ? said + ", which are big-endian; save x.astype('<" + std::string(name) + "')"
                 : "";
    }
  }
  if (descr.size() == 3 && descr[2] == '1') {
    return said + ", which may be E4M3 or E5M2; write them as F8_E4M3 or F8_E5M2 of safetensors";
  }
  return said + "; save float32, float16, float64, bfloat16 or whole numbers";
}

}  // namespace

Outcome<StoredTensor> read_npy_header(std::istream& in, std::uint64_t size) {
  char start[12] = {};
  if (size < 10 || !in.read(start, 10) || !std::string_view(start, 10).starts_with(magic)) {
    return no("is no .npy file");
  }
  const auto byte = [&](int i) {
    return static_cast<std::uint64_t>(static_cast<unsigned char>(start[i]));
  };
  std::uint64_t length = byte(8) | byte(9) << 8, values = 10;
  if (byte(6) > 3) return no("is a .npy of version " + std::to_string(byte(6)));
  if (byte(6) > 1) {
    if (size < 12 || !in.read(start + 10, 2)) return no("is cut short");
    length |= byte(10) << 16 | byte(11) << 24;
    values = 12;
  }
  if (length > longest_npy_header || length > size - values) {
    return no("announces a header of " + std::to_string(length) + " bytes but has " +
              std::to_string(size - values));
  }
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length))) return no("is cut short");
  Dictionary header(text);
  if (!header.read()) return no("has a header that numpy.save does not write");
  StoredTensor tensor{*header.shape, std::string(*header.descr), values + length};
  if (const std::string why = type_refused(*header.descr, tensor.stored); !why.empty()) {
    return no(why);
  }
  if (*header.fortran && header.shape->size() > 1) {
    return no("lies column by column; save numpy.ascontiguousarray(x)");
  }
  return tensor;
}

}  // namespace plumb::trace

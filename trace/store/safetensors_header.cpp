#include "trace/store/safetensors_header.hpp"

#include <bit>
#include <istream>
#include <string>

#include "trace/store/json.hpp"

namespace plumb::trace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {
constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
}

Outcome<SafetensorsHeader> read_safetensors_header(std::istream& in, std::uint64_t size) {
  std::uint64_t length = 0;
  if (size < 8 || !in.read(reinterpret_cast<char*>(&length), 8)) return no("is cut short");
  if (length > longest_header || length > size - 8) {
    return no("announces a header of " + std::to_string(length) + " bytes but has " +
              std::to_string(size - 8));
  }
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length))) return no("is cut short");
  Outcome<nlohmann::json> json = object_in(text);
  if (!json) return json.error();
  return SafetensorsHeader{std::move(*json), 8 + length};
}

}  // namespace plumb::trace

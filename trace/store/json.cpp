#include "trace/store/json.hpp"

#include <algorithm>

#include "bounds/outcome.hpp"

namespace plumb {

using nlohmann::json;

void damaged(const std::filesystem::path& file, const std::string& what) {
  throw Failure(file.string() + " " + what + "; the trace is damaged or not one: trace again");
}

json parsed(const std::string& text, const std::filesystem::path& file) {
  bool printable = true;
  const auto look = [&](int, json::parse_event_t, json& value) {
    if (!value.is_string()) return true;
    printable =
        printable && std::ranges::none_of(value.get_ref<const std::string&>(),
                                          [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    return true;
  };
  json content = json::parse(text, look, false);
  if (!content.is_object()) damaged(file, "is not a JSON object");
  if (!printable) damaged(file, "has words with control characters");
  return content;
}

std::uint64_t whole_number(const json& value, std::uint64_t most) {
  // A parser reads what has neither sign nor point as unsigned.
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most) {
    return value.get<std::uint64_t>();
  }
  throw json::other_error::create(501, "no such number", nullptr);
}

}  // namespace plumb

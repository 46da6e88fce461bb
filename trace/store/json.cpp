#include "trace/store/json.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "number/outcome.hpp"
#include "trace/store/read_file.hpp"

namespace plumb::trace {

using nlohmann::json;

void damaged(const std::filesystem::path& file, const std::string& what) {
  throw Failure(file.string() + " " + what + "; the trace is damaged or not one: trace again");
}

void unsupported(const std::filesystem::path& file, const std::string& what) {
  throw Failure(file.string() + " " + what +
                "; plumb reads matrices of F32 and BF16 so far: convert it");
}

// Below space, delete, and the second set (U+0080 to U+009F): a terminal obeys them.
bool steers_a_terminal(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0)) return true;
  }
  return false;
}

// Where a text stops to be JSON, or why it is none that FP64 can hold.
static std::string place_of_error(const std::string& text) {
  std::size_t byte = text.size();
  try {
    if (!json::parse(text).is_null()) return "";
  } catch (const json::parse_error& error) {
    byte = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
  } catch (const json::out_of_range&) {
    return " of numbers that FP64 holds";
  }
  const std::string before = text.substr(0, byte);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t begins = before.rfind('\n') + 1;  // npos + 1 is 0
  return " (line " + std::to_string(line) + ", column " + std::to_string(byte - begins + 1) + ")";
}

namespace {

// What a text says beyond its syntax. (A callback of json::parse sees it too, but walks all neighbours at
// the end of each object: a header of 40,000 tensors took minutes.)
class Seen : public nlohmann::json_sax<json> {
 public:
  bool printable = true, deep = false;
  std::optional<std::string> twice;  // a parser keeps the second, and drops the first

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& text) override {
    printable = printable && !steers_a_terminal(text);
    return true;
  }
  bool start_object(std::size_t) override { return open(); }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) twice = name;
    return string(name);
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool open() {
    constexpr std::size_t deepest =
        32;  // nothing nests a third of it; a copy takes stack for each level
    names_.emplace_back();
    deep = names_.size() > deepest;
    return !deep;
  }
  bool close() {
    names_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> names_;  // of each object and array that is open
};

}  // namespace

Outcome<json> object_in(const std::string& text) {
  if (text.find('\0') != text.npos) return no("has a NUL in its text");  // a parser ends there
  Seen seen;
  const bool sound = json::sax_parse(text, &seen);
  if (seen.deep) return no("nests deeper than any document that plumb reads");
  if (!sound) return no("is not a JSON object" + place_of_error(text));
  json content = json::parse(text);
  if (!content.is_object()) return no("is not a JSON object");
  if (!seen.printable) return no("has words with control characters");
  constexpr std::size_t longest_told = 80;
  if (seen.twice && seen.twice->size() > longest_told) return no("says a name twice in one object");
  if (seen.twice) return no("says '" + *seen.twice + "' twice in one object");
  return content;
}

json parsed(const std::string& text, const std::filesystem::path& file) {
  Outcome<json> object = object_in(text);
  if (!object) damaged(file, object.error().detail);
  return std::move(*object);
}

json read_json(const std::filesystem::path& file) {
  constexpr std::uintmax_t longest = 256'000'000;
  refuse_unreadable(file);
  const Outcome<std::string> text = read_file(file, longest);
  if (!text) damaged(file, text.error().detail);
  return parsed(*text, file);
}

std::uint64_t whole_number(const json& value, std::uint64_t most) {
  // A parser reads what has neither sign nor point as unsigned.
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most) {
    return value.get<std::uint64_t>();
  }
  throw json::other_error::create(501, "no such number", nullptr);
}

json number_or_null(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

}  // namespace plumb::trace

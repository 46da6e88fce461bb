#include "model/recipe_json.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

#include "bounds/outcome.hpp"
#include "trace/store/json.hpp"

namespace plumb {
namespace {

using nlohmann::json;

// A recipe nests four deep. A limit also keeps what copies a value from exhausting the stack.
constexpr std::size_t deepest = 8;

constexpr const char* a_text = "text there, in UTF-8, that ends in \" on its line, and \\\\ for \\";
constexpr const char* a_value =
    "a value there: text in double quotes, a number, a list or an object";

// "line 3, column 5" of a byte; a letter of several bytes is one column.
std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const std::string_view line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
  return "line " + std::to_string(1 + std::ranges::count(before, '\n')) + ", column " +
         std::to_string(1 + std::ranges::count_if(line, begins));
}

// What could not be read: where it begins, and whether it is a text in quotes that does not end.
struct Unread {
  std::size_t begin;
  bool open_text;
};

// `end`: behind the last byte that the parser looked at.
Unread unread_before(std::string_view text, std::size_t end) {
  std::size_t quote = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < end; ++i) {
    if (in_text && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      if (!in_text) quote = i;
      in_text = !in_text;
    }
  }
  if (in_text || (end > 0 && text[end - 1] == '"')) return {quote, in_text};
  const auto of_a_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' || c == '-';
  };
  std::size_t begin = end > 0 ? end - 1 : 0;
  while (begin > 0 && of_a_word(text[begin]) && of_a_word(text[begin - 1])) --begin;
  return {begin, false};
}

// Reads along with the parser: it hears of names and values, not of commas, colons and places.
class Proofreader final : public nlohmann::json_sax<json> {
 public:
  Proofreader(const std::string& text, const std::string& where) : text_(text), where_(where) {}

  bool null() override { return after(Last::value); }
  bool boolean(bool) override { return after(Last::value); }
  bool number_integer(number_integer_t) override { return after(Last::value); }
  bool number_unsigned(number_unsigned_t) override { return after(Last::value); }
  bool number_float(number_float_t, const string_t&) override { return after(Last::value); }
  bool binary(binary_t&) override { return after(Last::value); }
  bool string(string_t& value) override {
    if (steers_a_terminal(value)) refuse(path() + " has control characters; write plain words");
    return after(Last::value);
  }
  bool key(string_t& name) override {
    open_.back().name.clear();  // what is wrong with a name is said of its object
    if (steers_a_terminal(name)) refuse(path() + " has a field with control characters; remove it");
    if (!open_.back().names.insert(name).second) {
      refuse(path() + " says '" + name + "' twice; keep one");
    }
    open_.back().name = name;
    return after(Last::key);
  }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t read, const std::string&,
                   const nlohmann::detail::exception& why) override {
    constexpr int number_out_of_range = 406;
    Unread unread = unread_before(text_, std::min(read, text_.size()));
    if (read > text_.size() && !unread.open_text) {
      unread.begin = text_.find_last_not_of(" \t\r\n") + 1;
    }
    refuse(where_ + " is not JSON at " + place_of(text_, unread.begin) + ": write " +
           (why.id == number_out_of_range ? "a smaller number there" : expected(unread)));
  }

 private:
  enum class Last { nothing, start, key, value };
  struct Open {
    bool is_object;
    std::set<std::string> names;
    std::string name;  // of the field that is being read
  };

  bool after(Last what) {
    last_ = what;
    return true;
  }
  bool open(bool is_object) {
    if (open_.size() == deepest) {
      refuse(where_ + " nests deeper than a recipe does; see model/README.md");
    }
    open_.push_back({is_object, {}, ""});
    return after(Last::start);
  }
  bool close() {
    open_.pop_back();
    return after(Last::value);
  }
  [[noreturn]] static void refuse(const std::string& sentence) { throw Failure(sentence); }

  // "r.json: operands.weights": where the parser is.
  std::string path() const {
    std::string all;
    for (const Open& o : open_) {
      if (!o.name.empty()) all += (all.empty() ? "" : ".") + o.name;
    }
    return all.empty() ? where_ : where_ + ": " + all;
  }

  const char* expected(const Unread& unread) const {
    if (last_ == Last::nothing) return "{ there";
    if (unread.open_text) return a_text;
    if (open_.empty()) return "nothing more there";
    const std::size_t mark = text_.find_last_of("{}[],:\"", unread.begin - 1);
    const bool in_object = open_.back().is_object;
    if (last_ == Last::key) return text_[mark] == ':' ? a_value : "a colon there";
    // Behind a comma of a list, the value that was read last may stand already.
    if (text_[mark] == ',' && text_.find_first_not_of(" \t\r\n", mark + 1) >= unread.begin) {
      return in_object ? "a field in double quotes there, or no comma before" : a_value;
    }
    if (last_ == Last::start) {
      return in_object ? "a field in double quotes there, or }" : "a value there, or ]";
    }
    return in_object ? "a comma there, or }" : "a comma there, or ]";
  }

  const std::string& text_;
  const std::string& where_;
  std::vector<Open> open_;
  Last last_ = Last::nothing;
};

}  // namespace

json recipe_json(const std::string& text, const std::string& where) {
  // To the parser a zero byte is the end: whatever followed would be ignored.
  if (text.find('\0') != std::string::npos) {
    throw Failure(where + " has a zero byte; save it as text in UTF-8");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Failure(where + " is empty; write a recipe, such as that in model/recipes/bf16.json");
  }
  Proofreader proofreader(text, where);
  json::sax_parse(text, &proofreader);
  return json::parse(text);
}

std::string shown(const json& value) {
  if (value.is_string()) return "'" + value.get<std::string>() + "'";
  if (value.is_object()) return "an object";
  const std::string all = value.dump();
  return all.size() > 40 ? "a long list" : all;
}

}  // namespace plumb

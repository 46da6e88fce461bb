#include "model/spec/recipe_json.hpp"

#include <set>
#include <vector>

#include "number/outcome.hpp"
#include "trace/store/json.hpp"

namespace plumb::model {
namespace {

using nlohmann::json;

// A recipe nests four deep. A limit also keeps what copies a value from exhausting the stack.
constexpr std::size_t deepest = 8;

// Reads along with the parser.
class Proofreader final : public nlohmann::json_sax<json> {
 public:
  explicit Proofreader(const std::string& where) : where_(where) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (steers_a_terminal(value)) refuse(path() + " has control characters; write plain words");
    return true;
  }
  bool key(string_t& name) override {
    open_.back().name.clear();  // an error in a name is said of its object
    if (steers_a_terminal(name)) refuse(path() + " has a field with control characters; remove it");
    if (!open_.back().names.insert(name).second) {
      refuse(path() + " says '" + name + "' twice; keep one");
    }
    open_.back().name = name;
    return true;
  }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  // Takes the parser's words, which say the place and what was expected; the token that was read
  // last may be anything.
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& why) override {
    std::string said = why.what();
    said.erase(0, said.find("] ") + 2);
    refuse(where_ + " is not JSON: " + said.substr(0, said.find("; last read")));
  }

 private:
  struct Open {
    std::set<std::string> names;
    std::string name;  // of the field that is being read
  };

  bool open() {
    if (open_.size() == deepest) {
      refuse(where_ + " nests deeper than a recipe does; see model/README.md");
    }
    open_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
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

  const std::string& where_;
  std::vector<Open> open_;
};

}  // namespace

json recipe_json(const std::string& text, const std::string& where) {
  // To the parser a zero byte is the end: it would ignore the rest.
  if (text.find('\0') != std::string::npos) {
    throw Failure(where + " has a zero byte; save it as text in UTF-8");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Failure(where + " is empty; write a recipe, such as that in model/recipes/bf16.json");
  }
  Proofreader proofreader(where);
  json::sax_parse(text, &proofreader);
  return json::parse(text);
}

std::string shown(const json& value) {
  if (value.is_string()) return "'" + value.get<std::string>() + "'";
  if (value.is_object()) return "an object";
  const std::string all = value.dump();
  return all.size() > 40 ? "a long list" : all;
}

}  // namespace plumb::model

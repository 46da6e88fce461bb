#include "trace/store/overrides.hpp"

#include <algorithm>
#include <array>

#include "bounds/json_schema.hpp"
#include "number/outcome.hpp"
#include "trace/selection.hpp"
#include "trace/store/json.hpp"
#include "trace/store/overriding.hpp"
#include "trace/store/read_file.hpp"
#include "trace/store/spelling.hpp"

namespace plumb::trace {

// Made by embed() from trace/store/overrides.schema.json.
std::string_view overrides_schema();

namespace {

using nlohmann::json;

constexpr std::uintmax_t longest = 1 << 24;

[[noreturn]] void no_overrides(const std::filesystem::path& file, const std::string& what) {
  throw Failure(file.string() + " " + what + "; see docs/trace-format.md");
}

// What a rule says goes over what was said.
void put_over(const json& rule, json& says) {
  const auto has = [&](const char* field) { return rule.contains(field); };
  if (std::ranges::any_of(spellings, has)) {
    for (const char* field : spellings) says.erase(field);
  }
  for (const auto& [field, value] : rule.items()) {
    if (value.is_null()) {
      says.erase(field);
    } else {
      says[field] = value;
    }
  }
}

}  // namespace

struct Overrides::Rules {
  struct Rule {
    std::string text;
    Pattern match;
    json rule;
  };
  std::filesystem::path file;
  std::vector<Rule> all = {};
};

Overrides::Overrides(const std::filesystem::path& file) {
  static const JsonSchema schema(overrides_schema());
  refuse_unreadable(file);
  const Outcome<std::string> content = read_file(file, longest);
  if (!content) no_overrides(file, content.error().detail);
  const Outcome<json> read = object_in(*content);
  if (!read) no_overrides(file, read.error().detail);
  const json& all = *read;
  if (const std::string wrong = schema.wrong_with(all); !wrong.empty()) {
    no_overrides(file, "holds no overrides: " + wrong);
  }
  Rules rules{file};
  for (const json& rule : all.at("tensors")) {
    const auto text = rule.at("match").get<std::string>();
    if (rule.contains("id") && rule.contains("split")) {
      no_overrides(file, "gives '" + text + "' an id and splits it; give one to each part");
    }
    if (rule.contains("renumber") && !rule.contains("id") && !rule.contains("split")) {
      no_overrides(file, "renumbers '" + text + "' and gives it no id; give 'id' or 'split'");
    }
    rules.all.push_back({text, Pattern(text, file.string() + " has a rule whose 'match'"), rule});
  }
  rules_ = std::make_shared<const Rules>(std::move(rules));
}

Overriding::Overriding(Overrides overrides) : overrides_(std::move(overrides)) {
  if (overrides_.empty()) return;
  for (const auto& rule : overrides_.rules_->all)
    used_.push_back(rule.rule.value("optional", false));
}

void Overriding::refuse_renaming() const {
  if (overrides_.empty()) return;
  for (const auto& [text, match, rule] : overrides_.rules_->all) {
    if (!rule.contains("id") && !rule.contains("split")) continue;
    no_overrides(overrides_.rules_->file,
                 "gives '" + text +
                     "' another id, and a sketch is drawn by the id that it was made "
                     "under: have the program write that id, or compare the traces themselves");
  }
}

std::string Overriding::renamed(std::size_t rule_number, std::string id, const std::string& name,
                                std::size_t rank, const Mesh& mesh) const {
  const auto& rule = overrides_.rules_->all[rule_number];
  if (!rule.rule.contains("renumber")) return rewritten(rule_number, name, id);
  const json& how = rule.rule.at("renumber");
  const auto axis = mesh.find(how.at("axis").get<std::string>());
  const json& first = how.at("first");
  if (!axis || mesh.axes[*axis].size != first.size()) {
    no_overrides(overrides_.rules_->file,
                 "renumbers '" + rule.text + "' on an axis that the mesh (" + mesh.names() +
                     ") does not have, or has with another number of places");
  }
  const std::string group = "\\" + std::to_string(how.at("group").get<int>());
  const std::string number = rule.match.rewritten(name, group);
  const bool digits =
      !number.empty() && number.size() < 7 && number.find_first_not_of("0123456789") == number.npos;
  if (!digits)
    no_overrides(overrides_.rules_->file, "renumbers '" + name + "', whose group is no number");
  const std::string sum =
      std::to_string(std::stoi(number) + first.at(mesh.place_of(rank)[*axis]).get<int>());
  for (auto at = id.find(group); at != id.npos; at = id.find(group, at + sum.size())) {
    id.replace(at, group.size(), sum);
  }
  return rewritten(rule_number, name, id);
}

std::string Overriding::rewritten(std::size_t rule_number, const std::string& name,
                                  const std::string& id) const {
  const auto& rule = overrides_.rules_->all[rule_number];
  std::string made = rule.match.rewritten(name, id);
  if (made.empty()) {
    no_overrides(overrides_.rules_->file, "makes no id of '" + name + "': '" + id +
                                              "' asks for more groups than '" + rule.text +
                                              "' has");
  }
  return made;
}

Overridden Overriding::applied(const std::string& name, json said, std::size_t rank,
                               const Mesh& mesh) {
  Overridden out{std::move(said)};
  json& says = out.says;
  for (std::size_t number = 0; number < used_.size(); ++number) {
    const auto& rule = overrides_.rules_->all[number];
    const bool by_id = says.contains("id") && says.at("id").is_string();
    const std::string id = by_id ? says.at("id").get<std::string>() : name;
    if (!rule.match.matches(name) && !rule.match.matches(id)) continue;
    used_[number] = true;
    if (!out.parts.empty() && (rule.rule.contains("id") || rule.rule.contains("split"))) {
      no_overrides(overrides_.rules_->file, "splits '" + name + "' by one rule, and '" + rule.text +
                                                "' names it again; match it in one of them only");
    }
    out.by = overrides_.rules_->file;
    if (rule.rule.contains("says")) put_over(rule.rule.at("says"), says);
    const std::string& matched = rule.match.matches(name) ? name : id;
    if (rule.rule.contains("id")) {
      says["id"] = renamed(number, rule.rule.at("id").get<std::string>(), matched, rank, mesh);
    }
    if (!rule.rule.contains("split")) continue;
    std::size_t period = 0;
    const json& split = rule.rule.at("split");
    for (const json& part : split.at("parts")) {
      const auto size = part.at("size").get<std::size_t>();
      out.parts.push_back({renamed(number, part.at("id").get<std::string>(), matched, rank, mesh),
                           {split.at("dim").get<std::size_t>(), 0, period, size}});
      period += size;
    }
    for (Overridden::Part& part : out.parts) part.lies.period = period;
  }
  return out;
}

void Overriding::refuse_idle() const {
  const auto idle = std::ranges::find(used_, false);
  if (idle == used_.end()) return;
  const auto& rule = overrides_.rules_->all[static_cast<std::size_t>(idle - used_.begin())];
  no_overrides(overrides_.rules_->file,
               "has the rule '" + rule.text + "', which matches no tensor of the trace");
}

}  // namespace plumb::trace

#include <fmt/format.h>

#include "cli/colour.hpp"
#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/verbs.hpp"
#include "injectors/bug.hpp"

namespace plumb::cli {
namespace {

std::string needs_of(const Bug& bug) {
  std::string needs = fmt::format("{} {}", bug.needs.layout, bug.needs.recipe);
  if (bug.needs.families.size() == 1)
    needs += " " + bug.needs.family(bug.needs.families.front());
  else if (bug.needs.experts)
    needs += " moe";
  for (const auto& [name, value] : bug.needs.settings) {
    needs += fmt::format(" {}", name);
    if (setting_named(name).unit != Size::Unit::flag) needs += fmt::format(" {}", value);
  }
  return needs;
}

// "12", or "4 guess" where the match is not confirmed.
std::string paper_of(const Bug& bug) {
  const auto& [number, match] = bug.paper;
  if (number == 0) return "-";
  if (match == Match::confirmed) return std::to_string(number);
  return fmt::format("{} {}", number, name_of(match));
}

std::string_view dose_of(const Bug& bug) { return bug.dose.empty() ? "none" : bug.dose; }

nlohmann::json json_of(const Bug& bug) {
  nlohmann::json families = nlohmann::json::array(), settings = nlohmann::json::object();
  for (const Family family : bug.needs.families) families.push_back(bug.needs.family(family));
  for (const auto& [name, value] : bug.needs.settings) settings[std::string(name)] = value;
  nlohmann::json paper;
  if (bug.paper.bug > 0) {
    paper = {{"bug", bug.paper.bug}, {"match", name_of(bug.paper.match)}};
  }
  return {{"id", bug.id},
          {"title", bug.title},
          {"kind", name_of(bug.kind)},
          {"story", bug.story},
          {"seen_in", bug.seen_in},
          {"paper", paper},
          {"hides_when", bug.hides_when},
          {"dose", dose_of(bug)},
          {"needs",
           {{"layout", bug.needs.layout},
            {"recipe", bug.needs.recipe},
            {"families", families},
            {"settings", settings},
            {"micro_batches", bug.needs.micro_batches},
            {"sequences", bug.needs.sequences}}}};
}

void list(const std::vector<const Bug*>& bugs) {
  std::vector<std::vector<std::string>> rows;
  for (const Bug* bug : bugs) {
    rows.push_back({std::string(bug->id), needs_of(*bug), paper_of(*bug),
                    std::string(dose_of(*bug)), std::string(bug->title)});
  }
  fmt::print("{}", in_columns({{"bug"}, {"needs"}, {"paper"}, {"dose"}, {"what is wrong"}}, rows));
}

void tell(const Bug& bug) {
  fmt::print("{}\n{}\n\n{}\n\nseen in: {}\n", painted(Colour::heading, bug.id), bug.title,
             bug.story, bug.seen_in);
  if (const auto& [number, match] = bug.paper; number > 0) {
    fmt::print("paper: bug {} of TTrace ({})\n", number, name_of(match));
  }
  fmt::print("kind: {}\nneeds: {}\ndose: {}\nhides when: {}\n", name_of(bug.kind), needs_of(bug),
             dose_of(bug), bug.hides_when);
}

void print_json(const std::vector<const Bug*>& bugs) {
  nlohmann::json all = nlohmann::json::array();
  for (const Bug* bug : bugs) all.push_back(json_of(*bug));
  print_document("plumb-bugs/1", {{"bugs", all}});
}

}  // namespace

void add_bugs(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("bugs", "the catalogue of bugs; one bug's story");
  static std::string id;
  static bool as_json = false;
  verb->add_option("ID", id, "a bug");
  add_json(*verb, as_json);
  verb->callback([&chosen] {
    chosen = [] {
      std::vector<const Bug*> bugs(all_bugs().begin(), all_bugs().end());
      if (!id.empty()) bugs = {&find_bug(id)};
      if (as_json) {
        print_json(bugs);
      } else {
        id.empty() ? list(bugs) : tell(*bugs[0]);
      }
      return 0;
    };
  });
}

}  // namespace plumb::cli

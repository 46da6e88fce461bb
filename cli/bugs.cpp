#include <fmt/format.h>

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

std::string_view dose_of(const Bug& bug) { return bug.dose.empty() ? "none" : bug.dose; }

}  // namespace

void add_bugs(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("bugs", "the catalogue of bugs; one bug's story");
  static std::string id;
  verb->add_option("ID", id, "a bug");
  verb->callback([&chosen] {
    chosen = [] {
      if (id.empty()) {
        fmt::print("{:<36} {:<34} {:<24} {}\n", "bug", "needs", "dose", "what is wrong");
        for (const Bug* bug : all_bugs()) {
          fmt::print("{:<36} {:<34} {:<24} {}\n", bug->id, needs_of(*bug), dose_of(*bug),
                     bug->title);
        }
        return 0;
      }
      const Bug& bug = find_bug(id);
      fmt::print("{}\n{}\n\n{}\n\nseen in: {}\nneeds: {}\ndose: {}\nhides when: {}\n", bug.id,
                 bug.title, bug.story, bug.seen_in, needs_of(bug), dose_of(bug), bug.hides_when);
      return 0;
    };
  });
}

}  // namespace plumb::cli

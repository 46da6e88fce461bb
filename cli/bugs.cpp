#include <fmt/format.h>

#include "cli/verbs.hpp"

namespace plumb {

void add_bugs(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("bugs", "the catalogue of bugs; one bug's story");
  static std::string id;
  verb->add_option("ID", id, "a bug");
  verb->callback([&chosen] {
    chosen = [] {
      if (id.empty()) {
        for (const Bug* bug : all_bugs()) fmt::print("{:<34} {}\n", bug->id, bug->title);
        return 0;
      }
      const Bug& bug = find_bug(id);
      fmt::print("{}\n{}\n\n{}\n\nseen in: {}\nneeds: {}, recipe {}\nhides when: {}\n", bug.id,
                 bug.title, bug.story, bug.seen_in, bug.needs.layout, bug.needs.recipe,
                 bug.hides_when);
      return 0;
    };
  });
}

}  // namespace plumb

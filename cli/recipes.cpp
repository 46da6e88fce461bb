#include <fmt/format.h>

#include "cli/verbs.hpp"
#include "model/spec/recipe.hpp"

namespace plumb::cli {
namespace {

void list() {
  for (const Recipe& recipe : all_recipes()) fmt::print("{:<16} {}\n", recipe.id, recipe.title);
}

void tell(const Recipe& recipe) {
  for (const auto& [field, value] : described(recipe)) fmt::print("{:<26} {}\n", field, value);
}

void differences(const Recipe& a, const Recipe& b) {
  const auto of_a = described(a), of_b = described(b);
  bool any = false;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i].second == of_b[i].second) continue;
    any = true;
    fmt::print("{}\n  {:<16} {}\n  {:<16} {}\n", of_a[i].first, a.id, of_a[i].second, b.id,
               of_b[i].second);
  }
  if (!any) fmt::print("{} and {} are equal\n", a.id, b.id);
}

}  // namespace

void add_recipes(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("recipes", "list the recipes; tell one; in what two differ");
  static std::string one, other;
  verb->add_option("A", one, "a recipe, or a file that ends in .json");
  verb->add_option("B", other, "another one");
  verb->callback([&chosen] {
    chosen = [] {
      if (one.empty()) {
        list();
      } else if (other.empty()) {
        tell(recipe_from(one));
      } else {
        differences(recipe_from(one), recipe_from(other));
      }
      return 0;
    };
  });
}

}  // namespace plumb::cli

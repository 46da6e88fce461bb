#include <fmt/format.h>

#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/verbs.hpp"
#include "model/spec/recipe.hpp"

namespace plumb::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

void list() {
  Rows rows;
  for (const Recipe& recipe : all_recipes()) rows.push_back({recipe.id, recipe.title});
  fmt::print("{}", in_columns({{}, {}}, rows));
}

void tell(const Recipe& recipe) {
  Rows rows;
  for (const auto& [field, value] : described(recipe)) rows.push_back({field, value});
  fmt::print("{}", in_columns({{}, {}}, rows));
}

void differences(const Recipe& a, const Recipe& b) {
  const auto of_a = described(a), of_b = described(b);
  bool any = false;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i].second == of_b[i].second) continue;
    any = true;
    fmt::print("{}\n{}", of_a[i].first,
               in_columns({{}, {}}, {{a.id, of_a[i].second}, {b.id, of_b[i].second}}, 2));
  }
  if (!any) fmt::print("{} and {} are equal\n", a.id, b.id);
}

void print_json(const std::vector<Recipe>& recipes) {
  nlohmann::json all = nlohmann::json::array();
  for (const Recipe& recipe : recipes) {
    nlohmann::json fields{{"id", recipe.id}, {"title", recipe.title}};
    for (const auto& [field, value] : described(recipe)) fields["fields"][field] = value;
    all.push_back(fields);
  }
  print_document("plumb-recipes/1", {{"recipes", all}});
}

void tell_those(const std::vector<Recipe>& asked) {
  if (asked.empty()) return list();
  asked.size() == 1 ? tell(asked[0]) : differences(asked[0], asked[1]);
}

}  // namespace

void add_recipes(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("recipes", "list the recipes; tell one; in what two differ");
  static std::string one, other;
  verb->add_option("A", one, "a recipe, or a file that ends in .json");
  verb->add_option("B", other, "another one");
  static bool as_json = false;
  add_json(*verb, as_json);
  verb->callback([&chosen] {
    chosen = [] {
      std::vector<Recipe> asked;
      for (const std::string& name : {one, other}) {
        if (!name.empty()) asked.push_back(recipe_from(name));
      }
      if (as_json) {
        print_json(asked.empty() ? all_recipes() : asked);
      } else {
        tell_those(asked);
      }
      return 0;
    };
  });
}

}  // namespace plumb::cli

#include "cli/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "number/outcome.hpp"

namespace plumb::cli {
namespace {

// Letters to insert, delete or change until one word is the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t(0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

void refuse_empty_values(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool cut = word.starts_with("--") && word.find('=') == word.size() - 1;
    if (!word.empty() && !cut) continue;
    const std::string before = cut     ? word.substr(0, word.size() - 1)
                               : i > 0 ? words[i - 1]
                                       : "plumb";
    throw Failure(before + " got an empty value; give it one or leave it out");
  }
}

void refuse_unknown_verb(const CLI::App& app, const std::vector<std::string>& words) {
  std::string known, nearest;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string& name = verb->get_name();
    if (!words.empty() && (words[0] == name || words[0].starts_with("-"))) return;
    known.append(known.empty() ? "" : ", ").append(name);
    if (words.empty()) continue;
    if (nearest.empty() || distance(words[0], name) < distance(words[0], nearest)) nearest = name;
  }
  if (words.empty()) throw Failure("say what to do: " + known + "; a first look: plumb demo");
  throw Failure("there is no verb '" + words[0] + "'; did you mean " + nearest +
                "? known: " + known);
}

}  // namespace plumb::cli

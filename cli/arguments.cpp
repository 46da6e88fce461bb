#include "cli/arguments.hpp"

#include <algorithm>
#include <cctype>

#include "cli/known.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::cli {
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

namespace {

std::vector<std::string> names_of_verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(app)) names.push_back(verb->get_name());
  return names;
}

// An option as typed, without a value: "--only" of "--only=a", "-o" of "-ofile". Empty: none.
std::string option_in(const std::string& word) {
  if (word.starts_with("--")) return word.substr(0, word.find('='));
  const bool letter = word.size() > 1 && word[0] == '-' && std::isalpha(word[1]) != 0;
  return letter ? word.substr(0, 2) : "";
}

void refuse_unknown_option(const CLI::App& of, const std::string& of_name,
                           const std::string& word) {
  const std::string option = option_in(word);
  if (option.empty() || option == "--") return;
  std::vector<std::string> known;
  for (const CLI::Option* each : of.get_options()) {
    if (each->check_name(option)) return;
    for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
  }
  const std::string meant = probably_meant(option, known);
  throw Failure(
      of_name + " has no option " + option +
      (meant.empty() ? "; see: " + of_name + " --help" : "; did you mean " + meant + "?"));
}

}  // namespace

void refuse_unknown_words(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<std::string> verbs = names_of_verbs(app);
  if (words.empty())
    throw Failure("say what to do: " + listed(verbs) + "; a first look: plumb demo");
  const bool known = std::ranges::find(verbs, words[0]) != verbs.end();
  if (!known && !words[0].starts_with("-")) {
    const std::string meant = probably_meant(words[0], verbs);
    throw Failure("there is no verb '" + words[0] + "'; " +
                  (meant.empty() ? "known: " + listed(verbs) : "did you mean " + meant + "?"));
  }
  const CLI::App& of = known ? *app.get_subcommand(words[0]) : app;
  const std::string name = known ? "plumb " + words[0] : "plumb";
  for (std::size_t i = known ? 1 : 0; i < words.size() && words[i] != "--"; ++i) {
    refuse_unknown_option(of, name, words[i]);
    if (!known) return;
  }
}

}  // namespace plumb::cli

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "cli/known.hpp"
#include "cli/verbs.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::cli {
namespace {

// Text for roff: no character of it is a request.
std::string plain(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == '\\') {
      all += "\\e";
    } else if (c == '-') {
      all += "\\-";
    } else {
      all += c;
    }
  }
  return (all.starts_with('.') || all.starts_with('\'') ? "\\&" : "") + all;
}

std::string section(const std::string& heading) { return ".SH \"" + heading + "\"\n"; }

// With a word in bold, and what is said of it below.
std::string entry(const std::string& word, const std::string& more, const std::string& text) {
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", plain(word), plain(more), plain(text));
}

std::string entry_of(const CLI::App& verb, const CLI::Option& option) {
  const auto format = std::dynamic_pointer_cast<CLI::Formatter>(verb.get_formatter());
  std::string text = option.get_description();
  const auto known = known_values(verb, option);
  const bool told = !known.empty() && text.find(known[0]) != text.npos;
  if (!known.empty() && known.size() <= 20 && !told) text += " [" + listed(known) + "]";
  return entry(fmt::format("{}", fmt::join(names_of(option), ", ")),
               format->make_option_opts(&option), text);
}

// Lines that begin with blanks stay as they are.
std::string footer_of(const CLI::App& app) {
  std::istringstream in(app.get_footer());
  std::string all;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) {
      all += ".PP\n";
    } else if (line.starts_with("  ")) {
      all += ".nf\n" + plain(line) + "\n.fi\n";
    } else {
      all += plain(line) + "\n.br\n";
    }
  }
  return all;
}

std::string beginning(const std::string& name, const std::string& what) {
  return fmt::format(".TH \"{}\" 1 \"\" \"plumb {}\" \"plumb\"\n{}{} \\- {}\n", plain(name),
                     PLUMB_VERSION, section("NAME"), plain(name), plain(what));
}

std::string options_of(const CLI::App& app) {
  std::string all = section("OPTIONS");
  for (const std::string& group : app.get_groups()) {
    const auto options = app.get_options([&](const CLI::Option* option) {
      return option->get_group() == group && !option->get_positional();
    });
    if (!options.empty() && group != "Options") all += ".SS \"" + plain(group) + "\"\n";
    for (const CLI::Option* option : options) all += entry_of(app, *option);
  }
  return all;
}

std::string page_of(const CLI::App& verb) {
  std::string page = beginning("plumb-" + verb.get_name(), verb.get_description()) +
                     section("SYNOPSIS") + "\\fBplumb " + plain(verb.get_name()) + "\\fR [OPTIONS]";
  const auto arguments = arguments_of(verb);
  for (const CLI::Option* argument : arguments) page += " " + plain(argument->get_name(true));
  page += "\n";
  if (!arguments.empty()) page += section("ARGUMENTS");
  for (const CLI::Option* argument : arguments) page += entry_of(verb, *argument);
  return page + options_of(verb) + section("NOTES") + footer_of(verb) + section("SEE ALSO") +
         ".BR plumb (1)\n";
}

std::string front_page(const CLI::App& app) {
  std::string page = beginning("plumb", app.get_description()) + section("SYNOPSIS") +
                     "\\fBplumb\\fR VERB [OPTIONS]\n" + section("VERBS");
  for (const CLI::App* verb : verbs_of(app)) {
    page += entry(verb->get_name(), "", verb->get_description());
  }
  return page + options_of(app) + section("ENVIRONMENT") +
         entry("NO_COLOR", "", "no colours, if it is set and not empty") +
         entry("CLICOLOR_FORCE", "", "colours where there is no terminal, if it is 1") +
         entry("COLUMNS", "", "width of the terminal") + section("NOTES") + footer_of(app);
}

// One file for the program and one for each verb.
void write_pages(const CLI::App& app, const std::filesystem::path& folder) {
  make_folders(folder);
  write_whole(folder / "plumb.1", front_page(app));
  for (const CLI::App* verb : verbs_of(app)) {
    write_whole(folder / ("plumb-" + verb->get_name() + ".1"), page_of(*verb));
  }
}

const CLI::App& verb_named(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(app)) {
    if (verb->get_name() == name) return *verb;
    names.push_back(verb->get_name());
  }
  throw Failure(unknown("verb", name, names));
}

}  // namespace

void add_manual(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("manual", "pages for man: the program's, or a verb's");
  static std::string name, folder;
  auto* one = verb->add_option("VERB", name, "a verb; without one the program's page");
  verb->add_option("--into", folder, "write all pages into this folder")->excludes(one);
  verb->footer("To read one: plumb manual check | man -l -. cmake --install puts all in place.");
  verb->callback([&chosen, &app] {
    chosen = [&app] {
      if (!folder.empty()) {
        write_pages(app, folder);
      } else {
        fmt::print("{}", name.empty() ? front_page(app) : page_of(verb_named(app, name)));
      }
      return 0;
    };
  });
}

}  // namespace plumb::cli

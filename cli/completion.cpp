#include <fmt/format.h>

#include "cli/known.hpp"
#include "cli/verbs.hpp"

namespace plumb::cli {
namespace {

// Behind the cases of the verbs. COMP_WORDS has "--recipe", "=", "bf16" for --recipe=bf16; of values
// with commas between the last one is completed; with no value known readline takes files.
constexpr const char* rest = R"(  esac
  [ "$word" = = ] && word=
  [ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD - 2]}
  if [ "$COMP_CWORD" = 1 ]; then
    values=$verbs
  elif [[ " $takes " == *" $before "* ]]; then
    values=${of[$before]-}
  elif [[ $word == -* ]]; then
    values=$options
  else
    for ((i = 2; i < COMP_CWORD; ++i)); do
      if [[ " $takes " == *" ${COMP_WORDS[i]} "* ]]; then
        ((++i))
      elif [[ ${COMP_WORDS[i]} != -* ]]; then
        ((++place))
      fi
    done
    values=${arguments[place]-}
  fi
  [[ $word == *,* ]] && first=${word%,*},
  COMPREPLY=($(compgen -P "$first" -W "$values" -- "${word#"$first"}"))
}
complete -o default -F _plumb plumb
)";

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string case_of(const CLI::App& verb) {
  std::vector<std::string> options, takes;
  std::string known, arguments;
  for (const CLI::Option* option : verb.get_options()) {
    const auto names = names_of(*option);
    const std::string values = joined(known_values(verb, *option));
    if (option->get_positional()) continue;
    options.insert(options.end(), names.begin(), names.end());
    if (!takes_value(*option)) continue;
    takes.insert(takes.end(), names.begin(), names.end());
    if (!values.empty()) known += fmt::format(" [{}]='{}'", names[0], values);
  }
  for (const CLI::Option* argument : arguments_of(verb)) {
    arguments += fmt::format(" '{}'", joined(known_values(verb, *argument)));
  }
  return fmt::format(
      "    {})\n      options='{}'\n      takes='{}'\n      of=({})\n      arguments=({})\n      ;;\n",
      verb.get_name(), joined(options), joined(takes), known, arguments);
}

std::string bash_script(const CLI::App& app) {
  std::vector<std::string> verbs;
  std::string cases;
  for (const CLI::App* verb : verbs_of(app)) {
    verbs.push_back(verb->get_name());
    cases += case_of(*verb);
  }
  cases += "    help) arguments=(\"$verbs\") ;;\n";
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : names_of(*option)) verbs.push_back(name);
  }
  return fmt::format(
      "# Completion of plumb for bash, made by: plumb completion bash\n_plumb() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}\n"
      "  local verbs='{} help' options= takes= values= first= i place=0 arguments=()\n"
      "  local -A of=()\n  case ${{COMP_WORDS[1]}} in\n{}{}",
      joined(verbs), cases, rest);
}

}  // namespace

void add_completion(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("completion", "what completes words of plumb in a shell");
  static std::string shell;
  verb->add_option("SHELL", shell, "bash")->required()->check(CLI::IsMember({"bash"}));
  verb->footer("In this shell: source <(plumb completion bash). cmake --install puts it in place.");
  verb->callback([&chosen, &app] {
    chosen = [&app] {
      fmt::print("{}", bash_script(app));
      return 0;
    };
  });
}

}  // namespace plumb::cli

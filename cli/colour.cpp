#include "cli/colour.hpp"

#include <fmt/color.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace plumb::cli {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// After no-color.org and bixense.com/clicolors.
bool takes_colours(std::FILE* to) {
  if (!variable("NO_COLOR").empty()) return false;
  const std::string_view force = variable("CLICOLOR_FORCE"), term = variable("TERM");
  if (!force.empty() && force != "0") return true;
  return isatty(fileno(to)) != 0 && !term.empty() && term != "dumb";
}

fmt::text_style style_of(Colour colour) {
  switch (colour) {
    case Colour::good:
      return fg(fmt::terminal_color::green);
    case Colour::bad:
      return fg(fmt::terminal_color::red);
    case Colour::notice:
      return fg(fmt::terminal_color::yellow);
    case Colour::heading:
      break;
  }
  return fmt::emphasis::bold;
}

struct Beginning {
  std::string_view words;
  Colour colour;
};

constexpr std::array beginnings{
    Beginning{"verdict: PASS", Colour::good},
    Beginning{"verdict: FAIL", Colour::bad},
    Beginning{"verdict: INCONCLUSIVE", Colour::notice},
    Beginning{"nothing to blame", Colour::good},
    Beginning{"blamed:", Colour::bad},
    Beginning{"wrong by itself:", Colour::bad},
    Beginning{"finding:", Colour::bad},
    Beginning{"note:", Colour::notice},
    Beginning{"undecided:", Colour::notice},
    Beginning{"not judged:", Colour::notice},
    Beginning{"left out,", Colour::notice},
    Beginning{"worst tensors", Colour::heading},
};

std::string painted_line(std::string_view line) {
  for (const auto& [words, colour] : beginnings) {
    if (!line.starts_with(words)) continue;
    return painted(colour, words) + std::string(line.substr(words.size()));
  }
  if (line.ends_with(":\n") && !line.starts_with(' ')) {
    return painted(Colour::heading, line.substr(0, line.size() - 1)) + "\n";
  }
  return std::string(line);
}

}  // namespace

std::string painted(Colour colour, std::string_view text, std::FILE* to) {
  if (!takes_colours(to)) return std::string(text);
  return fmt::format(style_of(colour), "{}", text);
}

std::string painted_lines(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    all += painted_line(text.substr(0, end));
    text.remove_prefix(end);
  }
  return all;
}

}  // namespace plumb::cli

#include "cli/columns.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "cli/colour.hpp"

namespace plumb::cli {
namespace {

constexpr std::size_t endless = std::numeric_limits<std::size_t>::max();

// Characters of a line of stdout; endless where it is no terminal.
std::size_t line_width() {
  winsize size{};
  if (isatty(1) == 0) return endless;
  const char* columns = std::getenv("COLUMNS");
  if (columns != nullptr && std::atoi(columns) > 0) return std::strtoul(columns, nullptr, 10);
  return ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : endless;
}

// Characters, of which UTF-8 may take several bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned>(c) & 0xC0U) != 0x80; }));
}

std::string padded(const std::string& cell, std::size_t width, bool right) {
  const std::string blanks(width - width_of(cell), ' ');
  return right ? blanks + cell : cell + blanks;
}

// The text on lines of so many characters, each but the first behind `before` blanks.
std::string wrapped(const std::string& text, std::size_t width, std::size_t before) {
  std::string all, word;
  std::size_t at = 0;
  for (std::size_t from = 0; from <= text.size(); from += word.size() + 1) {
    word = text.substr(from, text.find(' ', from) - from);
    const std::size_t long_is = width_of(word);
    if (at > 0 && at + 1 + long_is > width) {
      all += "\n" + std::string(before, ' ');
      at = 0;
    }
    all += (at > 0 ? " " : "") + word;
    at += long_is + (at > 0 ? 1 : 0);
  }
  return all;
}

}  // namespace

std::string in_columns(const std::vector<Column>& columns,
                       const std::vector<std::vector<std::string>>& rows, std::size_t indent) {
  const std::size_t last = columns.size() - 1;
  std::vector<std::size_t> widths;
  std::size_t before = indent;  // the last column
  for (std::size_t c = 0; c <= last; ++c) {
    std::size_t width = width_of(columns[c].heading);
    for (const auto& row : rows) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
    if (c < last) before += width + 2;
  }
  const std::size_t line = line_width(), least = 20;
  const bool wraps = !columns[last].numbers && line != endless && line >= before + least;
  const auto line_of = [&](const auto& cell_of) {
    std::string text(indent, ' ');
    for (std::size_t c = 0; c < last; ++c) {
      text += padded(cell_of(c), widths[c], columns[c].numbers) + "  ";
    }
    const std::string cell = cell_of(last);
    if (wraps) return text + wrapped(cell, line - before, before);
    return text + (columns[last].numbers ? padded(cell, widths[last], true) : cell);
  };
  std::string all;
  if (!columns[0].heading.empty()) {
    all =
        painted(Colour::heading, line_of([&](std::size_t c) { return columns[c].heading; })) + "\n";
  }
  for (const auto& row : rows) all += line_of([&](std::size_t c) { return row[c]; }) + "\n";
  return all;
}

}  // namespace plumb::cli

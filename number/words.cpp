#include "number/words.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace plumb {
namespace {

std::string small(std::string_view word) {
  std::string letters(word);
  for (char& c : letters) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

// Letters to insert, delete, change or swap with their neighbour until one word is the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const std::size_t change = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({change, d[i - 1][j] + 1, d[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d.back().back();
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all.append(all.empty() ? "" : ", ").append(name);
  return all;
}

std::string probably_meant(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t longest = 64;  // no name is
  const std::string typed = small(word.substr(0, longest));
  const std::size_t most = typed.size() < 3 ? 0 : typed.size() < 6 ? 1 : typed.size() < 12 ? 2 : 3;
  std::string best;
  std::size_t least = most + 1;
  for (const std::string& name : known) {
    const std::size_t away = distance(typed, small(name));
    if (away >= least) continue;
    least = away;
    best = name;
  }
  if (!best.empty() || typed.size() < 3) return best;
  const auto begins = [&](const std::string& name) { return small(name).starts_with(typed); };
  const auto first = std::ranges::find_if(known, begins);
  return std::ranges::count_if(known, begins) == 1 ? *first : "";
}

std::string unknown(std::string_view kind, std::string_view word,
                    const std::vector<std::string>& known) {
  const std::string meant = probably_meant(word, known);
  return "unknown " + std::string(kind) + " '" + std::string(word) + "'; " +
         (meant.empty() ? "known: " + listed(known) : "did you mean " + meant + "?");
}

std::string how_many(std::size_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + " " + (n == 1 ? one : many.empty() ? one + "s" : many);
}

int digits_to_tell(double a, double b) {
  const double needed = 2 + std::ceil(std::log10(std::fabs(a) / std::fabs(a - b)));
  return std::isfinite(needed) ? static_cast<int>(std::clamp(needed, 6.0, 17.0)) : 6;
}

}  // namespace plumb

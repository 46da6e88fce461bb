#include "paper_repro/growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>

#include "number/format.hpp"
#include "trace/levels.hpp"

namespace plumb::paper_repro {
namespace {

using Series = std::vector<std::pair<double, double>>;

// Both coordinates about their means, y as a logarithm.
Series centred(const Series& series) {
  Series logs;
  double mean_x = 0, mean_y = 0;
  for (const auto& [x, y] : series) {
    if (y > 0) logs.emplace_back(x, std::log(y));
  }
  const auto n = static_cast<double>(logs.size());
  for (const auto& [x, y] : logs) {
    mean_x += x / n;
    mean_y += y / n;
  }
  for (auto& [x, y] : logs) {
    x -= mean_x;
    y -= mean_y;
  }
  return logs;
}

// Sum of w_k e_i x_i e_(i+k) x_(i+k) over lags, weights falling to zero (Bartlett).
double spread_of(const Series& logs, double slope) {
  const auto lags = static_cast<std::size_t>(
      std::floor(4 * std::pow(static_cast<double>(logs.size()) / 100, 2.0 / 9)));
  const auto moment = [&](std::size_t i) {
    return (logs[i].second - slope * logs[i].first) * logs[i].first;
  };
  double sum = 0;
  for (std::size_t k = 0; k <= lags; ++k) {
    const double weight =
        (k == 0 ? 1 : 2) * (1 - static_cast<double>(k) / (static_cast<double>(lags) + 1));
    for (std::size_t i = 0; i + k < logs.size(); ++i) sum += weight * moment(i) * moment(i + k);
  }
  return std::max(sum, 0.0);
}

}  // namespace

Growth growth_of(const std::vector<Series>& series) {
  double xx = 0, xy = 0, points = 0, spread = 0;
  for (const Series& one : series) {
    for (const auto& [x, y] : centred(one)) {
      xx += x * x;
      xy += x * y;
      ++points;
    }
  }
  const double degrees = points - static_cast<double>(series.size()) - 1;
  if (points < 4 || degrees < 1 || xx == 0) {
    throw std::invalid_argument("growth needs four points or more");
  }
  const double slope = xy / xx;
  for (const Series& one : series) spread += spread_of(centred(one), slope);
  // The usual correction for what was fitted.
  const double off = std::sqrt(spread * points / degrees) / xx * student_quantile(0.025, degrees);
  return {std::exp(slope), std::exp(slope - off), std::exp(slope + off)};
}

std::vector<Depth> depths(const Evidence& evidence, const std::string& layout, int layers) {
  std::vector<Depth> found;
  std::map<std::tuple<std::string, std::string, std::string, std::string, int>, std::size_t> at;
  for (const Row& row : evidence.rows("error-growth")) {
    const int deep = static_cast<int>(row.number("layers"));
    if ((!layout.empty() && row["layout"] != layout) || (layers != 0 && deep != layers)) continue;
    const auto [place, is_new] = at.try_emplace(
        {row["family"], row["weights"], row["recipe"], row["layout"], deep}, found.size());
    if (is_new) {
      found.push_back({row["family"], row["weights"], row["recipe"], row["layout"], deep, {}});
    }
    found[place->second].rows.push_back(row);
  }
  if (found.empty()) throw NotMeasured{"rows of error-growth in " + layout};
  return found;
}

Growth growth_of(const Depth& depth, const std::string& column, Towards towards) {
  std::map<std::string, Series> by_seed;
  for (const Row& row : depth.rows) {
    const double layer = row.number("layer");
    by_seed[row["seed"]].emplace_back(towards == Towards::input ? depth.layers + 1 - layer : layer,
                                      row.number(column));
  }
  std::vector<Series> series;
  for (auto& [seed, one] : by_seed) {
    std::ranges::sort(one);
    series.push_back(std::move(one));
  }
  return growth_of(series);
}

double epsilon_of(const std::string& recipe) {
  const Format* own = find_format(recipe);
  return 2 * (own != nullptr ? *own : bf16).unit_roundoff();
}

std::string table(const std::vector<std::string>& heading,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string out = fmt::format("| {} |\n|", fmt::join(heading, " | "));
  for (std::size_t i = 0; i < heading.size(); ++i) out += "---|";
  out += "\n";
  for (const auto& row : rows) out += fmt::format("| {} |\n", fmt::join(row, " | "));
  return out;
}

}  // namespace plumb::paper_repro

#include "trace/signature.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "number/rounding.hpp"
#include "trace/sum_parts.hpp"

namespace plumb::trace {
namespace {

constexpr std::size_t few = 4;
constexpr double most_times = 64;

// Rows and columns [first, last).
struct Box {
  std::size_t row = 0, row_end = 0, col = 0, col_end = 0;
  std::size_t rows() const { return row_end - row; }
  std::size_t cols() const { return col_end - col; }
};

class Look {
 public:
  explicit Look(const Suspect& s) : s_(s), all_{0, s.truth.rows, 0, s.truth.cols} {}

  std::string name() const {
    const auto wrong = box_of_wrong();
    if (!wrong) return "";
    std::string seen;
    const auto first = [&](auto look) {
      if (seen.empty()) seen = look();
    };
    first([&] { return zeros(*wrong); });
    first([&] { return shorter(); });
    first([&] { return stale(); });
    first([&] { return times(*wrong); });
    if (informative(all_) < few) return seen;
    first([&] { return parts(); });
    first([&] { return bias(); });
    first([&] { return blocks(); });
    first([&] { return transposed(); });
    first([&] { return offset(); });
    return seen;
  }

 private:
  double got(std::size_t i, std::size_t j) const { return static_cast<double>(s_.got(i, j)); }

  struct Expected {
    double value, tolerance;
  };
  // `factor` times what should be at (i, j), with as much of its tolerance and a rounding of its own.
  Expected from(std::size_t i, std::size_t j, double factor = 1) const {
    const double value = factor * s_.truth(i, j), tolerance = std::fabs(factor) * s_.bound(i, j);
    return {value, factor == 1 ? tolerance : tolerance + ulp(std::fabs(value), s_.node.how.output)};
  }
  bool there(std::size_t i, std::size_t j, const Expected& e) const {
    return std::fabs(got(i, j) - e.value) <= e.tolerance;
  }
  template <class Hypothesis>
  bool all_there(const Box& in, const Hypothesis& expected) const {
    for (std::size_t i = in.row; i < in.row_end; ++i) {
      for (std::size_t j = in.col; j < in.col_end; ++j) {
        if (!there(i, j, expected(i, j))) return false;
      }
    }
    return true;
  }

  // Elements that are far above their own tolerance, so that a factor or a place shows.
  std::size_t informative(const Box& in) const {
    std::size_t count = 0;
    for (std::size_t i = in.row; i < in.row_end; ++i) {
      for (std::size_t j = in.col; j < in.col_end; ++j) {
        count += std::fabs(s_.truth(i, j)) > 8 * s_.bound(i, j) ? 1 : 0;
      }
    }
    return count;
  }

  std::optional<Box> box_of_wrong() const {
    Box box{all_.row_end, 0, all_.col_end, 0};
    for (std::size_t i = 0; i < all_.row_end; ++i) {
      for (std::size_t j = 0; j < all_.col_end; ++j) {
        if (there(i, j, from(i, j))) continue;
        box = {std::min(box.row, i), std::max(box.row_end, i + 1), std::min(box.col, j),
               std::max(box.col_end, j + 1)};
      }
    }
    if (box.row_end == 0) return {};
    return box;
  }

  std::string where(const Box& in) const {
    std::string text;
    if (in.rows() < all_.rows()) text += fmt::format(" in rows {} to {}", in.row, in.row_end - 1);
    if (in.cols() < all_.cols()) {
      text +=
          fmt::format("{} columns {} to {}", text.empty() ? " in" : ",", in.col, in.col_end - 1);
    }
    return text;
  }

  std::string zeros(const Box& wrong) const {
    for (std::size_t i = wrong.row; i < wrong.row_end; ++i) {
      for (std::size_t j = wrong.col; j < wrong.col_end; ++j) {
        if (!there(i, j, from(i, j)) && got(i, j) != 0) return "";
      }
    }
    return "0 wherever it is wrong" + where(wrong);
  }

  std::string shorter() const {
    if (s_.node.how.output != fp32) return "";
    for (const Format& format : {bf16, fp16}) {
      if (holds_only(format) && within_rounding_to(format)) {
        return fmt::format("rounded to {}, where fp32 was promised", format.name);
      }
    }
    return "";
  }
  // Numbers of that format, where what should be there is none.
  bool holds_only(const Format& format) const {
    std::size_t others = 0;
    for (std::size_t e = 0; e < s_.got.size(); ++e) {
      if (round_to(s_.got.values[e], format) != s_.got.values[e]) return false;
      const auto whole = static_cast<float>(s_.truth.values[e]);
      others += round_to(whole, format) != whole ? 1 : 0;
    }
    return others >= few;
  }
  bool within_rounding_to(const Format& format) const {
    for (std::size_t e = 0; e < s_.got.size(); ++e) {
      const double off = std::fabs(static_cast<double>(s_.got.values[e]) - s_.truth.values[e]);
      const double most = std::fabs(s_.truth.values[e]) + s_.bound.values[e];
      if (off > s_.bound.values[e] + ulp(most, format)) return false;
    }
    return true;
  }

  std::string times(const Box& wrong) const {
    if (informative(wrong) < few) return "";
    const auto [k, words] = nearest_factor(slope(wrong));
    const auto scaled = [&, k = k](std::size_t i, std::size_t j) { return from(i, j, k); };
    if (words.empty() || !all_there(wrong, scaled)) return "";
    return words + " what it should be" + where(wrong);
  }
  // Of what is there on what should be.
  double slope(const Box& in) const {
    double product = 0, square = 0;
    for (std::size_t i = in.row; i < in.row_end; ++i) {
      for (std::size_t j = in.col; j < in.col_end; ++j) {
        product += got(i, j) * s_.truth(i, j);
        square += s_.truth(i, j) * s_.truth(i, j);
      }
    }
    return product / square;
  }
  // No words: none of them is near.
  static std::pair<double, std::string> nearest_factor(double slope) {
    if (slope < 0) return {-1, "the negative of"};
    const double n = std::round(slope > 1 ? slope : 1 / slope);
    if (!(n >= 2 && n <= most_times)) return {1, ""};
    if (slope > 1) return {n, fmt::format("{:.0f} times", n)};
    return {1 / n, fmt::format("1/{:.0f} of", n)};
  }

  // Of a sum that ranks share.
  std::string parts() const {
    const SumParts sum(s_.node, s_.inputs, s_.output);
    for (std::size_t r = 0; r < sum.count(); ++r) {
      const std::string part = sum.name(r);
      const Matrix<double> rest = sum.without(r);
      const auto lacking = [&](std::size_t i, std::size_t j) {
        return Expected{rest(i, j), s_.bound(i, j)};
      };
      const auto twice = [&](std::size_t i, std::size_t j) {
        return Expected{2 * s_.truth(i, j) - rest(i, j), 2 * s_.bound(i, j)};
      };
      const auto only = [&](std::size_t i, std::size_t j) {
        return Expected{s_.truth(i, j) - rest(i, j), 2 * s_.bound(i, j)};
      };
      if (all_there(all_, lacking)) return "lacks " + part;
      if (all_there(all_, twice)) return "counts " + part + " twice";
      if (all_there(all_, only)) return "is " + part + " alone";
    }
    return "";
  }

  // Each part of a product added the bias, not one.
  std::string bias() const {
    if (!known_operation(s_.node.op).traits.one_product || s_.inputs.size() < 3) return "";
    const double more = s_.node.how.parts - 1;
    const auto added = [&](std::size_t i, std::size_t j) {
      const double value = s_.truth(i, j) + more * s_.inputs[2]->values[j];
      return Expected{value, 2 * s_.bound(i, j) + ulp(std::fabs(value), s_.node.how.output)};
    };
    if (more < 1 || !all_there(all_, added)) return "";
    return fmt::format("counts its bias {} times", s_.node.how.parts);
  }

  std::string stale() const {
    const std::string name = without_micro_batch(s_.id);
    if (name == s_.id) return "";
    for (const auto& [id, tensor] : s_.run) {
      if (id == s_.id || without_micro_batch(id) != name) continue;
      if (tensor->rows != s_.got.rows || tensor->cols != s_.got.cols) continue;
      if (tensor->values == s_.got.values) return "the same bits as " + id;
    }
    return "";
  }

  // Which block of the truth stands where block b of n should be; n: none that is known.
  std::size_t found_at(std::size_t b, std::size_t n, bool rows) const {
    const std::size_t size = (rows ? all_.rows() : all_.cols()) / n;
    const Box box = rows ? Box{b * size, (b + 1) * size, 0, all_.col_end}
                         : Box{0, all_.row_end, b * size, (b + 1) * size};
    if (informative(box) < few) return n;
    const auto holds = [&](std::size_t other) {
      return all_there(box, [&](std::size_t i, std::size_t j) {
        return rows ? from(i - b * size + other * size, j) : from(i, j - b * size + other * size);
      });
    };
    if (holds(b)) return b;
    for (std::size_t other = 0; other < n; ++other) {
      if (other != b && holds(other)) return other;
    }
    return n;
  }

  std::string blocks() const {
    for (const bool rows : {true, false}) {
      const std::size_t length = rows ? all_.rows() : all_.cols();
      for (std::size_t n = 2; n <= 16; ++n) {
        if (length % n != 0) continue;
        std::string order;
        bool known = true;
        for (std::size_t b = 0; b < n && known; ++b) {
          const std::size_t found = found_at(b, n, rows);
          known = found < n;
          order += fmt::format("{}{}", b == 0 ? "" : " ", found + 1);
        }
        if (known) {
          return fmt::format("made of the {} blocks of its {} in the order {}", n,
                             rows ? "rows" : "columns", order);
        }
      }
    }
    return "";
  }

  std::string transposed() const {
    if (all_.rows() != all_.cols()) return "";
    const bool is = all_there(all_, [&](std::size_t i, std::size_t j) { return from(j, i); });
    return is ? "its own transpose" : "";
  }

  std::string offset() const {
    for (double n = 2; n <= most_times; ++n) {
      const double by = std::log(n);
      for (const double sign : {1.0, -1.0}) {
        const auto moved = [&](std::size_t i, std::size_t j) {
          return Expected{s_.truth(i, j) + sign * by, s_.bound(i, j)};
        };
        if (all_there(all_, moved)) {
          return fmt::format("ln {:.0f} too {}", n, sign > 0 ? "large" : "small");
        }
      }
    }
    return "";
  }

  const Suspect& s_;
  Box all_;
};

}  // namespace

std::string looks_like(const Suspect& suspect) { return Look(suspect).name(); }

}  // namespace plumb::trace

#include "number/order.hpp"

#include <array>
#include <charconv>
#include <sstream>

namespace plumb {
namespace {

constexpr std::size_t largest = 9'999'999;
constexpr std::array joins{"sequential", "pairwise", "strided"};

// A whole number from 1, without a sign or a leading zero.
std::optional<std::size_t> count_in(const std::string& word) {
  std::size_t n = 0;
  const auto [end, wrong] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (wrong != std::errc() || end != word.data() + word.size()) return {};
  if (n == 0 || n > largest || word.front() == '0') return {};
  return n;
}

std::optional<Order::Join> join_in(const std::string& word) {
  for (std::size_t i = 0; i < joins.size(); ++i) {
    if (word == joins[i]) return static_cast<Order::Join>(i);
  }
  return {};
}

std::optional<Order> parse_words(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "sequential") return Order{};
  if (words.size() == 1 && words[0] == "pairwise") return Order{Order::Kind::pairwise};
  if (words.size() < 2) return {};
  const auto count = count_in(words[1]);
  if (!count) return {};
  if (words.size() == 2 && words[0] == "blocked") return Order{Order::Kind::blocked, *count};
  if (words.size() == 2 && words[0] == "split") return Order{Order::Kind::split, *count};
  if (words.size() != 3 || words[0] != "lanes") return {};
  const auto join = join_in(words[2]);
  if (!join) return {};
  return Order{.kind = Order::Kind::interleaved, .block = *count, .join = *join};
}

}  // namespace

std::optional<Order> parse_order(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  std::optional<std::size_t> up_to;
  const std::size_t n = words.size();
  if (n > 3 && words[n - 3] == "up" && words[n - 2] == "to") {
    up_to = count_in(words[n - 1]);
    if (!up_to) return {};
    words.resize(n - 3);
  }
  const bool swapped = words.size() > 1 && words.back() == "swapped";
  if (swapped) words.pop_back();
  std::optional<Order> order = parse_words(words);
  if (order) {
    order->up_to = up_to.value_or(0);
    order->swapped = swapped;
  }
  if (order && text_of(*order) != text) return {};  // other spaces
  return order;
}

std::string text_of(const Order& order) {
  const std::string count = std::to_string(order.block);
  const std::string end = std::string(order.swapped ? " swapped" : "") +
                          (order.up_to == 0 ? "" : " up to " + std::to_string(order.up_to));
  switch (order.kind) {
    case Order::Kind::pairwise:
      return "pairwise" + end;
    case Order::Kind::blocked:
      return "blocked " + count + end;
    case Order::Kind::split:
      return "split " + count + end;
    case Order::Kind::interleaved:
      return "lanes " + count + " " + joins[static_cast<std::size_t>(order.join)] + end;
    default:
      return "sequential" + end;
  }
}

}  // namespace plumb

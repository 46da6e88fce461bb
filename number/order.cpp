#include "number/order.hpp"

#include <string>

namespace plumb {

std::optional<Order> parse_order(std::string_view text) {
  if (text == "sequential") return Order{};
  if (text == "pairwise") return Order{Order::Kind::pairwise};
  constexpr std::string_view blocked = "blocked ";
  if (!text.starts_with(blocked)) return {};
  const std::string digits(text.substr(blocked.size()));
  const bool number = !digits.empty() && digits.size() < 8 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  if (!number || std::stoul(digits) == 0) return {};
  return Order{Order::Kind::blocked, std::stoul(digits)};
}

}  // namespace plumb

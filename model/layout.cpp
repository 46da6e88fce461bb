#include "model/layout.hpp"

#include <set>
#include <sstream>

#include "bounds/outcome.hpp"

namespace plumb {
namespace {

[[noreturn]] void refuse(const std::string& part) {
  throw Failure("layout part '" + part +
                "' is not understood; write for example dp2,tp2,sp: each of dpN, tpN (N from 1 to "
                "64) and sp at most once");
}

int degree(const std::string& part) {
  const std::string digits = part.substr(2);
  if (digits.empty() || digits.size() > 2 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    refuse(part);
  }
  const int n = std::stoi(digits);
  if (n < 1 || n > 64) refuse(part);
  return n;
}

void divides(int n, int size, const std::string& axis, const std::string& what) {
  if (size % n == 0) return;
  throw Failure(axis + std::to_string(n) + " does not divide the " + std::to_string(size) + " " +
                what + "; choose a degree that does");
}

}  // namespace

Layout parse_layout(const std::string& text) {
  Layout layout;
  std::set<std::string> seen;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string axis = part.substr(0, 2);
    if (!seen.insert(axis).second) refuse(part);
    if (part == "sp") {
      layout.sp = true;
    } else if (axis == "dp") {
      layout.dp = degree(part);
    } else if (axis == "tp") {
      layout.tp = degree(part);
    } else {
      refuse(part);
    }
  }
  return layout;
}

std::string name_of(const Layout& layout) {
  return "dp" + std::to_string(layout.dp) + ",tp" + std::to_string(layout.tp) +
         (layout.sp ? ",sp" : "");
}

void check_layout(const Layout& layout, const Config& c) {
  divides(layout.tp, c.heads, "tp", "heads");
  divides(layout.tp, c.kv_heads, "tp", "key/value heads");
  divides(layout.tp, c.hidden, "tp", "units of the MLP");
  divides(layout.tp, c.vocabulary, "tp", "rows of the vocabulary");
  divides(layout.dp, c.micro_batches, "dp", "micro-batches");
  if (layout.sp) divides(layout.tp, c.tokens(), "sp over tp", "tokens of a micro-batch");
}

}  // namespace plumb

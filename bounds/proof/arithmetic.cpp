#include "bounds/proof/arithmetic.hpp"

#include <fmt/format.h>

namespace plumb::bounds {

std::string Arithmetic::words() const {
  Arithmetic functions = *this, promised;
  functions.fuses = promised.fuses;
  if (functions == promised) return "";
  std::string text = fmt::format("exp within {} ulp", exp_ulp);
  if (exp_ulp_per_unit > 0) text += fmt::format(" and {} more a unit", exp_ulp_per_unit);
  text += fmt::format(", log {}, erf {}", log_ulp, erf_ulp);
  if (erf_absolute > 0) text += fmt::format(" and {:.2g}", erf_absolute);
  text += fmt::format(", tanh {}, quotients {}, roots {}", tanh_ulp, divide_ulp, sqrt_ulp);
  return text + (flushes ? "; subnormals flushed" : "; subnormals kept");
}

}  // namespace plumb::bounds

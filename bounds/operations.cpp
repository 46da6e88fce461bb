#include <array>
#include <numeric>
#include <stdexcept>

#include "bounds/number/moment.hpp"
#include "bounds/number/near.hpp"
#include "bounds/number/philox.hpp"
#include "bounds/operation.hpp"

namespace plumb {

#define OPERATION(name) extern const Operation name;
#include "bounds/operations.inc"
#undef OPERATION

std::span<const Operation* const> all_operations() {
  static constexpr std::array operations{
#define OPERATION(name) &name,
#include "bounds/operations.inc"
#undef OPERATION
  };
  return operations;
}

const Operation* find_operation(std::string_view id) {
  for (const Operation* operation : all_operations()) {
    if (operation->id == id) return operation;
  }
  return nullptr;
}

std::string_view name_of(Mode mode) {
  constexpr std::array names{"deterministic", "probabilistic", "moments"};
  return names[static_cast<std::size_t>(mode)];
}

namespace {
double attribute_of(const Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) {
    throw std::invalid_argument("the operation needs the attribute '" + std::string(name) + "'");
  }
  return found->second;
}
}  // namespace

template <class T>
double Call<T>::attribute(std::string_view name) const {
  return attribute_of(attributes, name);
}
template struct Call<float>;
template struct Call<double>;
template struct Call<Near>;
template struct Call<Moment>;
template struct Call<Truth>;

double ToleranceCall::attribute(std::string_view name) const {
  return attribute_of(attributes, name);
}

std::vector<std::size_t> dealt_rows(std::size_t n, const Deal& deal) {
  std::vector<std::size_t> rows;
  if (deal.key != 0 || deal.ranks == 1) {
    rows.resize(n);
    std::iota(rows.begin(), rows.end(), std::size_t(0));
    if (deal.key == 0) return rows;
    for (std::size_t i = n; i > 1; --i) {
      const auto j = static_cast<std::size_t>(uniform(deal.key, i) * static_cast<double>(i));
      std::swap(rows[i - 1], rows[j]);
    }
    return rows;
  }
  const auto ranks = static_cast<std::size_t>(deal.ranks);
  const auto sequence = static_cast<std::size_t>(deal.sequence);
  const std::size_t chunk = sequence / (2 * ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t first = 0; first < n; first += sequence) {
      for (const std::size_t c : {r, 2 * ranks - 1 - r}) {
        for (std::size_t i = 0; i < chunk; ++i) rows.push_back(first + c * chunk + i);
      }
    }
  }
  return rows;
}

template <class T>
Matrix<T> combined(std::vector<Matrix<T>>&& parts, const Evaluation& how, Roundings<T>& roundings) {
  if (parts.size() == 1) return std::move(parts[0]);
  roundings.before_parts(parts, how.wire);
  roundings.round(parts[0], how.wire);
  Matrix<T> total = std::move(parts[0]);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    roundings.round(parts[p], how.wire);
    for (std::size_t e = 0; e < total.size(); ++e) total.values[e] += parts[p].values[e];
    roundings.round(total, how.wire);
  }
  return total;
}
template Matrix<float> combined(std::vector<Matrix<float>>&&, const Evaluation&, Roundings<float>&);
template Matrix<double> combined(std::vector<Matrix<double>>&&, const Evaluation&,
                                 Roundings<double>&);
template Matrix<Near> combined(std::vector<Matrix<Near>>&&, const Evaluation&, Roundings<Near>&);
template Matrix<Moment> combined(std::vector<Matrix<Moment>>&&, const Evaluation&,
                                 Roundings<Moment>&);
template Matrix<Truth> combined(std::vector<Matrix<Truth>>&&, const Evaluation&, Roundings<Truth>&);

}  // namespace plumb

#include "bounds/examples/maker.hpp"

#include <cmath>

#include "number/outcome.hpp"

namespace plumb::bounds {
namespace {

// Each size is bounded before it is multiplied.
void limit(const std::vector<std::size_t>& shape, std::initializer_list<std::size_t> sizes,
           std::size_t most, const std::string& what) {
  std::size_t room = most;
  for (const std::size_t n : sizes) room /= n;
  if (room > 0) return;
  std::string text;
  for (const std::size_t n : shape) text += (text.empty() ? "" : "x") + std::to_string(n);
  throw Failure("shape '" + text + "' makes more than " + std::to_string(most) + " " + what +
                "; choose a smaller one");
}

}  // namespace

void Maker::drawn(std::size_t n, std::size_t m) {
  Matrix<double> x(n, m);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.values[i] = round_to(draw_(e.inputs.size(), i), format_, {.saturate = true});
  }
  e.inputs.push_back(std::move(x));
}

void Maker::weights(std::size_t n) {
  Matrix<double> w(n, 1);
  for (std::size_t i = 0; i < n; ++i) {
    w.values[i] = round_to(1 + 0.1 * normal_at(100 + e.inputs.size(), i), format_);
  }
  e.inputs.push_back(std::move(w));
}

void Maker::limit_values(std::initializer_list<std::size_t> of_matrix,
                         const std::string& what) const {
  limit(sizes, of_matrix, std::size_t(1) << 24, what);
}
void Maker::limit_products(std::initializer_list<std::size_t> of_operation) const {
  limit(sizes, of_operation, std::size_t(1) << 28, "products");
}
void Maker::need_columns(std::size_t n, const std::string& takes) const {
  if (cols % n != 0) throw Failure(e.id + " takes " + takes);
}

void one_table(Maker& m) { m.table(); }
void two_tables(Maker& m) {
  m.table();
  m.table();
}

}  // namespace plumb::bounds

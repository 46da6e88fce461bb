// bounds/examples/maker.hpp: what a card needs to make a call of itself in a shape that somebody
// asks for.
#pragma once

#include <initializer_list>
#include <string>

#include "bounds/examples/shaped.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

class Maker {
 public:
  Maker(std::vector<std::size_t> of_shape, const Format& format, const DrawAt& draw,
        Example& example)
      : sizes(std::move(of_shape)),
        rows(sizes[0]),
        cols(sizes[1]),
        e(example),
        format_(format),
        draw_(draw) {}

  std::vector<std::size_t> sizes;  // as asked for
  std::size_t rows, cols;          // the first two of them
  Example& e;

  // Adds what is drawn, in the inputs' format.
  void drawn(std::size_t n, std::size_t m);
  void table() { drawn(rows, cols); }
  // Adds n numbers about one.                                                        // (n, 1)
  void weights(std::size_t n);
  void filled(std::size_t n, std::size_t m, double with) { e.inputs.emplace_back(n, m, with); }

  // Throws Failure where the product of the sizes is more than a bound can be computed of. A bound
  // is computed from all of its values in FP64, beside the values themselves.
  void limit_values(std::initializer_list<std::size_t> of_matrix,
                    const std::string& what = "values in a matrix") const;
  void limit_products(std::initializer_list<std::size_t> of_operation) const;
  // Throws Failure, saying `takes`, unless the columns are a multiple of n.
  void need_columns(std::size_t n, const std::string& takes) const;

 private:
  const Format& format_;
  const DrawAt& draw_;
};

void one_table(Maker& m);
void two_tables(Maker& m);

}  // namespace plumb::bounds

// embedding: y_t = table[id_t], [+ position_{t mod S}]
//
//   inputs     ids (T, 1), table (V, D), [positions (S, D), [places (T, 1)]]        y (T, D)
//              places: which position each token has, where it is not t mod S
//   evaluate   a row is copied: exact in every layout; with positions one addition, one rounding
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/index.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const Matrix<T>& ids = call[0];
  const Matrix<T>& table = call[1];
  Matrix<T> y(ids.rows, table.cols);
  for (std::size_t t = 0; t < ids.rows; ++t) {
    const std::size_t id = index_of(ids.values[t], table.rows, "embedding: an id");
    for (std::size_t j = 0; j < y.cols; ++j) y(t, j) = table(id, j);
    if (call.inputs.size() < 3) continue;
    const Matrix<T>& positions = call[2];
    const std::size_t place = call.inputs.size() == 3 ? t % positions.rows
                                                      : index_of(call[3].values[t], positions.rows,
                                                                 "embedding: a position");
    for (std::size_t j = 0; j < y.cols; ++j) y(t, j) += positions(place, j);
  }
  if (call.inputs.size() >= 3) call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

void random(RandomCall& c) {
  c.add(c.draw.whole(c.rows, 7));
  c.give(7, c.cols);
  if (c.draw.coin()) c.give(5, c.cols);
  if (c.e.inputs.size() == 3 && c.draw.coin()) c.add(c.draw.whole(c.rows, 5));
}

// ROWS tokens of a table with as many rows.
void shaped(Maker& m) {
  m.filled(m.rows, 1, 0);
  for (std::size_t t = 0; t < m.rows; ++t) {
    m.e.inputs.back().values[t] = static_cast<double>(t * 7 % m.rows);
  }
  m.table();
}

}  // namespace

extern const Operation embedding{
    .id = "embedding",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.kind = Kind::residual},
    .schema = {.inputs = {{"ids", "T", "1"},
                          {"table", "V", "D"},
                          optional({"positions", "S", "D"}),
                          optional({"places", "T", "1"})},
               .outputs = {{"y", "T", "D"}}},
    .examples = {.random = random, .shaped = shaped},
};

}  // namespace plumb::bounds

// embedding: y_t = table[id_t], [+ position_{t mod S}]
//
//   inputs     ids (T, 1), table (V, D), [positions (S, D), [places (T, 1)]]        y (T, D)
//              places: which position each token has, where it is not t mod S
//   evaluate   a row is copied: exact in every layout; with positions one addition, one rounding
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const Matrix<T>& ids = call[0];
  const Matrix<T>& table = call[1];
  Matrix<T> y(ids.rows, table.cols);
  for (std::size_t t = 0; t < ids.rows; ++t) {
    const auto id = static_cast<std::size_t>(ids.values[t]);
    for (std::size_t j = 0; j < y.cols; ++j) y(t, j) = table(id, j);
    if (call.inputs.size() < 3) continue;
    const Matrix<T>& positions = call[2];
    const std::size_t place =
        call.inputs.size() == 3 ? t % positions.rows : static_cast<std::size_t>(call[3].values[t]);
    for (std::size_t j = 0; j < y.cols; ++j) y(t, j) += positions(place, j);
  }
  if (call.inputs.size() >= 3) call.roundings.round(y, call.how.output);
  return {std::move(y)};
}

}  // namespace

extern const Operation embedding{
    .id = "embedding",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<Truth>,
    .tolerance = tolerance_by<evaluate<Near>, evaluate<Moment>>,
    .sums = SumOrder::none,
    .traits = {.kind = Kind::residual},
    .schema = {.inputs = {{"ids", "T", "1"},
                          {"table", "V", "D"},
                          optional({"positions", "S", "D"}),
                          optional({"places", "T", "1"})},
               .outputs = {{"y", "T", "D"}}},
};

}  // namespace plumb::bounds

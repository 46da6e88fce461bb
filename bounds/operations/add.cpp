// add: y = a + b, one rounding
//
//   inputs   a, b        a, b, y (N, M)
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const auto& other = call[1].values;
  Matrix<T> y = call[0];
  for (std::size_t e = 0; e < y.size(); ++e) y.values[e] += other[e];
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

}  // namespace

extern const Operation add{
    .id = "add",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .traits = {.kind = Kind::residual},
    .schema = {.inputs = {{"a", "N", "M"}, {"b", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = two_tables, .shaped = two_tables},
};

}  // namespace plumb::bounds

// cast: y = x rounded to the output format
//
//   inputs   x (N, M)        y (N, M)
#include "bounds/tolerance.hpp"

namespace plumb {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  Matrix<T> y = call[0];
  call.roundings.round(y, call.how.output);
  return {std::move(y)};
}

}  // namespace

extern const Operation cast{"cast", evaluate<float>, evaluate<double>, evaluate<Truth>,
                            tolerance_by<evaluate<Near>, evaluate<Moment>>};

}  // namespace plumb

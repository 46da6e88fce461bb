#include "bounds/operations/stacked.hpp"

namespace plumb::bounds {
StackedTolerance::StackedTolerance(const ToleranceCall& call)
    : call_(call), all_{call.mode, call.mode == Mode::probabilistic ? call.delta : 0, {}, {}, {}} {
  all_.bound.emplace_back();
  all_.terms.emplace_back();
  if (call.mode == Mode::moments) all_.bias.emplace_back();
}

std::optional<Refusal> StackedTolerance::add(std::vector<const Matrix<double>*> inputs,
                                             const std::vector<Matrix<double>>& values,
                                             std::size_t products) {
  const double share = all_.delta / static_cast<double>(products);
  const std::size_t first = all_.bound[0].size(), here = values[0].size();
  const bool explained = call_.explained && call_.explained->element >= first &&
                         call_.explained->element - first < here;
  ToleranceCall of_one = call_;
  of_one.inputs = std::move(inputs);
  of_one.delta = share;
  of_one.values = values;
  of_one.explained.reset();
  if (explained) of_one.explained = Place{0, call_.explained->element - first};
  const Outcome<Tolerance> one = find_operation("gemm")->tolerance(of_one);
  const std::size_t i = added_++;
  if (!one) {
    return Refusal{one.error().why, "product " + std::to_string(i) + ": " + one.error().detail};
  }
  put_below(all_.bound[0], one->bound[0]);
  if (call_.mode == Mode::moments) put_below(all_.bias[0], one->bias[0]);
  double largest = 0;
  for (const double b : one->bound[0].values) largest = std::max(largest, b);
  if (call_.explained ? explained : largest > largest_) {
    largest_ = largest;
    all_.terms[0] = one->terms[0];
  }
  return {};
}

void StackedTolerance::add_exact(std::size_t rows, std::size_t cols) {
  const Matrix<double> none(rows, cols);
  put_below(all_.bound[0], none);
  if (call_.mode == Mode::moments) put_below(all_.bias[0], none);
}

}  // namespace plumb::bounds

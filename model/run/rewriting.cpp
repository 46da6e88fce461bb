#include "model/run/rewriting.hpp"

#include <cmath>

#include "model/plan/plan.hpp"
#include "model/plan/rewriting.hpp"
#include "number/philox.hpp"
#include "trace/execute.hpp"

namespace plumb::model {
namespace {

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments_of_column(const Tensor& x, std::size_t column) {
  Moments m;
  const auto rows = static_cast<double>(x.rows);
  for (std::size_t i = 0; i < x.rows; ++i) m.mean += static_cast<double>(x(i, column)) / rows;
  for (std::size_t i = 0; i < x.rows; ++i) {
    const double off = static_cast<double>(x(i, column)) - m.mean;
    m.deviation += off * off / rows;
  }
  m.deviation = std::sqrt(m.deviation);
  return m;
}

Tensor generated(const Tensor& like, const Format& format, std::uint64_t key) {
  Tensor x(like.rows, like.cols);
  for (std::size_t j = 0; j < x.cols; ++j) {
    const Moments m = moments_of_column(like, j);
    for (std::size_t i = 0; i < x.rows; ++i) {
      x(i, j) = static_cast<float>(m.mean + m.deviation * normal(key, i * x.cols + j));
    }
  }
  RealRoundings().round(x, format);
  return x;
}

void refuse_not_finite(const std::string& id, const Tensor& x) {
  for (const float v : x.values) {
    if (std::isfinite(v)) continue;
    throw Failure("the reference's '" + id +
                  "' is not finite, so no run can be rewritten by it; take a step whose gradients "
                  "are in range");
  }
}

}  // namespace

Start rewritten(Start start, Rewriting how) {
  if (how == Rewriting::none) return start;
  Training single = start.run;
  single.layout = {};
  single.rewriting = Rewriting::none;
  const Graph graph = plan(single);
  const Values made = reference(graph, start.leaves, {Phase::backward});
  const std::uint64_t of_step =
      key_of(start.run.config.seed, "rewriting") + static_cast<std::uint64_t>(start.run.step);
  for (const auto& [id, format] : handed_on(graph)) {
    const Tensor& x = *made.at(id);
    refuse_not_finite(id, x);
    start.leaves[rewritten_id(id)] =
        how == Rewriting::reference
            ? made.at(id)
            : std::make_shared<const Tensor>(generated(x, format, key_of(of_step, id)));
  }
  start.run.rewriting = how;
  return start;
}

}  // namespace plumb::model

// dropout: y = x / (1 - rate) where chance keeps an element, 0 elsewhere; its own gradient
//
//   inputs       x (N, M)        y (N, M)
//   attributes   rate: of elements left out, in [0, 1); key: element e of the whole tensor is kept
//                where uniform(key, e) >= rate, so that no layout changes a mask
//   evaluate     one product with the FP32 number next to 1 / (1 - rate), one rounding
#include <array>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"
#include "number/philox.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const double rate = call.attribute("rate");
  const auto key = static_cast<std::uint64_t>(call.attribute("key"));
  const T factor = static_cast<T>(1 / (1 - rate));
  Matrix<T> y(call[0].rows, call[0].cols);
  for (std::size_t e = 0; e < y.size(); ++e) {
    if (uniform(key, e) >= rate) y.values[e] = call[0].values[e] * factor;
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

void random(RandomCall& c) {
  constexpr std::array rates{0.1, 0.3, 0.6};
  c.table();
  c.e.attributes["rate"] = rates[c.draw.between(0, 2)];
  c.e.attributes["key"] = c.whole(0, 1U << 30);
}
void shaped(Maker& m) {
  m.table();
  m.e.attributes = {{"rate", 0.1}, {"key", 1}};
}

}  // namespace

extern const Operation dropout{
    .id = "dropout",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}},
               .outputs = {{"y", "N", "M"}},
               .attributes = {real("rate"), key("key")}},
    .examples = {.random = random, .shaped = shaped},
};

}  // namespace plumb::bounds

// cast: y = x rounded to the output format
//
//   inputs       x (N, M)        y (N, M)
//   attributes   key (optional): rounded stochastically, element e with random_word(key, e)
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  Matrix<T> y = call[0];
  call.roundings.round_as(y, call.how.output, {false, call.random_key()});
  return as_outputs(std::move(y));
}

void random(RandomCall& c) {
  c.table();
  if (c.draw.coin()) c.e.attributes["key"] = c.whole(0, 1U << 30);
}

}  // namespace

extern const Operation cast{
    .id = "cast",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}},
               .outputs = {{"y", "N", "M"}},
               .attributes = {or_else(key("key"))}},
    .examples = {.random = random, .shaped = one_table},
};

}  // namespace plumb::bounds

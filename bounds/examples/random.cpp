#include "bounds/examples/random.hpp"

#include <array>

namespace plumb::bounds {

RandomCall::RandomCall(Example& example, Draw& from) : e(example), draw(from) {
  constexpr std::array parts{1, 2, 4};
  in = draw.coin() ? bf16 : fp32;
  e.how = {parts[draw.between(0, 2)], draw.coin() ? bf16 : fp32, draw.coin() ? bf16 : fp32};
  rows = draw.between(1, 12);
  cols = 2 * draw.between(1, 24);
}

void RandomCall::logits(std::size_t n) {
  moderate(rows, n, draw.kind() == "spread" ? 40 : 3);
  if (draw.kind() == "tiny") e.inputs.back() = draw.matrix(rows, n);
}

void RandomCall::shard_tokens(std::size_t sequence) {
  if (draw.coin() || sequence % 4 != 0) return;
  e.how.tokens = {2, static_cast<int>(sequence)};
  e.how.parts = std::max(e.how.parts, 2);
}

bool RandomCall::documents(std::size_t sequence) {
  if (draw.coin()) return false;
  Matrix<double> places(e.inputs[0].rows, 1);
  for (std::size_t t = 0; t < places.rows; ++t) {
    const bool begins = t % sequence == 0 || draw.between(0, 3) == 0;
    places.values[t] = begins ? 0 : places.values[t - 1] + 1;
  }
  add(std::move(places));
  return true;
}

void one_table(RandomCall& c) { c.table(); }
void two_tables(RandomCall& c) {
  c.table();
  c.table();
}
void table_to_cube(RandomCall& c) {
  if (c.draw.kind() == "huge") return c.moderate(c.rows, c.cols, 1e9);
  c.table();
}
void tables_to_cube(RandomCall& c) {
  table_to_cube(c);
  table_to_cube(c);
}

}  // namespace plumb::bounds

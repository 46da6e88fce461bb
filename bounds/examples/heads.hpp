// bounds/examples/heads.hpp: packed query, key and value heads, for the calls of rope and
// attention.
#pragma once

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

struct HeadsSize {
  std::size_t tokens, cols;
};

// Adds the attributes of random heads in sequences.
inline HeadsSize random_heads(RandomCall& c) {
  const std::size_t kv = c.draw.between(1, 2);
  const std::size_t heads = kv * c.draw.between(1, 3);
  const std::size_t dim = 2 * c.draw.between(1, 12);
  const std::size_t sequence = c.draw.between(1, 24);
  const std::size_t tokens = sequence * c.draw.between(1, 2);
  c.e.attributes = {{"heads", heads},       {"kv_heads", kv}, {"head_dim", dim},
                    {"sequence", sequence}, {"base", 10000},  {"inverse", c.draw.coin()}};
  c.one_part();
  return {tokens, (heads + 2 * kv) * dim};
}

// Adds one head of each kind, for the SEQUENCExF that was asked for.
inline void shaped_heads(Maker& m) {
  m.limit_values({m.rows, m.rows}, "scores");
  m.need_columns(6, "SEQUENCExF with F = 3 head_dim, head_dim even");
  m.table();
  m.e.attributes = {{"heads", 1},
                    {"kv_heads", 1},
                    {"head_dim", static_cast<double>(m.cols / 3)},
                    {"sequence", static_cast<double>(m.rows)},
                    {"base", 10000},
                    {"inverse", 0}};
}

}  // namespace plumb::bounds

// bounds/operations/packing.hpp: columns of packed qkv that lie together in another tensor, and
// calls of the operations that move them.
#pragma once

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operation.hpp"
#include "bounds/operations/attention.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// Columns of packed qkv that lie together in another tensor, too.
struct Run {
  std::size_t packed, apart, length;
};

inline std::vector<Run> of_queries(const PackedHeads& at) {
  std::vector<Run> runs;
  for (std::size_t h = 0; h < at.heads; ++h) runs.push_back({at.query(h), h * at.dim, at.dim});
  return runs;
}

inline std::vector<Run> of_keys_and_values(const PackedHeads& at, std::size_t shared) {
  std::vector<Run> runs;
  const std::size_t own = at.dim - shared;
  for (std::size_t h = 0, apart = 0; h < at.heads; h += at.ratio(), apart += own + at.dim) {
    runs.push_back({at.key(h), apart, own});
    runs.push_back({at.value(h), apart + own, at.dim});
  }
  return runs;
}

inline std::vector<Run> of_shared_keys(const PackedHeads& at, std::size_t shared) {
  std::vector<Run> runs;
  for (std::size_t h = 0; h < at.heads; h += at.ratio()) {
    runs.push_back({at.key(h) + at.dim - shared, 0, shared});
  }
  return runs;
}

template <class T>
void put(const Matrix<T>& apart, const std::vector<Run>& runs, Matrix<T>& packed) {
  for (std::size_t t = 0; t < packed.rows; ++t) {
    for (const Run& r : runs) {
      std::copy_n(apart.row(t) + r.apart, r.length, packed.row(t) + r.packed);
    }
  }
}

template <class T>
void take(const Matrix<T>& packed, const std::vector<Run>& runs, Matrix<T>& apart) {
  for (std::size_t t = 0; t < packed.rows; ++t) {
    for (const Run& r : runs) {
      std::copy_n(packed.row(t) + r.packed, r.length, apart.row(t) + r.apart);
    }
  }
}

// Throws std::invalid_argument if keys do not have so many columns.
inline void refuse_wider(std::size_t shared, const PackedHeads& at) {
  if (shared > at.dim) throw std::invalid_argument("heads share more columns than a key has");
}

// Adds attributes; with parts each rank has a key.
inline void random_heads(RandomCall& c, std::size_t least_shared) {
  const std::size_t kv = static_cast<std::size_t>(c.e.how.parts) * c.draw.between(1, 3);
  const std::size_t heads = kv * c.draw.between(1, 2), dim = 2 * c.draw.between(1, 4);
  const std::size_t shared = c.draw.between(least_shared, dim - 1);
  c.e.attributes = {{"heads", heads}, {"kv_heads", kv}, {"head_dim", dim}, {"shared", shared}};
}

inline std::size_t size(const Example& e, const char* name) {
  return static_cast<std::size_t>(e.attributes.at(name));
}

inline void give_packed(RandomCall& c) {
  c.give(c.rows, (size(c.e, "heads") + 2 * size(c.e, "kv_heads")) * size(c.e, "head_dim"));
}

// Heads of two columns; of a key the second is shared.
inline void shaped_packing(Maker& m) {
  m.need_columns(6, "ROWSxF with F = 6 heads");
  const auto n = static_cast<double>(m.cols / 6);
  m.e.attributes = {{"heads", n}, {"kv_heads", n}, {"head_dim", 2}, {"shared", 1}};
}

inline void shaped_split(Maker& m) {
  shaped_packing(m);
  m.table();
}

}  // namespace plumb::bounds

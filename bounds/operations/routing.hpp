// bounds/operations/routing.hpp: where each token's copies lie among the rows that experts take.
//
//   ids (T, k): the experts of each token. The T k rows lie by expert, then by token, then by slot;
//   an expert may have none. A copy that no expert takes has the id E; such rows come last, and are
//   zeros: the shape does not depend on the choice.
// TESTED   tests/bounds/operations/routing_test.cpp
#pragma once

#include <vector>

#include "bounds/operation.hpp"
#include "bounds/operations/index.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// Throws std::invalid_argument if the id is none of `experts`.
template <class T>
std::size_t expert_of(const T& id, std::size_t experts) {
  return index_of(id, experts, "routing: an expert");
}

// Has the copy with this id been dropped? Throws as expert_of.
template <class T>
bool is_dropped(const T& id, std::size_t experts) {
  return expert_of(id, experts + 1) == experts;
}

struct Routing {
  std::size_t slots = 0;
  std::vector<std::size_t> rows;   // of the copy in slot j of token t: rows[t slots + j]
  std::vector<std::size_t> first;  // expert e has the rows from first[e] to first[e + 1]

  std::size_t row(std::size_t token, std::size_t slot) const { return rows[token * slots + slot]; }
  bool dropped(std::size_t token, std::size_t slot) const {
    return row(token, slot) >= first.back();
  }
};

template <class T>
Routing routing_of(const Matrix<T>& ids, std::size_t experts) {
  Routing routing{ids.cols, std::vector<std::size_t>(ids.size()),
                  std::vector<std::size_t>(experts + 1)};
  for (const T& id : ids.values) {
    if (!is_dropped(id, experts)) ++routing.first[expert_of(id, experts) + 1];
  }
  for (std::size_t e = 0; e < experts; ++e) routing.first[e + 1] += routing.first[e];
  std::vector<std::size_t> next = routing.first;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    routing.rows[i] = next[expert_of(ids.values[i], experts + 1)]++;
  }
  return routing;
}

// Parts the rows [first, last), numbered from 0, as the tokens are whose copies they are.
inline SumPartition parted_rows(const Routing& routing, const Slice& rows,
                                const SumPartition& tokens) {
  SumPartition own{{}, {0}};
  std::vector<bool> here(routing.rows.size());
  for (std::size_t p = 0; p + 1 < tokens.begins.size(); ++p) {
    here.assign(here.size(), false);
    for (std::size_t i = tokens.begins[p]; i < tokens.begins[p + 1]; ++i) {
      for (std::size_t j = 0; j < routing.slots; ++j) here[routing.row(tokens.order[i], j)] = true;
    }
    for (std::size_t r = rows.first; r < rows.last; ++r) {
      if (here[r]) own.order.push_back(r - rows.first);
    }
    own.begins.push_back(own.order.size());
  }
  return own;
}

}  // namespace plumb::bounds

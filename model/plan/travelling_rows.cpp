#include "model/plan/travelling_rows.hpp"

#include <algorithm>

#include "bounds/operations/routing.hpp"

namespace plumb::model {

std::vector<std::size_t> tokens_of_context(const Config& c, const Layout& l, int context,
                                           std::size_t tokens) {
  const auto length = static_cast<std::size_t>(c.sequence);
  const auto chunks = static_cast<std::size_t>(l.cp == 1 ? 1 : 2 * l.cp);
  const auto first = static_cast<std::size_t>(context);
  std::vector<std::size_t> rows;
  for (std::size_t start = 0; start < tokens; start += length) {
    for (const std::size_t chunk : {first, chunks - 1 - first}) {
      for (std::size_t i = 0; i < length / chunks; ++i) {
        rows.push_back(start + chunk * (length / chunks) + i);
      }
      if (chunks == 1) break;
    }
  }
  return rows;
}

std::vector<std::size_t> rows_of_copies(const Config& c, const Layout& l, const Tensor& ids,
                                        const Travellers& of) {
  const auto experts = static_cast<std::size_t>(c.experts);
  const bounds::Routing of_all = bounds::routing_of(ids, experts);
  std::vector<std::size_t> own = tokens_of_context(c, l, of.context, ids.rows);
  if (l.whole_experts) {
    const auto share = static_cast<std::ptrdiff_t>(own.size()) / l.tp;
    own = {own.begin() + share * of.tp, own.begin() + share * (of.tp + 1)};
  }
  Tensor own_ids(own.size(), ids.cols);
  for (std::size_t t = 0; t < own.size(); ++t) {
    std::copy_n(ids.row(own[t]), ids.cols, own_ids.row(t));
  }
  const bounds::Routing of_own = bounds::routing_of(own_ids, experts);
  std::vector<std::size_t> places(own_ids.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[of_own.rows[i]] = of_all.row(own[i / ids.cols], i % ids.cols);
  }
  const std::size_t each = experts / static_cast<std::size_t>(l.ep);
  const auto g = static_cast<std::size_t>(of.group);
  const std::size_t first = of_own.first[g * each];
  const std::size_t last = of.group + 1 == l.ep ? places.size() : of_own.first[(g + 1) * each];
  return {places.begin() + static_cast<std::ptrdiff_t>(first),
          places.begin() + static_cast<std::ptrdiff_t>(last)};
}

}  // namespace plumb::model

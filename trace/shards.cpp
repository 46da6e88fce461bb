#include "trace/shards.hpp"

#include <algorithm>
#include <limits>

#include "trace/merge.hpp"

namespace plumb::trace {
namespace {

// Runs of columns, row by row, as long as they get.
std::vector<Block> rows_of(const Placement& p) {
  std::vector<Block> rows;
  for (const Piece& piece : p.pieces) {
    const Block& g = piece.global;
    for (std::size_t i = 0; i < g.rows && g.cols > 0; ++i)
      rows.push_back({g.row + i, g.col, 1, g.cols});
  }
  std::ranges::sort(rows, [](const Block& a, const Block& b) {
    return std::pair(a.row, a.col) < std::pair(b.row, b.col);
  });
  std::vector<Block> joined;
  for (const Block& b : rows) {
    const bool next = !joined.empty() && joined.back().row == b.row &&
                      joined.back().col + joined.back().cols == b.col;
    if (next) {
      joined.back().cols += b.cols;
    } else {
      joined.push_back(b);
    }
  }
  return joined;
}

bool empty(const Placement& p) {
  return std::ranges::all_of(p.pieces, [](const Piece& piece) {
    return piece.global.rows == 0 || piece.global.cols == 0;
  });
}

std::string in_words(const Placement& p) {
  if (empty(p)) return "nothing";
  const Block& first = p.pieces.front().global;
  const std::string more =
      p.pieces.size() == 1 ? "" : " and " + std::to_string(p.pieces.size() - 1) + " more pieces";
  return size_of(first.rows, first.cols) + " at (" + std::to_string(first.row) + ", " +
         std::to_string(first.col) + ")" + more;
}

// Why a rank's record is not what was promised; empty if it is.
std::string wrong(const RankRecord& record, const std::string& id, const PromisedShard& promised) {
  const auto found = record.shards.find(id);
  if (promised.made && !record.ran.contains(id)) return "does not say how it computed it";
  if (found == record.shards.end()) {
    return empty(promised.lies) ? "" : "holds none of it, the promise: " + in_words(promised.lies);
  }
  const Placement& lies = found->second.placement;
  if (lies.parts == 1 && same_elements(lies, promised.lies)) return "";
  return "holds " + in_words(lies) + ", the promise: " + in_words(promised.lies);
}

}  // namespace

bool same_elements(const Placement& a, const Placement& b) {
  if (a.rows != b.rows || a.cols != b.cols) return false;
  const auto globals_equal = [](const Piece& x, const Piece& y) { return x.global == y.global; };
  return std::ranges::equal(a.pieces, b.pieces, globals_equal) || rows_of(a) == rows_of(b);
}

std::vector<Finding> misplaced(const Trace& trace, const Shards& promised) {
  struct Seen {
    std::string why;
    std::size_t first = 0, ranks = 0;
  };
  std::map<std::string, Seen> seen;
  const auto note = [&](const std::string& id, std::size_t rank, const std::string& why) {
    if (why.empty()) return;
    Seen& s = seen[std::string(without_recompute(id))];
    if (s.ranks++ > 0) return;
    s.first = rank;
    s.why = "rank " + std::to_string(rank) + " " + why;
  };
  for (std::size_t rank = 0; rank < std::min(trace.ranks.size(), promised.size()); ++rank) {
    const RankRecord& record = trace.ranks[rank];
    for (const auto& [id, shard] : promised[rank]) note(id, rank, wrong(record, id, shard));
    for (const auto& [id, shard] : record.shards) {
      if (!promised[rank].contains(id)) note(id, rank, "holds it, and was promised none of it");
    }
  }
  std::vector<Finding> findings;
  for (const auto& [id, s] : seen) {
    const std::string more = s.ranks == 1 ? "" : " (" + std::to_string(s.ranks) + " ranks differ)";
    Finding finding{id, "structure", std::numeric_limits<double>::infinity(), s.why + more};
    finding.rank = static_cast<int>(s.first);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plumb::trace

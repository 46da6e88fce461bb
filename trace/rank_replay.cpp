#include "trace/rank_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>

#include "number/outcome.hpp"

namespace plumb::trace {
namespace {

using Clock = std::chrono::steady_clock;

bool is_whole(const Shard& shard) {
  const Placement& p = shard.placement;
  const Block all{0, 0, p.rows, p.cols};
  return !shard.in_file && p.parts == 1 && p.pieces == std::vector<Piece>{{all, all}};
}

// The kind of an operation and the shapes that it takes in.
std::string kind_and_shapes(const Node& node, const Values& values) {
  std::string kind = node.op;
  for (const std::string& id : node.inputs) {
    kind += " " + size_of(values.at(id)->rows, values.at(id)->cols);
  }
  return kind;
}

}  // namespace

void RankReplay::begin(const Trace& trace, std::size_t rank) {
  if (!trace.graph) throw Failure("a trace without a promise cannot be replayed by its ranks");
  graph_ = &*trace.graph;
  own_ = {};
  inside_.clear();
  done_ = 0;
  for (auto& [kind, each] : alike_) each.left.clear();
  for (const auto& [id, shard] : trace.ranks.at(rank).shards) {
    if (!is_whole(shard)) continue;
    own_.values[id] = std::shared_ptr<const Tensor>(std::shared_ptr<const void>(), &shard.values);
    own_.formats[id] = shard.format;
  }
  const auto is_here = [&](const std::string& id) { return own_.values.contains(id); };
  for (std::size_t n = graph_->nodes.size(); n-- > 0;) {  // the first is taken from the end
    const Node& node = graph_->nodes[n];
    if (node.outputs.empty() || !std::ranges::all_of(node.outputs, is_here)) continue;
    if (!std::ranges::all_of(node.inputs, is_here)) continue;
    alike_[kind_and_shapes(node, own_.values)].left.push_back(n);
  }
}

std::size_t RankReplay::left() const {
  std::size_t left = 0;
  for (const auto& [kind, each] : alike_) left += each.left.size();
  return left;
}

bool RankReplay::one(double seconds) {
  Alike* best = nullptr;
  for (auto& [kind, each] : alike_) {
    if (each.left.empty() || each.usual() > seconds) continue;
    if (best == nullptr || each.usual() > best->usual()) best = &each;
  }
  if (best == nullptr) return false;
  const auto start = Clock::now();
  replay(best->left.back());
  best->left.pop_back();
  best->seconds += std::chrono::duration<double>(Clock::now() - start).count();
  ++best->times;
  return true;
}

void RankReplay::replay(std::size_t number) {
  const Node& node = graph_->nodes[number];
  Replayed seen;
  replay_one(node, graph_->nodes.size(), own_, options_, seen);
  ++done_;
  if (!seen.findings.empty() || !seen.not_judged.empty()) return;
  std::vector<double> ratios;
  for (const std::string& id : node.outputs) {
    const auto found = seen.ratios.find(id);
    if (found == seen.ratios.end()) return;
    ratios.push_back(found->second);
  }
  inside_[number] = std::move(ratios);
}

Completed complete(const Graph& graph, const Merged& run, const std::vector<Inside>& of_ranks,
                   const ReplayOptions& options) {
  std::set<std::string> disagree;
  for (const Finding& finding : run.findings) disagree.insert(finding.id);
  const auto agrees = [&](const std::string& id) { return !disagree.contains(id); };
  Completed all;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto done =
        std::ranges::find_if(of_ranks, [n](const Inside& inside) { return inside.contains(n); });
    if (done == of_ranks.end() || !std::ranges::all_of(node.inputs, agrees) ||
        !std::ranges::all_of(node.outputs, agrees)) {
      replay_one(node, graph.nodes.size(), run, options, all.replayed);
      ++all.rest;
      continue;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      all.replayed.ratios[node.outputs[i]] = done->at(n).at(i);
    }
    ++all.taken;
  }
  return all;
}

std::string text_of(const Inside& inside) {
  std::string text;
  for (const auto& [number, ratios] : inside) {
    text += std::to_string(number);
    for (const double ratio : ratios) text += fmt::format(" {:a}", ratio);
    text += '\n';
  }
  return text;
}

Inside inside_from(const std::string& text) {
  Inside inside;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::size_t number = 0;
    words >> number;
    std::vector<double> ratios;
    for (std::string word; words >> word;) {
      char* end = nullptr;
      ratios.push_back(std::strtod(word.c_str(), &end));
      if (*end != '\0') ratios.clear();
    }
    if (ratios.empty()) throw Failure("'" + line + "' says of no operation that it was inside");
    inside[number] = std::move(ratios);
  }
  return inside;
}

}  // namespace plumb::trace

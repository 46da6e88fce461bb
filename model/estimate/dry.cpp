#include "model/estimate/dry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bounds/examples/shaped.hpp"
#include "model/spec/ownership.hpp"
#include "number/outcome.hpp"
#include "trace/graph.hpp"

namespace plumb::model {
namespace {

Spread spread_of(const SharedSum& sum, int parts, const Format& inputs) {
  Example e = shaped_example("gemm", fmt::format("8x{}x8", sum.terms), inputs);
  e.how = {parts, sum.wire, sum.output};
  const std::vector<Matrix<double>> values = value_of(e);
  std::vector<const Matrix<double>*> in;
  for (const Matrix<double>& input : e.inputs) in.push_back(&input);
  const auto largest = [&](Mode mode) {
    const auto tolerance =
        find_operation("gemm")->tolerance({in, e.attributes, e.how, mode, 1e-9, values});
    if (!tolerance) throw Failure("gemm refuses this tolerance: " + tolerance.error().detail);
    return std::ranges::max(tolerance->bound[0].values);
  };
  double square = 0;
  for (const double x : values[0].values) square += x * x / static_cast<double>(values[0].size());
  return {largest(Mode::moments) / std::sqrt(square),
          largest(Mode::deterministic) / std::sqrt(square)};
}

}  // namespace

std::vector<int> ranks_to_look_at(const Layout& l) {
  std::vector<int> ranks{0};
  if (l.pp > 2) ranks.push_back(l.pp / 2);
  if (l.pp > 1) ranks.push_back(l.pp - 1);
  for (int& stage : ranks) stage *= l.dp * l.cp * l.tp;
  return ranks;
}

std::vector<PlacedShape> placed_shapes(const Config& c, const Layout& l) {
  std::vector<PlacedShape> all;
  for (const Parameter& p : parameters(c)) {
    if (p.name.starts_with("layers.") && !p.name.starts_with("layers.0.")) continue;
    if (p.expert > 0) continue;
    const bool by_rows = held_as(l, p) == Sharding::rows;
    const bool by_columns = held_as(l, p) == Sharding::columns;
    all.push_back({kind_of("m0/" + p.name), p.rows, p.cols, by_rows ? p.rows / l.tp : p.rows,
                   by_columns ? p.cols / l.tp : p.cols,
                   by_rows      ? "rows"
                   : by_columns ? "columns"
                                : "no"});
  }
  const int tokens = c.tokens() / l.cp;
  all.push_back({"residual stream of a micro-batch", c.tokens(), c.width,
                 l.sp ? tokens / l.tp : tokens, c.width, l.sp || l.cp > 1 ? "tokens" : "no"});
  return all;
}

std::vector<SharedSum> shared_sums(const Config& c, const Recipe& r, const Layout& l) {
  std::vector<SharedSum> all;
  const auto add = [&](const std::string& what, int terms, int parts, const Format& wire,
                       const Format& output) {
    if (parts == 1) return;
    SharedSum sum{what, std::min(terms, most_terms), parts, wire, output, {}, {}};
    sum.on_one_rank = spread_of(sum, 1, r.compute);
    sum.here = spread_of(sum, parts, r.compute);
    all.push_back(sum);
  };
  const std::string mlp = c.experts > 0 ? "mlp.experts" : "mlp";
  add("attn.proj/out", c.width, l.tp, r.wire, r.compute);
  add(mlp + ".fc2/out", c.hidden, l.tp, r.wire, r.compute);
  if (c.latent > 0) {
    add("attn.q/grad_in", c.width, l.tp, r.wire, r.compute);
    add("attn.kv_up/grad_in", c.kv_up_width(), l.tp, r.wire, r.compute);
    if (c.shared_key > 0) add("attn.shared_key/grad_out", c.kv_heads, l.tp, r.wire, r.compute);
  } else {
    add("attn.qkv/grad_in", c.qkv_width(), l.tp, r.wire, r.compute);
  }
  add(mlp + ".fc1/grad_in", c.fc1_width(c.hidden), l.tp, r.wire, r.compute);
  add("head/grad_in", c.vocabulary(), l.tp, r.wire, r.compute);
  add("weights' gradients", c.tokens(), l.cp, fp32, fp32);
  add("sums of micro-batches", c.micro_batches, l.dp, fp32, fp32);
  return all;
}

}  // namespace plumb::model

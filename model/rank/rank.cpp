#include "model/rank/rank.hpp"

#include <fmt/format.h>

#include "model/joints/gradients.hpp"
#include "model/joints/layers.hpp"
#include "model/joints/layout.hpp"
#include "model/joints/memory.hpp"
#include "model/rank/shares.hpp"
#include "model/spec/ownership.hpp"
#include "model/state/state.hpp"
#include "number/philox.hpp"
#include "trace/graph.hpp"

namespace plumb::model {
namespace {

// Returns the rows of the whole that lie below one another here, in as few blocks as possible.
std::vector<Piece> pieces_of(const std::vector<std::size_t>& rows, std::size_t column,
                             std::size_t columns) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i] != rows[i - 1] + 1) {
      pieces.push_back({{rows[i], column, 0, columns}, {i, 0, 0, columns}});
    }
    ++pieces.back().global.rows;
    ++pieces.back().local.rows;
  }
  return pieces;
}

// Gives x, which lies so in a whole tensor, that tensor's values.
void overwrite(Tensor& x, const Placement& lies, const Tensor& whole) {
  if (whole.rows != lies.rows || whole.cols != lies.cols) return;  // the record will show it
  for (const auto& [global, local] : lies.pieces) {
    for (std::size_t i = 0; i < global.rows; ++i) {
      std::copy_n(whole.row(global.row + i) + global.col, global.cols,
                  x.row(local.row + i) + local.col);
    }
  }
}

// The key of the draws by which one rank rounds its results in one step: the counter is the rank's
// own, so that no layout draws as another does.
std::uint64_t draws_key(const Config& config, int step, const Where& where) {
  const std::uint64_t of_step = key_of(config.seed, "results") + static_cast<std::uint64_t>(step);
  return key_of(of_step,
                fmt::format("dp{},tp{},cp{},pp{}", where.dp, where.tp, where.cp, where.pp));
}

}  // namespace

Rank::Rank(const Training& run, const Joints& decisions, const Backend& products, Mesh groups,
           Streams& under_way, StaleGradients* of_step_before)
    : RankContext(run, decisions, groups, under_way, of_step_before),
      backend(products),
      traced_(run.traced) {
  for (const StateEntry& k : state_entries(c, r)) next_state_.insert(k.id);
  const std::vector<std::size_t> order = rows_in_rank_order(c.sequence, {l.cp, c.sequence});
  for (int other = 0; other < l.cp; ++other) {
    const auto [from, to] = slice(order.size(), l.cp, other);
    positions_.push_back(
        joints.context.positions(where, other,
                                 {order.begin() + static_cast<std::ptrdiff_t>(from),
                                  order.begin() + static_cast<std::ptrdiff_t>(to)}));
  }
}

Tensor Rank::own_tokens(Tensor x) const {
  if (!l.sp) return x;
  Tensor mine(x.rows / where.tp_size, x.cols, to_be_written);
  const auto whose = static_cast<std::size_t>(joints.sequence.keeps_tokens_of(where, where.tp));
  std::copy_n(x.row(whose * mine.rows), mine.size(), mine.values.begin());
  return mine;
}

Placement Rank::placed(const Tensor& x, Sharding sharding) const {
  const auto n = static_cast<std::size_t>(where.tp_size);
  const auto mine = static_cast<std::size_t>(where.tp);
  if (sharding == Sharding::whole) return whole(x.rows, x.cols);
  if (sharding == Sharding::rows) {
    return row_slice(x.rows * n, x.cols, x.rows * mine, x.rows * (mine + 1));
  }
  if (sharding == Sharding::columns) {
    return column_slice(x.rows, x.cols * n, x.cols * mine, x.cols * (mine + 1));
  }
  if (sharding == Sharding::token_heads) return placed_heads();
  const bool sliced = sliced_columns(sharding);
  const std::size_t cols = sliced ? x.cols * n : x.cols, column = sliced ? x.cols * mine : 0;
  if (sharding == Sharding::copies || sharding == Sharding::copy_columns) {
    return {static_cast<std::size_t>(c.tokens(where.micro_batch) * c.top_k), cols,
            pieces_of(copies_here, column, x.cols)};
  }
  std::vector<std::size_t> rows = rows_of(where.cp);
  if (sharding == Sharding::own_tokens && l.sp) {
    rows = {rows.begin() + static_cast<std::ptrdiff_t>(first(rows.size())),
            rows.begin() + static_cast<std::ptrdiff_t>(last(rows.size()))};
  }
  return {static_cast<std::size_t>(c.tokens(where.micro_batch)), cols,
          pieces_of(rows, column, x.cols)};
}

Placement Rank::placed_heads() const {
  Placement lies{static_cast<std::size_t>(c.tokens(where.micro_batch)),
                 static_cast<std::size_t>(c.qkv_width()),
                 {}};
  std::size_t column = 0;
  for (const auto& [first, count] : columns_of_heads(c, l, where.tp)) {
    for (Piece piece : pieces_of(rows_of(where.cp), first, count)) {
      piece.local.col = column;
      lies.pieces.push_back(piece);
    }
    column += count;
  }
  return lies;
}

std::vector<std::size_t> Rank::rows_of(int rank) const {
  const auto length = static_cast<std::size_t>(c.sequence);
  const auto tokens = static_cast<std::size_t>(c.tokens(where.micro_batch));
  std::vector<std::size_t> rows;
  for (std::size_t start = 0; start < tokens; start += length) {
    for (const std::size_t p : positions_of(rank)) rows.push_back(start + p);
  }
  return rows;
}

std::string Rank::recorded_as(const std::string& id) const {
  return where.recomputing ? id + "@recompute" : id;
}

void Rank::round_stochastically(Tensor& x, const Placement& lies, const Format& format,
                                std::uint64_t key) {
  for (const Piece& piece : lies.pieces) {
    for (std::size_t i = 0; i < piece.global.rows; ++i) {
      const std::size_t first = (piece.global.row + i) * lies.cols + piece.global.col;
      float* row = x.row(piece.local.row + i) + piece.local.col;
      plumb::round_stochastically({row, piece.global.cols}, format, key, first);
    }
  }
}

void Rank::round(Tensor& x) {
  if (!draws_results(r, l)) {
    return round_to_format(x.values, joints.tensors.format(where, r.compute));
  }
  plumb::round_stochastically(x.values, r.compute, draws_key(c, step, where), drawn_);
  drawn_ += x.size();
}

Format Rank::format_of(const Format& promised) const {
  return promised == r.compute ? joints.tensors.format(where, promised) : promised;
}

bool Rank::records(const std::string& id) const {
  return traced_ || id == "loss/out" || id == "clip/grad_norm" || next_state_.contains(id);
}

void Rank::tap_leaf(const std::string& id, const Tensor& x, Sharding sharding,
                    const Format& format) {
  if (x.size() == 0 || !records(id)) return;  // no size: experts that no token chose
  record.shards[recorded_as(id)] = {placed(x, sharding), x, format_of(format)};
}

void Rank::tap_step(const std::string& id, Tensor& x, Sharding sharding, const Format& format,
                    const Evaluation& ran) {
  joints.tensors.made(where, id, x);
  tap_step(id, std::as_const(x), sharding, format, ran);
}

void Rank::tap_step(const std::string& id, Tensor&& x, Sharding sharding, const Format& format,
                    const Evaluation& ran) {
  joints.tensors.made(where, id, x);
  const Placement lies = placed(x, sharding);
  if (x.size() > 0 && records(id)) {
    record.shards[recorded_as(id)] = {lies, std::move(x), format_of(format)};
  }
  record.ran[recorded_as(id)] = ran;
  streams.progress();
}

void Rank::tap_share(const std::string& id, const Tensor& share, const Parameter& p,
                     const Format& format) {
  if (!records(id)) return;
  const LocalShape shape = local_shape(*this, p);
  const Placement of_slice = placed(Tensor(shape.rows, shape.cols), held_as(l, p));
  record.shards[id] = shard_of(*this, share, p, of_slice, format);
}

void Rank::tap_step(const std::string& id, const Tensor& x, Sharding sharding, const Format& format,
                    const Evaluation& ran) {
  tap_leaf(id, x, sharding, format);
  record.ran[recorded_as(id)] = ran;
  streams.progress();
}

void Rank::tap(const std::string& name, Tensor& x, Sharding sharding, const Format& format,
               const Evaluation& ran) {
  tap_step("m" + std::to_string(where.micro_batch) + "/" + name, x, sharding, format, ran);
}

void Rank::tap(const std::string& name, const Tensor& x, Sharding sharding, const Format& format,
               const Evaluation& ran) {
  tap_step("m" + std::to_string(where.micro_batch) + "/" + name, x, sharding, format, ran);
}

void Rank::hand_on(const std::string& name, Tensor& x, Sharding sharding, const Format& format,
                   const Evaluation& ran) {
  tap(name, x, sharding, format, ran);
  if (rewritten == nullptr) return;
  const std::string id = rewritten_id("m" + std::to_string(where.micro_batch) + "/" + name);
  const auto found = rewritten->find(id);
  if (found == rewritten->end()) return;
  overwrite(x, placed(x, sharding), *found->second);
  tap_leaf(id, x, sharding, format);
}

Tensor Rank::multiply(View<float> a, View<float> b) const {
  Tensor product(a.rows, b.cols, to_be_written);
  backend.gemm(a, b, product.values.data(), product.cols, false);
  return product;
}

Tensor Rank::multiply(View<float> a, View<float> b, const std::string& module,
                      Product product) const {
  const OperandCasts* casts = casts_of(module, product);
  const auto chain = static_cast<std::size_t>(casts != nullptr ? casts->chain : 0);
  if (chain == 0 || chain >= a.cols) return multiply(a, b);
  Tensor sum = multiply(columns(a, 0, chain), plumb::rows(b, 0, chain));
  for (std::size_t first = chain; first < a.cols; first += chain) {
    const std::size_t last = std::min(first + chain, a.cols);
    add_to(sum, multiply(columns(a, first, last), plumb::rows(b, first, last)));
  }
  return sum;
}

const Tensor* Rank::so_far(const std::string& parameter) {
  const auto found = main_grad.find(parameter);
  if (found != main_grad.end()) return &found->second;
  const bool is_left = stale != nullptr && stale->main_grad.contains(parameter);
  if (l.zero > 0 && where.after_a_step && joints.gradients.starts_from_parameter(at(parameter))) {
    const auto gathered = state.find(parameter + "/param");
    if (gathered != state.end() && l.zero < 3) return gathered->second.get();
  }
  const bool from_zero = joints.gradients.starts_from_zero(at(parameter), is_left);
  return from_zero || !is_left ? nullptr : &stale->main_grad.at(parameter);
}

bool Rank::is_of_both_ends(const std::string& gradient) const {
  if (gradient != "embedding.weight" && gradient != gradient_at_end()) return false;
  return on_both_ends(parameter_of(c, "embedding.weight"));
}

void Rank::add_up(const std::string& id, const Tensor& part) {
  if (where.recomputing) return;
  Tensor& total = added_up[id];
  if (total.size() == 0) total = Tensor(part.rows, part.cols);
  add_to(total, part);
}

void Rank::collect(const std::string& parameter, Tensor gradient, Sharding sharding,
                   const Evaluation& ran) {
  if (is_frozen(c, parameter)) return;
  tap(parameter + "/wgrad", gradient, sharding, fp32, ran);
  joints.gradients.part(at(parameter), gradient);
  // (Adding zeros first could change the sign of a zero only.)
  if (const Tensor* before = so_far(parameter)) add_to(gradient, *before);
  main_grad[parameter] = std::move(gradient);
  // Experts take the tokens of each expert-parallel rank separately.
  const int visits = of_expert(parameter) ? where.ep_size : 1;
  if (++collected_[parameter] != visits * c.micro_batches / where.dp_size) return;
  if (where.pp_size > 1 && is_of_both_ends(parameter) &&
      !joints.pipeline.ties_sums(at(parameter), l.zero > 0)) {
    unsummed[parameter] = main_grad[parameter];
  }
  buckets.put(parameter);
}

}  // namespace plumb::model

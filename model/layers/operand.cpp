#include "model/layers/operand.hpp"

#include "model/joints/optimizer.hpp"
#include "model/rank/shares.hpp"
#include "model/spec/ownership.hpp"
#include "model/state/rounding_key.hpp"

namespace plumb::model {
namespace {

// Casts one tensor; its records belong to the micro-batch, or to the step.
class Caster {
 public:
  Caster(Rank& rank, bool of_step, Sharding sharding, const OperandCast& how)
      : rank_(rank), of_step_(of_step), held_(sharding), how_(how) {}

  Operand operator()(const std::string& name, Tensor x, const Taken& taken) const {
    if (taken.by_columns && taken.by_rows && !how_.two_copies())
      return {one(name, std::move(x)), {}};
    if (!taken.any()) return {std::move(x), {}};
    Operand seen{x, std::move(x)};
    if (taken.by_columns) seen.of_columns = one(name, std::move(seen.of_columns));
    if (taken.by_rows && how_.two_copies()) {
      seen.of_rows = in_blocks(how_.copy_of(name, Contracted::rows), std::move(*seen.of_rows),
                               {along(), across()});
    } else if (taken.by_rows) {
      seen.of_rows = one(name, std::move(*seen.of_rows));
    }
    return seen;
  }

  // Casts a weight in shares: each rank casts its own, and the casts are gathered.
  Tensor of_shares(const std::string& name, const Parameter& p) const {
    Tensor share = *rank_.state.at(p.name + "/param");
    cast(name, share, &rank_.sharers_of(p.name));
    Tensor x = gathered(rank_, share, p);
    record(name, x, held_, fp32, {1, fp32, how_.format});
    return x;
  }

 private:
  // Under blocks this is the copy for products that sum over the columns.
  Tensor one(const std::string& name, Tensor x) const {
    if (how_.scaling == Scaling::none) return unscaled(name, std::move(x));
    if (how_.scaling == Scaling::block) return in_blocks(name, std::move(x), {across(), along()});
    cast(name, x);
    record(name, x, held_, fp32, {1, fp32, how_.format});
    return x;
  }

  std::size_t along() const { return static_cast<std::size_t>(how_.along); }
  std::size_t across() const { return static_cast<std::size_t>(how_.across); }

  std::string id_of(const std::string& name) const {
    return of_step_ ? name : "m" + std::to_string(rank_.where.micro_batch) + "/" + name;
  }
  template <class X>
  void record(const std::string& name, X&& x, Sharding sharding, const Format& format,
              const Evaluation& ran) const {
    rank_.tap_step(id_of(name), std::forward<X>(x), sharding, format, ran);
  }
  // The largest magnitude of a tensor of which each rank has a piece, and of that piece a share if
  // there are `shares`.
  float over_ranks(const std::string& name, float amax, Communicator* shares = nullptr) const {
    const Where where = rank_.at(id_of(name));
    const auto over = [&](std::string_view axis, Communicator& group) {
      if (rank_.joints.scaling.reduces_over(where, axis)) group.max({&amax, 1});
    };
    if (shares != nullptr) over("dp", *shares);
    if (held_ != Sharding::whole && held_ != Sharding::tokens) over("tp", rank_.mesh.tp);
    if (of_copies()) over("ep", rank_.mesh.ep);
    if (of_tokens() || of_copies()) over("cp", rank_.mesh.cp);
    return amax;
  }

  Tensor unscaled(const std::string& name, Tensor x) const {
    round_to_format(x.values, how_.format);
    record(name, x, held_, how_.format, {1, fp32, how_.format});
    return x;
  }

  // Casts by a scale of this step; or by that of the last steps, in which case this step's
  // magnitude goes into the history.
  void cast(const std::string& name, Tensor& x, Communicator* shares = nullptr) const {
    if (how_.scaling == Scaling::delayed) {
      float& largest = rank_.largest_seen[name];
      largest = std::max(largest, largest_finite(x.values));
      const float scale = rank_.state.at(name + "_scale")->values[0];
      return quantize(x.values, scale, how_.format, /*saturating=*/true);
    }
    const float amax = over_ranks(name, largest_magnitude(x.values), shares);
    const float scale = scale_to_fit(amax, how_.format);
    quantize(x.values, scale, how_.format, /*saturating=*/false);
    record(name + "_scale", Tensor(1, 1, scale), Sharding::whole, fp32, rank_.in_fp32());
  }

  // The blocks of this rank's piece are those of the whole if they fit into it; if not, blocks
  // begin anew in every rank's piece.
  Evaluation ran_as(const Tensor& x, const BlockSize& block) const {
    const bool columns = sliced_columns(held_);
    const bool fits = (columns ? x.cols % block.cols : x.rows % block.rows) == 0;
    const bool sliced = columns || held_ == Sharding::rows;
    Evaluation ran{sliced && !fits ? rank_.where.tp_size : 1, fp32, how_.format};
    if (!in_pieces(block)) return ran;
    if (rank_.l.cp > 1) ran.tokens = {rank_.l.cp, rank_.c.sequence};
    if (of_copies()) ran.tokens.groups = rank_.l.ep;
    return ran;
  }
  bool of_copies() const { return held_ == Sharding::copies || held_ == Sharding::copy_columns; }
  bool of_tokens() const { return held_ == Sharding::tokens || held_ == Sharding::token_columns; }
  // Blocks of several tokens are made of the tokens that a context has, in its order; blocks of
  // several copies begin with the first copy that a rank has.
  bool in_pieces(const BlockSize& block) const {
    return (of_tokens() || of_copies()) && block.rows > 1;
  }

  // Ranks that do not share an axis have the same scales along it.
  Tensor scales_of(const std::string& name, const Tensor& x, const BlockSize& block,
                   const Evaluation& ran) const {
    Tensor scales = block_magnitudes(x, block);
    float all = 0;
    if (is_nested(how_.rule)) {
      all = over_ranks(name, largest_magnitude(scales.values));
      const float grid = grid_of_scales(all, how_.rule, how_.format);
      record(name + "_tensor_scale", Tensor(1, 1, grid), Sharding::whole, fp32, ran);
    }
    for (float& s : scales.values) s = block_scale_to_fit(s, how_.rule, how_.format, all);
    const std::string id = rank_.recorded_as(id_of(name + "_scale"));
    if (scales.size() == 0) {  // of experts that no token chose
      rank_.record.ran[id] = ran;
    } else if (in_pieces(block)) {
      const Placement lies =
          of_copies() ? scales_of_copies(scales, block.rows) : scales_of_contexts(scales);
      if (rank_.records(id)) rank_.record.shards[id] = {lies, scales, fp32};
      rank_.record.ran[id] = ran;
    } else {
      record(name + "_scale", scales, held_, fp32, ran);
    }
    return scales;
  }

  // Scales lie below one another, by group of experts, then in the order of the contexts.
  Placement scales_of_copies(const Tensor& scales, std::size_t block) const {
    const auto here =
        static_cast<std::size_t>(rank_.where.ep * rank_.where.cp_size + rank_.where.cp);
    std::size_t all = 0, first = 0;
    for (std::size_t r = 0; r < rank_.copies_of_ranks.size(); ++r) {
      if (r == here) first = all;
      all += (rank_.copies_of_ranks[r] + block - 1) / block;
    }
    const bool sliced = held_ == Sharding::copy_columns;
    const std::size_t left = sliced ? rank_.where.tp * scales.cols : 0;
    const std::size_t whole = sliced ? rank_.where.tp_size * scales.cols : scales.cols;
    return {
        all, whole, {{{first, left, scales.rows, scales.cols}, {0, 0, scales.rows, scales.cols}}}};
  }

  // Scales lie below one another, in the order of the contexts.
  Placement scales_of_contexts(const Tensor& scales) const {
    const auto cp = static_cast<std::size_t>(rank_.where.cp);
    const std::size_t cols = scales.cols,
                      left = held_ == Sharding::tokens ? 0 : rank_.where.tp * cols;
    const std::size_t whole = held_ == Sharding::tokens ? cols : rank_.where.tp_size * cols;
    const Block here{cp * scales.rows, left, scales.rows, cols};
    return {rank_.where.cp_size * scales.rows, whole, {{here, {0, 0, scales.rows, cols}}}};
  }

  void round(const std::string& name, Tensor& x) const {
    if (!how_.stochastic) return round_to_format(x.values, how_.format);
    rank_.round_stochastically(x, rank_.placed(x, held_), how_.format,
                               rounding_key(rank_.c, rank_.step, id_of(name)));
  }

  Tensor in_blocks(const std::string& name, Tensor x, const BlockSize& block) const {
    const Evaluation ran = ran_as(x, block);
    const Tensor scales = scales_of(name, x, block, ran);
    if (how_.rule == ScaleRule::nested_reciprocal) {
      divide_blocks_by_reciprocals(x, scales, block);
    } else {
      divide_blocks(x, scales, block);
    }
    saturate(x.values, how_.format);
    round(name, x);
    multiply_blocks(x, scales, block);
    record(name, x, held_, fp32, ran);
    return x;
  }

  Rank& rank_;
  bool of_step_;
  Sharding held_;
  const OperandCast& how_;
};

}  // namespace

Operand input_operand(Rank& rank, const std::string& name, Tensor x, Sharding sharding) {
  const OperandCasts* casts = rank.casts_of(name);
  if (casts == nullptr) return {std::move(x), {}};
  return Caster(rank, false, sharding, casts->activations)(name + "/operand", std::move(x),
                                                           casts->of_activations());
}

Operand gradient_operand(Rank& rank, const std::string& name, Tensor dy, Sharding sharding) {
  const OperandCasts* casts = rank.casts_of(name);
  if (casts == nullptr) return {std::move(dy), {}};
  return Caster(rank, false, sharding, casts->gradients)(name + "/grad_operand", std::move(dy),
                                                         casts->of_gradients());
}

// Makes the scales that this step takes from the histories.
static void delayed_scales(Rank& rank) {
  for (const auto& [id, how, weight] : delayed_operands(rank.c, rank.r)) {
    if (!rank.holds(parameter_of(rank.c, weight))) continue;
    const float amax = largest_finite(rank.state.at(id + "_history")->values);
    auto scale = std::make_shared<const Tensor>(1, 1, scale_to_fit(amax, how->format));
    rank.tap_step(id + "_scale", *scale, Sharding::whole, fp32, rank.in_fp32());
    rank.state[id + "_scale"] = std::move(scale);
  }
}

void keep_histories(Rank& rank) {
  for (auto& [id, largest] : rank.largest_seen) {
    const Where where = rank.at(id);
    // Ranks with other experts have other weights, of as many names in the same order.
    Communicator* copies = id.ends_with(".weight/operand") ? &rank.copies_of(id) : &rank.mesh.dp;
    for (const auto& [axis, group] : {std::pair{"tp", &rank.mesh.tp},
                                      std::pair{"cp", &rank.mesh.cp}, std::pair{"dp", copies}}) {
      if (rank.joints.scaling.reduces_over(where, axis)) group->max({&largest, 1});
    }
    Tensor history = *rank.state.at(id + "_history");
    std::rotate(history.values.begin(), history.values.end() - 1, history.values.end());
    history.values[0] = largest;
    rank.tap_step(id + "_history", std::move(history), Sharding::whole, fp32, rank.in_fp32());
  }
}

void weight_operands(Rank& rank) {
  if (!rank.r.operands) return;
  delayed_scales(rank);
  const OperandCast& how = rank.r.operands->weights;
  for (const Parameter& p : multiplied(rank.c)) {
    if (rank.casts_of(p.name) == nullptr) continue;
    const Taken taken = rank.r.operands->of_weight(p.name);
    if (!rank.holds(p) || !taken.any()) continue;
    const std::string name = p.name + "/operand";
    const Caster caster(rank, true, held_as(rank.l, p), how);
    if (rank.l.zero >= 3 && rank.r.operands->gathers_casts) {
      rank.state[name] = std::make_shared<const Tensor>(caster.of_shares(name, p));
      continue;
    }
    Operand seen = caster(name, rank.param(p.name), taken);
    const auto keep = [&](Contracted axis, Tensor x) {
      rank.state[how.copy_of(name, axis)] = std::make_shared<const Tensor>(std::move(x));
    };
    if (taken.by_rows && seen.of_rows) keep(Contracted::rows, std::move(*seen.of_rows));
    if (taken.by_columns) keep(Contracted::columns, std::move(seen.of_columns));
    rank.gathering.let_go(layer_of(p.name));
  }
}

}  // namespace plumb::model

#include "model/layers/operand.hpp"

#include "model/rounding_key.hpp"

namespace plumb {
namespace {

// Casts one tensor; what it records belongs to the micro-batch, or to the step.
class Caster {
 public:
  Caster(Rank& rank, bool of_step, Held held, const OperandCast& how)
      : rank_(rank), of_step_(of_step), held_(held), how_(how) {}

  Operand operator()(const std::string& name, Tensor x) const {
    if (how_.scaling == Scaling::none) return {unscaled(name, std::move(x)), {}};
    if (how_.scaling == Scaling::tensor) return {scaled(name, std::move(x)), {}};
    Operand both;
    if (how_.two_copies()) {
      both.of_rows = in_blocks(how_.copy_of(name, Contracted::rows), x, {along(), across()});
    }
    both.of_columns = in_blocks(name, std::move(x), {across(), along()});
    return both;
  }

 private:
  std::size_t along() const { return static_cast<std::size_t>(how_.along); }
  std::size_t across() const { return static_cast<std::size_t>(how_.across); }

  std::string id_of(const std::string& name) const {
    return of_step_ ? name : "m" + std::to_string(rank_.where.micro_batch) + "/" + name;
  }
  void record(const std::string& name, const Tensor& x, Held held, const Format& format,
              const Evaluation& ran) const {
    rank_.tap_step(id_of(name), x, held, format, ran);
  }
  float over_ranks(float amax) const {
    if (sliced_columns(held_) || held_ == Held::rows) rank_.mesh.tp.max({&amax, 1});
    if (held_ == Held::copies || held_ == Held::copy_columns) rank_.mesh.ep.max({&amax, 1});
    if (of_tokens()) rank_.mesh.cp.max({&amax, 1});
    return amax;
  }

  Tensor unscaled(const std::string& name, Tensor x) const {
    round_to_format(x.values, how_.format);
    record(name, x, held_, how_.format, {1, fp32, how_.format});
    return x;
  }

  Tensor scaled(const std::string& name, Tensor x) const {
    const float scale = scale_to_fit(over_ranks(largest_magnitude(x.values)), how_.format);
    quantize(x.values, scale, how_.format);
    record(name + "_scale", Tensor(1, 1, scale), Held::whole, fp32, rank_.in_fp32());
    record(name, x, held_, fp32, {1, fp32, how_.format});
    return x;
  }

  // The blocks of this rank's piece are those of the whole if they fit into it; if not, blocks
  // begin anew in every rank's piece.
  Evaluation ran_as(const Tensor& x, const BlockSize& block) const {
    const bool fits = held_ == Held::whole || held_ == Held::tokens || held_ == Held::copies ||
                      (held_ == Held::rows ? x.rows % block.rows : x.cols % block.cols) == 0;
    return {fits ? 1 : rank_.where.tp_size, fp32, how_.format};
  }

  bool of_tokens() const { return held_ == Held::tokens || held_ == Held::token_columns; }

  // Rows that are neighbours in the whole, and where there they begin: chunks of tokens, or all.
  struct Run {
    Tensor x;
    std::size_t first;
  };
  std::vector<Run> runs_of(Tensor x) const {
    std::vector<Run> runs;
    if (!of_tokens() || rank_.where.cp_size == 1) {
      const std::size_t before = held_ == Held::rows ? x.rows * rank_.where.tp : 0;
      runs.push_back({std::move(x), before});
      return runs;
    }
    const std::size_t chunk = rank_.chunk();
    for (std::size_t row = 0; row < x.rows; row += chunk) {
      Run run{Tensor(chunk, x.cols), rank_.token(row)};
      std::copy_n(x.row(row), run.x.size(), run.x.values.begin());
      runs.push_back(std::move(run));
    }
    return runs;
  }
  static Tensor joined(const std::vector<Tensor>& runs) {
    Tensor all(0, runs.front().cols);
    for (const Tensor& x : runs) {
      all.values.insert(all.values.end(), x.values.begin(), x.values.end());
      all.rows += x.rows;
    }
    return all;
  }

  // Along an axis that the ranks do not share, they have the same scales.
  std::vector<Tensor> scales_of(const std::string& name, const std::vector<Run>& runs,
                                const BlockSize& block, const Evaluation& ran) const {
    std::vector<Tensor> scales;
    for (const Run& run : runs) scales.push_back(block_magnitudes(run.x, block));
    float grid = 1;
    if (how_.rule == ScaleRule::nested) {
      float amax = 0;
      for (const Tensor& s : scales) amax = std::max(amax, largest_magnitude(s.values));
      grid = grid_of_scales(over_ranks(amax), how_.format);
      record(name + "_tensor_scale", Tensor(1, 1, grid), Held::whole, fp32, ran);
    }
    const BlockScale kind = how_.rule == ScaleRule::ceil    ? BlockScale::power_of_two
                            : how_.rule == ScaleRule::exact ? BlockScale::wide
                                                            : BlockScale::e4m3_on_grid;
    for (Tensor& of_run : scales) {
      for (float& s : of_run.values) s = block_scale_to_fit(s, kind, how_.format, grid);
    }
    record(name + "_scale", joined(scales), held_, fp32, ran);
    return scales;
  }

  void round(const std::string& name, Tensor& x, std::size_t first_row) const {
    if (!how_.stochastic) return round_to_format(x.values, how_.format);
    const auto tp = static_cast<std::size_t>(rank_.where.tp);
    const auto size = static_cast<std::size_t>(rank_.where.tp_size);
    const bool columns = sliced_columns(held_);
    round_stochastic(x, how_.format, rounding_key(rank_.c, rank_.step, id_of(name)), first_row,
                     columns ? tp * x.cols : 0, columns ? size * x.cols : x.cols);
  }

  Tensor in_blocks(const std::string& name, Tensor x, const BlockSize& block) const {
    const Evaluation ran = ran_as(x, block);
    std::vector<Run> runs = runs_of(std::move(x));
    const std::vector<Tensor> scales = scales_of(name, runs, block, ran);
    std::vector<Tensor> kept;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Tensor& y = runs[i].x;
      divide_blocks(y, scales[i], block);
      saturate(y.values, how_.format);
      round(name, y, runs[i].first);
      multiply_blocks(y, scales[i], block);
      kept.push_back(std::move(y));
    }
    Tensor y = joined(kept);
    record(name, y, held_, fp32, ran);
    return y;
  }

  Rank& rank_;
  bool of_step_;
  Held held_;
  const OperandCast& how_;
};

}  // namespace

Operand input_operand(Rank& rank, const std::string& name, Tensor x, Held held) {
  if (!rank.r.operands) return {std::move(x), {}};
  return Caster(rank, false, held, rank.r.operands->activations)(name + "/operand", std::move(x));
}

Operand gradient_operand(Rank& rank, const std::string& name, Tensor dy, Held held) {
  if (!rank.r.operands) return {std::move(dy), {}};
  return Caster(rank, false, held, rank.r.operands->gradients)(name + "/grad_operand",
                                                               std::move(dy));
}

void weight_operands(Rank& rank) {
  if (!rank.r.operands) return;
  const OperandCast& how = rank.r.operands->weights;
  for (const Parameter& p : multiplied(rank.c)) {
    if (!rank.holds(p)) continue;
    const std::string name = p.name + "/operand";
    Operand seen = Caster(rank, true, held(p), how)(name, rank.param(p.name));
    if (seen.of_rows) {
      rank.state[how.copy_of(name, Contracted::rows)] = std::move(*seen.of_rows);
    }
    rank.state[name] = std::move(seen.of_columns);
    rank.release();
  }
}

}  // namespace plumb

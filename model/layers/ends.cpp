#include "model/layers/ends.hpp"

#include <cmath>

#include "model/layers/linear.hpp"
#include "model/layers/operand.hpp"
#include "model/layers/replicated.hpp"

namespace plumb {
namespace {

// Gradient rows of this rank's slice of the vocabulary.                           // (V / tp, D)
Tensor own_rows_gradient(const Rank& rank, const Tensor& ids, const Tensor& dx) {
  const auto v = static_cast<std::size_t>(rank.c.vocabulary);
  Tensor table(v / rank.where.tp_size, dx.cols);
  for (std::size_t t = 0; t < dx.rows; ++t) {
    const auto id = static_cast<std::size_t>(ids.values[t]);
    if (id < rank.first(v) || id >= rank.last(v)) continue;
    for (std::size_t j = 0; j < dx.cols; ++j) table(id - rank.first(v), j) += dx(t, j);
  }
  return table;
}

// Log of the sum of exponentials of each row over all slices.                           // (T, 1)
Tensor log_sum_exp(Rank& rank, const Tensor& logits) {
  Tensor largest(logits.rows, 1);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    largest.values[t] = *std::max_element(logits.row(t), logits.row(t) + logits.cols);
  }
  rank.mesh.tp.max(largest.values);
  Tensor lse(logits.rows, 1);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    for (std::size_t v = 0; v < logits.cols; ++v) {
      lse.values[t] += std::exp(logits(t, v) - largest.values[t]);
    }
  }
  rank.mesh.tp.sum(lse.values, fp32);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    lse.values[t] = largest.values[t] + std::log(lse.values[t]);
  }
  return lse;
}

// The label's logit, from the rank that owns it; the others add zero.                   // (T, 1)
Tensor label_logits(Rank& rank, const Tensor& logits, const Tensor& labels) {
  const std::size_t start = rank.first(static_cast<std::size_t>(rank.c.vocabulary));
  Tensor target(logits.rows, 1);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    const auto label = static_cast<std::size_t>(labels.values[t]);
    if (label >= start && label < start + logits.cols) target.values[t] = logits(t, label - start);
  }
  rank.mesh.tp.sum(target.values, fp32);
  return target;
}

}  // namespace

Tensor embed(Rank& rank, const Batch& batch) {
  const auto v = static_cast<std::size_t>(rank.c.vocabulary);
  const auto first = static_cast<int>(rank.first(v));
  const auto last = static_cast<int>(rank.last(v));
  const Tensor& table = rank.weight("embedding");
  Tensor x(batch.ids.rows, table.cols);
  const Where where = rank.at("embedding");
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto id = static_cast<int>(batch.ids.values[t]);
    const int local = id >= first && id < last ? id - first : 0;
    if (rank.joints.embedding.keeps_row(where, id, local, first, last)) {
      std::copy_n(table.row(static_cast<std::size_t>(local)), x.cols, x.row(t));
    }
  }
  Evaluation ignored;  // the sum of one row and zeros is exact in any layout
  x = summed_over_ranks(rank, std::move(x), fp32, ignored);
  if (rank.gpt()) {
    const Tensor& positions = rank.weight("position");
    const std::size_t start = rank.l.sp ? rank.first(batch.ids.rows) : 0;
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        x(t, j) += positions((start + t) % positions.rows, j);
      }
    }
    rank.round(x);
  }
  rank.tap("embedding/out", x, rank.stream(), rank.r.compute, rank.plain());
  return x;
}

void embed_backward(Rank& rank, const Batch& batch, const Tensor& dx) {
  rank.collect("embedding.weight", own_rows_gradient(rank, batch.ids, all_tokens(rank, dx)),
               Held::rows, rank.in_fp32());
  if (!rank.gpt()) return;
  const std::size_t start = rank.l.sp ? rank.first(batch.ids.rows) : 0;
  Tensor positions(static_cast<std::size_t>(rank.c.sequence), dx.cols);
  for (std::size_t t = 0; t < dx.rows; ++t) {
    for (std::size_t j = 0; j < dx.cols; ++j) {
      positions((start + t) % positions.rows, j) += dx(t, j);
    }
  }
  collect_replicated(rank, "position.weight", std::move(positions));
}

Tensor head_and_loss(Rank& rank, const Batch& batch, const Tensor& h, Tensor& loss) {
  const std::string tied = rank.gpt() ? "embedding" : "head";
  const Tensor& w = rank.factor(tied);  // (V / tp, D)
  Tensor logits = rank.multiply(view(h), view(w, true));
  rank.round(logits);
  rank.tap("head/out", logits, Held::columns, rank.r.compute, rank.plain());

  const Tensor lse = log_sum_exp(rank, logits);
  const Tensor target = label_logits(rank, logits, batch.labels);
  const Evaluation over_vocabulary{rank.where.tp_size, fp32, fp32};
  float here = 0;
  for (const float counted : batch.mask.values) here += counted;
  const float n =
      rank.joints.loss.denominator(rank.at("loss"), here, batch.count, rank.c.micro_batches);
  loss = Tensor(1, 1);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    loss.values[0] += (lse.values[t] - target.values[t]) * batch.mask.values[t];
  }
  loss.values[0] /= n;
  rank.tap("loss/lse", lse, Held::whole, fp32, over_vocabulary);
  rank.tap("loss/out", loss, Held::whole, fp32, over_vocabulary);

  const std::size_t start = rank.first(static_cast<std::size_t>(rank.c.vocabulary));
  for (std::size_t t = 0; t < logits.rows; ++t) {  // logits become their gradients
    const float share = batch.mask.values[t] / n;
    const auto label = static_cast<std::size_t>(batch.labels.values[t]);
    for (std::size_t v = 0; v < logits.cols; ++v) {
      const float p = std::exp(logits(t, v) - lse.values[t]);
      logits(t, v) = (v + start == label ? p - 1.0F : p) * share;
    }
  }
  rank.round(logits);
  rank.tap("head/grad_out", logits, Held::columns, rank.r.compute, rank.plain());

  const Tensor d =
      operand(rank, "head/grad_operand", std::move(logits), Held::columns, rank.r.grad_operands);
  Evaluation ran = rank.plain();
  Tensor dh = summed_over_ranks(rank, rank.multiply(view(d), view(w)), rank.r.wire, ran);
  rank.round(dh);
  rank.tap("head/grad_in", dh, rank.stream(), rank.r.compute, ran);
  rank.collect("head.weight", rank.multiply(view(d, true), view(h)), Held::rows, rank.in_fp32());
  return dh;
}

}  // namespace plumb

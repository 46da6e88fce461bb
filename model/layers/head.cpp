#include "model/layers/head.hpp"

#include <cmath>

#include "model/joints/gradients.hpp"
#include "model/joints/layers.hpp"
#include "model/layers/context.hpp"
#include "model/layers/linear.hpp"
#include "number/exponential.hpp"

namespace plumb::model {
namespace {

// Returns the log of the sum of exponentials of each row over all slices.                // (T, 1)
Tensor log_sum_exp(Rank& rank, const std::string& loss, const Tensor& logits) {
  const bool all = rank.joints.loss.normalises_over_slices(rank.at(loss));
  Tensor largest(logits.rows, 1);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    largest.values[t] = *std::max_element(logits.row(t), logits.row(t) + logits.cols);
  }
  if (all) rank.mesh.tp.max(largest.values);
  Tensor lse(logits.rows, 1);
  std::vector<float> shares(logits.cols);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    for (std::size_t v = 0; v < logits.cols; ++v) {
      shares[v] = exp(logits(t, v) - largest.values[t]);
    }
    for (const float share : shares) lse.values[t] += share;
  }
  if (all) rank.mesh.tp.sum(lse.values, fp32);
  rank.joints.loss.sums_of_exponentials(rank.at(loss), lse);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    lse.values[t] = largest.values[t] + std::log(lse.values[t]);
  }
  return lse;
}

// Returns the label's logit, from the rank that owns it; the others add zero.            // (T, 1)
Tensor label_logits(Rank& rank, const std::string& loss, const Tensor& logits,
                    const Tensor& labels) {
  const std::size_t start = rank.first(static_cast<std::size_t>(rank.c.vocabulary()));
  Tensor target(logits.rows, 1);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    const auto label = static_cast<std::size_t>(labels.values[t]);
    if (label >= start && label < start + logits.cols) target.values[t] = logits(t, label - start);
  }
  if (rank.joints.loss.normalises_over_slices(rank.at(loss))) {
    rank.mesh.tp.sum(target.values, fp32);
  }
  return target;
}

// The weights, in each row, of the label and of all tokens of the vocabulary alike.
struct Smoothing {
  bool all;              // the mean over the vocabulary is that of all slices
  float label, of_each;  // what a logit counts
};

Smoothing smoothing_of(const Rank& rank, const std::string& loss, std::size_t own_slice) {
  const double share = fraction(rank.c.label_smoothing);
  const bool all = share == 0 || rank.joints.loss.smooths_over_slices(rank.at(loss));
  const double width = all ? rank.c.vocabulary() : static_cast<double>(own_slice);
  return {all, static_cast<float>(1 - share), static_cast<float>(share / width)};
}

// The logit to be raised in each row: the label's, or some of it and of all.             // (T, 1)
Tensor wanted(Rank& rank, const std::string& loss, const Tensor& logits, const Tensor& labels,
              const Smoothing& s) {
  Tensor target = label_logits(rank, loss, logits, labels);
  if (rank.c.label_smoothing == 0) return target;
  Tensor sums(logits.rows, 1);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    for (std::size_t v = 0; v < logits.cols; ++v) sums.values[t] += logits(t, v);
  }
  if (s.all) rank.mesh.tp.sum(sums.values, fp32);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    target.values[t] = s.label * target.values[t] + s.of_each * sums.values[t];
  }
  return target;
}

// Turns logits into their gradients.
void to_gradients(const Rank& rank, const Targets& targets, const Tensor& lse, const Smoothing& s,
                  float weight, float n, Tensor& logits) {
  const float loss_scale =
      rank.r.loss_scaling ? rank.state.at("loss_scale/scale")->values[0] : 1.0F;
  const std::size_t start = rank.first(static_cast<std::size_t>(rank.c.vocabulary()));
  for (std::size_t t = 0; t < logits.rows; ++t) {
    const float share = targets.mask.values[t] / n * weight * loss_scale;
    const auto label = static_cast<std::size_t>(targets.labels.values[t]);
    for (std::size_t v = 0; v < logits.cols; ++v) {
      const float p = exp(logits(t, v) - lse.values[t]);
      float off = v + start == label ? p - s.label : p;
      if (rank.c.label_smoothing > 0) off -= s.of_each;
      logits(t, v) = off * share;
    }
  }
}

// Sums in token order over all contexts, so that the sum is the same on every rank.
float sum_over_tokens(const Rank& rank, const Tensor& own) {
  float sum = 0;
  for (const float x : whole_context(rank, own).values) sum += x;
  return sum;
}

}  // namespace

Tensor head_and_loss(Rank& rank, const Head& head, const Targets& targets, const Operand& h,
                     Tensor& loss, Tensor& dw) {
  const std::string name = head.of + "head", of_loss = head.of + "loss";
  const std::string tied = rank.c.tied() ? "embedding" : "head";
  const Tensor& w = rank.factor(tied, Product::fprop);  // (V / tp, D)
  Tensor logits = rank.multiply(view(h.by_columns()), view(w, true), name, Product::fprop);
  rank.round(logits);
  rank.hand_on(name + "/out", logits, Sharding::token_columns, rank.r.compute, rank.plain());

  const Tensor lse = log_sum_exp(rank, of_loss, logits);
  const Smoothing smoothing = smoothing_of(rank, of_loss, logits.cols);
  const Tensor target = wanted(rank, of_loss, logits, targets.labels, smoothing);
  const Evaluation over_vocabulary{rank.where.tp_size, fp32, fp32};
  const float here = sum_over_tokens(rank, targets.mask);
  const float n =
      rank.joints.loss.denominator(rank.at(of_loss), here, targets.count, rank.c.micro_batches);
  Tensor of_tokens(logits.rows, 1);
  for (std::size_t t = 0; t < logits.rows; ++t) {
    of_tokens.values[t] = (lse.values[t] - target.values[t]) * targets.mask.values[t];
  }
  loss = Tensor(1, 1, sum_over_tokens(rank, of_tokens) / n * head.weight);
  rank.tap(of_loss + "/lse", lse, Sharding::tokens, fp32, over_vocabulary);
  rank.tap(of_loss + "/out", loss, Sharding::whole, fp32, over_vocabulary);

  to_gradients(rank, targets, lse, smoothing, head.weight, n, logits);
  rank.round(logits);
  rank.hand_on(name + "/grad_out", logits, Sharding::token_columns, rank.r.compute, rank.plain());

  const Operand d = gradient_operand(rank, name, std::move(logits), Sharding::token_columns);
  Evaluation ran = rank.plain();
  Tensor dh = rank.multiply(view(d.by_columns()), view(rank.factor(tied, Product::dgrad)), name,
                            Product::dgrad);
  dh = rank.joints.linear.sums_input_gradient(rank.at(name))
           ? summed_over_ranks(rank, std::move(dh), rank.r.wire, ran)
           : rank.own_tokens(std::move(dh));
  rank.round(dh);
  rank.hand_on(name + "/grad_in", dh, Sharding::own_tokens, rank.r.compute, ran);
  dw = rank.multiply(view(d.by_rows(), true), view(h.by_rows()), name, Product::wgrad);
  return dh;
}

}  // namespace plumb::model

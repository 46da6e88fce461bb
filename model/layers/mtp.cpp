#include "model/layers/mtp.hpp"

#include "model/joints/gradients.hpp"
#include "model/layers/block.hpp"
#include "model/layers/embedding.hpp"
#include "model/layers/gradients.hpp"
#include "model/layers/head.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"

namespace plumb::model {
namespace {

Operand seen_by(Rank& rank, const std::string& product, Tensor x) {
  return input_operand(rank, product, all_tokens(rank, std::move(x)), Sharding::tokens);
}

// Records a micro-batch's part of the gradient of a matrix that has other parts; of a frozen one nothing.
Tensor recorded_part(Rank& rank, const std::string& parameter, Tensor gradient) {
  if (is_frozen(rank.c, parameter)) return gradient;
  const Evaluation ran = sum_over_contexts(rank, parameter, gradient);
  rank.tap(parameter + "/wgrad", gradient, Sharding::rows, fp32, ran);
  return gradient;
}

// Runs norm, head and loss forward and backward; x: the norm's input
Tensor through_head(Rank& rank, const Head& head, const Targets& targets, const Tensor& x,
                    Tensor& loss, Tensor& dw) {
  const std::string norm = head.of + "final_norm";
  const Operand h = seen_by(rank, head.of + "head", norm_layer(rank, norm, x));
  return norm_layer_backward(rank, norm, x, head_and_loss(rank, head, targets, h, loss, dw));
}

// Returns the gradient of x; dw: gradient of the head's matrix, to which a tied embedding adds.
Tensor predict_ahead(Rank& rank, const Batch& batch, const Tensor& x, Tensor& dw) {
  const Tensor& next = batch.next.labels;
  const Tensor looked_up = look_up(rank, "mtp.embedding", next);
  const Operand hidden = seen_by(rank, "mtp.proj_hidden", norm_layer(rank, "mtp.norm_hidden", x));
  const Operand embedded =
      seen_by(rank, "mtp.proj_embedding", norm_layer(rank, "mtp.norm_embedding", looked_up));
  const Tensor of_hidden = whole_forward(rank, "mtp.proj_hidden", hidden);
  Tensor y = residual(rank, "mtp.proj/out", of_hidden,
                      whole_forward(rank, "mtp.proj_embedding", embedded));
  Saved saved;
  const Tensor out = layer_forward(rank, rank.c.layers, std::move(y), saved);

  Targets targets = batch.after_next;
  targets.labels = rank.joints.loss.labels_ahead(rank.at("mtp.loss"), std::move(targets.labels));
  const Head head{"mtp.", static_cast<float>(Config::mtp_weight)};
  Tensor loss;
  const Tensor d_out = through_head(rank, head, targets, out, loss, dw);
  dw = recorded_part(rank, "head.mtp.weight", std::move(dw));
  rank.add_up("mtp.loss/out", loss);

  const Tensor d_y =
      as_computed(rank, "mtp.proj", layer_backward(rank, rank.c.layers, saved, d_out));
  const Tensor d_hidden = whole_backward(rank, "mtp.proj_hidden", hidden, d_y);
  const Tensor d_embedded = whole_backward(rank, "mtp.proj_embedding", embedded, d_y);
  const Tensor d_looked_up = norm_layer_backward(rank, "mtp.norm_embedding", looked_up, d_embedded);
  Tensor d_table = look_up_backward(rank, next, d_looked_up);
  if (rank.c.tied()) {
    add_to(dw, recorded_part(rank, "mtp.embedding.weight", std::move(d_table)));
  } else {
    collect_slice(rank, "mtp.embedding.weight", std::move(d_table), Sharding::rows);
  }
  return norm_layer_backward(rank, "mtp.norm_hidden", x, d_hidden);
}

}  // namespace

Tensor heads(Rank& rank, const Batch& batch, const Tensor& x, Tensor& loss) {
  Tensor dw;
  Tensor dx = through_head(rank, {}, batch.next, x, loss, dw);
  if (rank.c.mtp == 0) {
    collect_slice(rank, "head.weight", std::move(dw), Sharding::rows);
    return dx;
  }
  dw = recorded_part(rank, "head.loss.weight", std::move(dw));
  Tensor dw_ahead;
  const Tensor d_ahead = predict_ahead(rank, batch, x, dw_ahead);
  dx = residual(rank, "mtp.add/grad_out", dx, d_ahead);
  add_to(dw_ahead, dw);
  rank.collect("head.weight", std::move(dw_ahead), Sharding::rows, rank.in_fp32());
  return dx;
}

}  // namespace plumb::model

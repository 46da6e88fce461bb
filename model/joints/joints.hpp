// model/joints/joints.hpp: every parallel decision of the model, by subject.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <algorithm>

#include "bounds/operation.hpp"
#include "model/joints/joint.hpp"
#include "model/layout.hpp"
#include "model/sees.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"
#include "number/product.hpp"

namespace plumb::model {

struct EmbeddingJoints {
  // Does this rank's row count for the token? `local` is id - first, clamped to 0 for foreign ids;
  // [first, last) are the rows that the rank owns.
  Joint<bool(const Where&, int, int, int, int)> keeps_row = [](const Where&, int id, int /*local*/,
                                                               int first, int last) {
    return id >= first && id < last;
  };
  // Are rows that tokens look up summed over the ranks, each of which has those of its slice?
  Joint<bool(const Where&)> sums_over_slices = [](const Where&) { return true; };
};

struct DropoutJoints {
  // The key of a module's mask in one micro-batch; `promised`: by seed, step and canonical id.
  Joint<std::uint64_t(const Where&, std::uint64_t)> key = [](const Where&, std::uint64_t promised) {
    return promised;
  };
  // The row of the whole tensor as which one is drawn that is row `here` of this rank.
  Joint<std::size_t(const Where&, std::size_t, std::size_t)> row =
      [](const Where&, std::size_t of_whole, std::size_t /*here*/) { return of_whole; };
};

struct LinearJoints {
  // May touch the product x w of a linear layer's forward pass before anything is done with it.
  Joint<void(const Where&, const View<float>&, const View<float>&, Tensor&)> after_product =
      [](const Where&, const View<float>& /*x*/, const View<float>& /*w*/, Tensor& /*y*/) {};
  // Is the gradient of the input of a column-parallel layer or the head summed over the ranks, each
  // of which has its columns' part?
  Joint<bool(const Where&)> sums_input_gradient = [](const Where&) { return true; };
};

struct RowParallelJoints {
  // The format in which the parts of a row-parallel product travel; `promised`: by the recipe.
  Joint<Format(const Where&, Format)> wire = [](const Where&, Format promised) { return promised; };
  // Is the product summed over the ranks, each of which has its rows' part?
  Joint<bool(const Where&)> sums = [](const Where&) { return true; };
  // Is the replicated bias added to this rank's part, before the sum?
  Joint<bool(const Where&)> bias_before_sum = [](const Where&) { return false; };
};

struct AttentionJoints {
  // May touch the scores (S, S) of one head of one sequence (numbers within this rank) before the
  // softmax; entries above the diagonal are not looked at.
  Joint<void(const Where&, int, int, Tensor&)> after_scores = [](const Where&, int /*head*/,
                                                                 int /*sequence*/, Tensor&) {};
};

struct PackingJoints {
  // The first key that the token at that position of a sequence sees: where its document begins.
  Joint<std::size_t(const Where&, std::size_t, std::size_t)> first_key =
      [](const Where&, std::size_t /*position*/, std::size_t promised) { return promised; };
};

struct RouterJoints {
  // May touch the experts (T, k) that this rank's tokens go to, by falling logit (T, E).
  Joint<void(const Where&, const Tensor&, Tensor&)> after_choice =
      [](const Where&, const Tensor& /*logits*/, Tensor& /*choices*/) {};
  // Is an expert's capacity filled by the tokens of all sequence- and context-parallel ranks, in
  // their order? If not, each rank fills its share by its own.
  Joint<bool(const Where&)> fills_from_all_tokens = [](const Where&) { return true; };
  // Are the copies that each expert took in the step, by which its bias moves, summed over the
  // data-parallel ranks?
  Joint<bool(const Where&)> counts_all_batches = [](const Where&) { return true; };
  // Are the copies that each expert takes summed over the ranks along this axis (tp under sequence
  // parallelism, or cp), each of which has counted its own tokens'?
  Joint<bool(const Where&, std::string_view)> counts_over =
      [](const Where&, std::string_view /*axis*/) { return true; };
  // Are the router's losses summed over the ranks that have tokens each ("tokens": sequence- and
  // context-parallel ones, in each micro-batch; "dp", at the step's end)?
  Joint<bool(const Where&, std::string_view)> losses_over =
      [](const Where&, std::string_view /*ranks*/) { return true; };
};

struct ExpertJoints {
  // Does the gradient reach the probability of an expert, which lives on that expert-parallel rank?
  Joint<bool(const Where&, int, int)> weighs = [](const Where&, int /*expert*/, int /*rank*/) {
    return true;
  };
  // The factor of an expert's gradient; its rank has the tokens of all others.
  Joint<float(const Where&)> gradient_factor = [](const Where&) { return 1.0F; };
};

struct LossJoints {
  // The divisor of a micro-batch's summed loss: counted tokens here, and in the whole step.
  Joint<float(const Where&, float, float, int)> denominator =
      [](const Where&, float /*here*/, float all, int /*micro_batches*/) { return all; };
  // The targets of an extra head; `promised`: the tokens after the next, of this rank's tokens.
  Joint<Tensor(const Where&, Tensor)> labels_ahead = [](const Where&, Tensor promised) {
    return promised;
  };
  // Are the counted tokens of the step summed over the ranks along this axis (cp or dp), each of
  // which knows its own?
  Joint<bool(const Where&, std::string_view)> counts_over =
      [](const Where&, std::string_view /*axis*/) { return true; };
  // Are the largest logit of a token, the sum of its softmax and its label's logit those of all
  // tensor-parallel slices of the vocabulary?
  Joint<bool(const Where&)> normalises_over_slices = [](const Where&) { return true; };
  // Is the loss summed over the data-parallel ranks, each of which has its micro-batches' part?
  Joint<bool(const Where&)> sums_over_batches = [](const Where&) { return true; };
  // Is the mean over the vocabulary that smooth labels take that of all tensor-parallel slices?
  Joint<bool(const Where&)> smooths_over_slices = [](const Where&) { return true; };
};

struct GradientJoints {
  // Is a parameter's gradient accumulated from zero? Else onto the gradient that the step before
  // has left, if there is one.
  Joint<bool(const Where&, bool)> starts_from_zero = [](const Where&, bool /*is_left*/) {
    return true;
  };
  // Is a gradient summed over the data-parallel ranks, each of which has its micro-batches' part?
  Joint<bool(const Where&)> sums_over_batches = [](const Where&) { return true; };
  // Is a replicated parameter's gradient summed over the tensor-parallel ranks, each of which has
  // its tokens' part under sequence parallelism?
  Joint<bool(const Where&)> sums_over_sequence = [](const Where&) { return true; };
  // Is the gradient of what all heads share, a parameter or a part of their keys, summed over the
  // tensor-parallel ranks, each of which has its heads' part?
  Joint<bool(const Where&)> sums_over_heads = [](const Where&) { return true; };
  // Is a gradient summed over the context-parallel ranks, each of which has its tokens' part?
  Joint<bool(const Where&)> sums_over_contexts = [](const Where&) { return true; };
};

struct ContextJoints {
  // The tokens of each sequence that a rank of the group has, ascending; `promised`: zigzag.
  Joint<std::vector<std::size_t>(const Where&, int, std::vector<std::size_t>)> positions =
      [](const Where&, int /*rank*/, std::vector<std::size_t> promised) { return promised; };
  // Is the gradient of gathered keys and values summed over the context-parallel ranks, each of
  // which has its queries' part?
  Joint<bool(const Where&)> sums_gathered_gradient = [](const Where&) { return true; };
  // The rank whose keys and values are here at a turn of the ring; `promised`: the rank that many
  // before this one.
  Joint<int(const Where&, int, int)> owner = [](const Where&, int /*turn*/, int promised) {
    return promised;
  };
};

struct PipelineJoints {
  // The layers of a stage; `promised`: by the layout.
  Joint<Stage(const Where&, int, Stage)> layers = [](const Where&, int /*stage*/, Stage promised) {
    return promised;
  };
  // Are the gradients of a tied matrix summed, as head on the last stage and as embedding on the
  // first?
  Joint<bool(const Where&)> ties_gradients = [](const Where&) { return true; };
};

struct RecomputeJoints {
  // The input of a layer of a chunk that backward computes again: the output of the layer before
  // it, not the chunk's input.
  Joint<Tensor(const Where&, const Tensor&, Tensor)> takes_in =
      [](const Where&, const Tensor& /*of_chunk*/, Tensor made) { return made; };
};

struct ZeroJoints {
  // The elements out of n that this rank keeps; `promised`: an even share in rank order.
  Joint<Slice(const Where&, std::size_t, Slice)> share = [](const Where&, std::size_t /*n*/,
                                                            Slice promised) { return promised; };
};

// The events that a rank waits for before it goes on; `of` is the module that the joint is asked
// for.
enum class Wait {
  gradient,          // the sum, before the optimizer takes it; of: the gradient
  bucket_left,       // another bucket, before its outbox is filled; of: the first gradient there
  parameter,         // gathered ahead, before its layer takes it; of: the parameter
  sent,              // the outbox's content, before it is filled again; of: stage or ring
  received,          // the input of a stage or a turn, before it starts; of: stage or ring
  parked,            // a layer's input is on the host, before it is sent back; of: the layer
  brought_back,      // and is back, before the layer's backward; of: the layer
  gradient_on_host,  // before the optimizer takes it there; of: the parameter
  parameter_back,    // from there, before it is used again; of: the parameter
};

struct OverlapJoints {
  // Does the rank wait for that event, `of` being the module asked for, or go on at once? The last
  // argument says whether the event has happened anyway.
  Joint<bool(const Where&, Wait, bool)> waits = [](const Where&, Wait, bool /*happened*/) {
    return true;
  };
};

struct ScalingJoints {
  // Is the largest magnitude that a tensor is scaled by, or that goes into its history, that of all
  // ranks along this axis (tp, ep, cp; of histories dp) which hold a piece?
  Joint<bool(const Where&, std::string_view)> reduces_over =
      [](const Where&, std::string_view /*axis*/) { return true; };
};

struct OptimizerJoints {
  // Is this step left out, given whether gradients here, or of any rank, left the range?
  Joint<bool(const Where&, bool, bool)> skips = [](const Where&, bool /*here*/, bool anywhere) {
    return anywhere;
  };
  // Does this rank's piece of a parameter count in the norm of all gradients? `promised`: every
  // slice does, and one of replicas.
  Joint<bool(const Where&, bool)> in_norm = [](const Where&, bool promised) { return promised; };
  // Are the squares of the norm summed over the ranks along this axis (dp, ep of experts', or
  // model: all that share one replica)?
  Joint<bool(const Where&, std::string_view)> norm_over =
      [](const Where&, std::string_view /*axis*/) { return true; };
  Joint<float(const Where&, float, float)> clip_coefficient =
      [](const Where&, float norm, float limit) { return std::min(1.0F, limit / (norm + 1e-6F)); };
};

struct Joints {
  EmbeddingJoints embedding;
  DropoutJoints dropout;
  LinearJoints linear;
  RowParallelJoints row_parallel;
  AttentionJoints attention;
  PackingJoints packing;
  RouterJoints router;
  ExpertJoints experts;
  LossJoints loss;
  GradientJoints gradients;
  ContextJoints context;
  PipelineJoints pipeline;
  RecomputeJoints recompute;
  ZeroJoints zero;
  OverlapJoints overlap;
  ScalingJoints scaling;
  OptimizerJoints optimizer;

  // Was any replaced joint asked?
  bool reached() const {
    return embedding.keeps_row.reached() || embedding.sums_over_slices.reached() ||
           dropout.key.reached() || dropout.row.reached() || linear.after_product.reached() ||
           row_parallel.wire.reached() || row_parallel.sums.reached() ||
           row_parallel.bias_before_sum.reached() || attention.after_scores.reached() ||
           packing.first_key.reached() || router.after_choice.reached() ||
           router.counts_over.reached() || router.fills_from_all_tokens.reached() ||
           router.counts_all_batches.reached() || router.losses_over.reached() ||
           linear.sums_input_gradient.reached() || experts.weighs.reached() ||
           experts.gradient_factor.reached() || loss.denominator.reached() ||
           loss.smooths_over_slices.reached() || loss.sums_over_batches.reached() ||
           loss.counts_over.reached() || loss.normalises_over_slices.reached() ||
           loss.labels_ahead.reached() || gradients.starts_from_zero.reached() ||
           gradients.sums_over_batches.reached() || gradients.sums_over_sequence.reached() ||
           gradients.sums_over_contexts.reached() || gradients.sums_over_heads.reached() ||
           context.positions.reached() || context.sums_gathered_gradient.reached() ||
           context.owner.reached() || pipeline.layers.reached() ||
           pipeline.ties_gradients.reached() || recompute.takes_in.reached() ||
           zero.share.reached() || overlap.waits.reached() || scaling.reduces_over.reached() ||
           optimizer.skips.reached() || optimizer.in_norm.reached() ||
           optimizer.norm_over.reached() || optimizer.clip_coefficient.reached();
  }
};

}  // namespace plumb::model

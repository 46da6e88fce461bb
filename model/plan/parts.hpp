// model/plan/parts.hpp: the parts of a plan, each in the file of its name.
//
// x, dy: ids of a module's input and of the gradient of its output. A _grad returns the id of the
// gradient of the input. (T, C): tokens, width; shapes are of the whole tensors.
//
// TESTED   tests/model/one_rank_test.cpp
#pragma once

#include "model/plan/promise.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// linear.cpp: y = x W (+ b); `sharding`: of W. Column-parallel layers share the backward sum,
// row-parallel ones the forward sum; of others every rank computes all.
std::string linear(Promise& p, const std::string& name, const std::string& x, Sharding sharding);
std::string linear_grad(Promise& p, const std::string& name, const std::string& x,
                        const std::string& dy, Sharding sharding);

// adapter.cpp: the same with its adapter, where there is one: y = x W (+ b) + (x A) B
std::string adapted(Promise& p, const std::string& name, const std::string& x, Sharding sharding);
std::string adapted_grad(Promise& p, const std::string& name, const std::string& x,
                         const std::string& dy, Sharding sharding);

// operands.cpp: the ids that products take of a tensor: itself, or its cast copy under the recipe;
// where blocks run along the axis that a product sums over, one copy for each axis
struct SeenAs {
  std::string by_columns, by_rows;  // for products that sum over the columns, the rows
};
// The axis that tensor-parallel ranks share, and its whole length.
struct SlicedAxis {
  Sharding axis = Sharding::whole;
  int length = 0;
  bool tokens = true;       // rows are tokens, which context-parallel ranks share
  std::string copies = {};  // rows are copies of tokens, which ranks share by these choices
};
// For the input of the layer of that name, and for the gradient of its output.
SeenAs input_operand(Promise& p, const std::string& name, const std::string& x,
                     const SlicedAxis& sliced);
SeenAs gradient_operand(Promise& p, const std::string& name, const std::string& dy,
                        const SlicedAxis& sliced);
SeenAs seen_input(const Promise& p, const std::string& name, const std::string& x);  // cast before
std::string seen_weight(const Promise& p, const std::string& module, Product product);
// Returns the attributes of such a product, with the chains in which the recipe sums it.
Attributes summed(const Promise& p, const std::string& name, Product product,
                  Attributes attributes);
void weight_operands(Promise& p);  // once a step: all micro-batches multiply the same

// norm.cpp
std::string norm(Promise& p, const std::string& name, const std::string& x);
std::string norm_grad(Promise& p, const std::string& name, const std::string& x,
                      const std::string& dy);
std::string add(Promise& p, const std::string& a, const std::string& b, const std::string& as);
// The same into the residual stream; and what a branch beside it gets of the stream's gradient, by way
// of its dropout or a cast.
std::string add_to_stream(Promise& p, const std::string& a, const std::string& b,
                          const std::string& as);
std::string branch_grad(Promise& p, const std::string& name, const std::string& dy);
std::string as_computed(Promise& p, const std::string& name, const std::string& dy);  // the cast

// dropout.cpp: dropout of x, recorded as `kind` of the module; without dropout x itself
std::string dropped(Promise& p, const std::string& name, const char* kind, const std::string& x);

// qkv.cpp: queries, keys and values of layer `name`, packed
std::string qkv(Promise& p, const std::string& name, const std::string& x);
std::string qkv_grad(Promise& p, const std::string& name, const std::string& dy);
// The attributes of packed queries, keys and values.
Attributes head_counts(const Promise& p);

// attention.cpp: qkv, rotation, core, projection of layer `name`
std::string attention(Promise& p, const std::string& name, const std::string& x);
std::string attention_grad(Promise& p, const std::string& name, const std::string& dy);

// mlp.cpp: fc1, activation, fc2 of the MLP `name`
std::string mlp(Promise& p, const std::string& name, const std::string& x);
std::string mlp_grad(Promise& p, const std::string& name, const std::string& x,
                     const std::string& dy);
std::string activation(Promise& p, const std::string& name, const std::string& x);
std::string activation_grad(Promise& p, const std::string& name, const std::string& x,
                            const std::string& dy);

// experts.cpp: in place of an MLP: router, experts, and the sum of each token's copies
std::string experts(Promise& p, const std::string& name, const std::string& x);
std::string experts_grad(Promise& p, const std::string& name, const std::string& x,
                         const std::string& dy);

// embedding.cpp
std::string embedding(Promise& p);
void embedding_grad(Promise& p, const std::string& dy);
// head.cpp; `of`: "" the head; "mtp." the extra one, which predicts the token after the next. h: a
// norm's out.
void head_and_loss(Promise& p, const std::string& of, const std::string& h);
std::string head_and_loss_grad(Promise& p, const std::string& of, const std::string& h);

// block.cpp: layer n, from the output of the layer before it
std::string layer_forward(Promise& p, int n, const std::string& x);
std::string layer_backward(Promise& p, int n, const std::string& x, const std::string& dy);

// mtp.cpp: from the last layer's output; the gradient is that of the extra head alone
void predict_ahead(Promise& p, const std::string& x);
std::string predict_ahead_grad(Promise& p, const std::string& x);

// step.cpp: the nodes after the last micro-batch
void reduce(Promise& p);
void optimize(Promise& p);

}  // namespace plumb::model

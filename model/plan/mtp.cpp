#include "model/plan/parts.hpp"

namespace plumb::model {
namespace {

std::string block_of(const Promise& p) { return Promise::layer(p.c.layers); }

}  // namespace

// y = norm(x) W + norm(E[next]) W'; one more block, a norm, and the head with the token after it
void predict_ahead(Promise& p, const std::string& x) {
  const std::string looked_up = p.at("mtp.embedding", "out");
  p.node("embedding", {p.at("data", "labels"), Promise::weight("embedding")}, {looked_up},
         p.on_stream());
  const std::string hidden =
      linear(p, "mtp.proj_hidden", norm(p, "mtp.norm_hidden", x), Sharding::whole);
  const std::string embedded =
      linear(p, "mtp.proj_embedding", norm(p, "mtp.norm_embedding", looked_up), Sharding::whole);
  const std::string y = add_to_stream(p, hidden, embedded, p.at("mtp.proj", "out"));
  const std::string out = layer_forward(p, p.c.layers, y);
  head_and_loss(p, "mtp.", norm(p, "mtp.final_norm", out));
}

// The matrices of embedding and head are also the extra head's: on the last stage of a pipeline,
// whose parts of their gradients are added up in each micro-batch.
std::string predict_ahead_grad(Promise& p, const std::string& x) {
  const std::string dh = head_and_loss_grad(p, "mtp.", p.at("mtp.final_norm", "out"));
  const std::string d_out =
      norm_grad(p, "mtp.final_norm", p.at(block_of(p) + ".mlp.add", "out"), dh);
  const std::string d_y =
      as_computed(p, "mtp.proj", layer_backward(p, p.c.layers, p.at("mtp.proj", "out"), d_out));
  const std::string d_hidden =
      linear_grad(p, "mtp.proj_hidden", p.at("mtp.norm_hidden", "out"), d_y, Sharding::whole);
  const std::string d_embedded =
      linear_grad(p, "mtp.proj_embedding", p.at("mtp.norm_embedding", "out"), d_y, Sharding::whole);
  const std::string d_looked_up =
      norm_grad(p, "mtp.norm_embedding", p.at("mtp.embedding", "out"), d_embedded);
  p.node("embedding_grad", {p.at("data", "labels"), d_looked_up},
         {p.at("mtp.embedding.weight", "wgrad")}, p.over_contexts(),
         {{"rows", p.c.vocabulary()}, {"period", 0}});
  Ids parts{p.at("head.mtp.weight", "wgrad")};
  if (p.c.tied()) parts.push_back(p.at("mtp.embedding.weight", "wgrad"));
  parts.push_back(p.at("head.loss.weight", "wgrad"));
  p.node("sum", parts, {p.at("head.weight", "wgrad")}, Promise::in_fp32());
  return norm_grad(p, "mtp.norm_hidden", x, d_hidden);
}

}  // namespace plumb::model

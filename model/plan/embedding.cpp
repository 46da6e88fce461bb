#include "model/plan/parts.hpp"

namespace plumb::model {

// x = E[ids] (+ P[position])                              (T, C)
std::string embedding(Promise& p) {
  Ids lookup{p.at("data", "ids"), Promise::weight("embedding")};
  if (p.gpt()) lookup.push_back(Promise::weight("position"));
  if (p.gpt() && p.c.documents > 0) lookup.push_back(p.at("data", "positions"));
  const std::string x = p.at("embedding", "out");
  p.node("embedding", lookup, {x}, p.on_stream());
  return x;
}

void embedding_grad(Promise& p, const std::string& dy) {
  p.node("embedding_grad", {p.at("data", "ids"), dy}, {p.at("embedding.weight", "wgrad")},
         p.over_contexts(), {{"rows", p.c.vocabulary()}, {"period", 0}});
  if (p.gpt()) {
    const bool packed = p.c.documents > 0;
    p.node("embedding_grad", {p.at("data", packed ? "positions" : "ids"), dy},
           {p.at("position.weight", "wgrad")}, p.over_tokens(),
           {{"rows", p.c.sequence}, {"period", packed ? 0 : p.c.sequence}});
  }
}

}  // namespace plumb::model

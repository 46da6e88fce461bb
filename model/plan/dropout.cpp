#include "model/plan/parts.hpp"
#include "model/state/rounding_key.hpp"

namespace plumb::model {

std::string dropped(Promise& p, const std::string& name, const char* kind, const std::string& x) {
  if (p.c.dropout == 0) return x;
  const std::string id = "m" + std::to_string(p.micro_batch) + "/" + name, y = p.at(name, kind);
  const bool of_stream = name.starts_with("embedding");
  p.node("dropout", {x}, {y}, of_stream ? p.on_stream() : p.plain(),
         {{"rate", fraction(p.c.dropout)},
          {"key", static_cast<double>(dropout_key(p.c, p.step, id))}});
  return y;
}

}  // namespace plumb::model

#include "model/plan/parts.hpp"

namespace plumb::model {
namespace {

Sharding of_down(Sharding sharding) {
  return sharding == Sharding::columns ? Sharding::whole : sharding;
}
Sharding of_up(Sharding sharding) {
  return sharding == Sharding::columns ? sharding : Sharding::whole;
}

}  // namespace

std::string adapted(Promise& p, const std::string& name, const std::string& x, Sharding sharding) {
  const std::string y = linear(p, name, x, sharding);
  if (p.c.adapter == 0) return y;
  const std::string down = linear(p, name + ".adapter_down", x, of_down(sharding));
  const std::string up = linear(p, name + ".adapter_up", down, of_up(sharding));
  return add(p, y, up, p.output_of(name));
}

std::string adapted_grad(Promise& p, const std::string& name, const std::string& x,
                         const std::string& dy, Sharding sharding) {
  const std::string dx = linear_grad(p, name, x, dy, sharding);
  if (p.c.adapter == 0) return dx;
  const std::string down = name + ".adapter_down";
  const std::string d_down =
      linear_grad(p, name + ".adapter_up", p.at(down, "out"), dy, of_up(sharding));
  const std::string d_x = linear_grad(p, down, x, d_down, of_down(sharding));
  return add(p, dx, d_x, p.at(name + ".adapted", "grad_in"));
}

}  // namespace plumb::model

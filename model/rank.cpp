#include "model/rank.hpp"

#include "model/zero.hpp"

namespace plumb {
namespace {

Placement placed(const Tensor& x, Held held, int tp, int tp_size) {
  const auto size = static_cast<std::size_t>(tp_size);
  const auto mine = static_cast<std::size_t>(tp);
  if (held == Held::rows) {
    return row_slice(x.rows * size, x.cols, x.rows * mine, x.rows * (mine + 1));
  }
  if (held == Held::columns) {
    return column_slice(x.rows, x.cols * size, x.cols * mine, x.cols * (mine + 1));
  }
  return whole(x.rows, x.cols);
}

// "layers.3.attn.qkv.weight": 3; -1 outside the layers.
int layer_of(const std::string& parameter) {
  return parameter.starts_with("layers.") ? std::stoi(parameter.substr(7)) : -1;
}

}  // namespace

Held held(const Parameter& p) {
  return p.sharding == Sharding::none   ? Held::whole
         : p.sharding == Sharding::rows ? Held::rows
                                        : Held::columns;
}

Rank::Rank(const Config& config, const Recipe& recipe, const Layout& layout,
           const Joints& decisions, const Backend& products, Mesh groups)
    : c(config), r(recipe), l(layout), joints(decisions), backend(products), mesh(groups) {
  where.dp = mesh.dp.rank();
  where.dp_size = mesh.dp.size();
  where.tp = mesh.tp.rank();
  where.tp_size = mesh.tp.size();
  where.pp = mesh.pp.rank();
  where.pp_size = mesh.pp.size();
  stages = stages_of(l, c);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s] = joints.pipeline.layers(where, static_cast<int>(s), stages[s]);
  }
}

bool Rank::holds(const Parameter& p) const {
  const int layer = layer_of(p.name);
  if (layer < 0) {
    const bool at_the_end = p.name.starts_with("head.") || p.name.starts_with("final_norm.");
    return at_the_end ? ends() : begins() || (tied(p) && ends());
  }
  for (std::size_t s = where.pp; s < stages.size(); s += where.pp_size) {
    if (layer >= stages[s].first && layer < stages[s].last) return true;
  }
  return false;
}

const Tensor& Rank::param(const std::string& name) {
  const Tensor& mine = state.at(name + "/param");
  if (l.zero < 3) return mine;
  Tensor& all = gathered_[name];
  if (all.size() == 0) all = gathered(*this, mine, parameter_of(c, name));
  return all;
}

Tensor Rank::own_tokens(const Tensor& x) const {
  if (!l.sp) return x;
  Tensor mine(x.rows / where.tp_size, x.cols);
  std::copy_n(x.row(first(x.rows)), mine.size(), mine.values.begin());
  return mine;
}

void Rank::tap_leaf(const std::string& id, const Tensor& x, Held held, const Format& format) {
  const std::string as = where.recomputing ? id + "@recompute" : id;
  record.shards[as] = {placed(x, held, where.tp, where.tp_size), x, format};
}

void Rank::tap_share(const std::string& id, const Tensor& share, const Parameter& p,
                     const Format& format) {
  const LocalShape shape = local_shape(*this, p);
  const Placement of_slice =
      placed(Tensor(shape.rows, shape.cols), held(p), where.tp, where.tp_size);
  record.shards[id] = shard_of(*this, share, shape, of_slice, format);
}

void Rank::tap_step(const std::string& id, const Tensor& x, Held held, const Format& format,
                    const Evaluation& ran) {
  tap_leaf(id, x, held, format);
  record.ran[where.recomputing ? id + "@recompute" : id] = ran;
}

void Rank::tap(const std::string& name, const Tensor& x, Held held, const Format& format,
               const Evaluation& ran) {
  tap_step("m" + std::to_string(where.micro_batch) + "/" + name, x, held, format, ran);
}

Tensor Rank::multiply(View<float> a, View<float> b) const {
  Tensor product(a.rows, b.cols);
  backend.gemm(a, b, product.values.data(), product.cols, false);
  return product;
}

void Rank::collect(const std::string& parameter, const Tensor& gradient, Held held,
                   const Evaluation& ran) {
  tap(parameter + "/wgrad", gradient, held, fp32, ran);
  Tensor& total = main_grad[parameter];
  if (total.size() == 0) total = Tensor(gradient.rows, gradient.cols);
  add_to(total, gradient);
}

}  // namespace plumb

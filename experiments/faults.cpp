#include "experiments/faults.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "bounds/operations/attention.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"

namespace plumb::experiments {
namespace {

std::shared_ptr<const Tensor> kept(Tensor x) {
  return std::make_shared<const Tensor>(std::move(x));
}

std::string layer(const Training& run) { return "layers." + std::to_string(run.config.layers - 2); }
std::string micro(int m) { return "m" + std::to_string(m) + "/"; }

// Applies `how` to the tensor of that name in every micro-batch; results in the compute format if
// `activation`.
template <class How>
Values everywhere(const Training& run, const Values& healthy, const std::string& name,
                  bool activation, How how) {
  Values wrong;
  for (int m = 0; m < run.config.micro_batches; ++m) {
    Tensor x = *healthy.at(micro(m) + name);
    how(x, m);
    if (activation) round_in_place(x.values, run.recipe.compute);
    wrong[micro(m) + name] = kept(std::move(x));
  }
  return wrong;
}

// Where the heads lie: what attention's node says.
struct HeadsOf {
  Attributes attributes;
  explicit HeadsOf(const Config& c)
      : attributes{{"heads", c.heads},
                   {"kv_heads", c.kv_heads},
                   {"head_dim", c.head_dim()},
                   {"sequence", c.sequence}} {}
  std::size_t count(std::string_view name) const {
    return static_cast<std::size_t>(attributes.find(name)->second);
  }
};

struct Entry {
  std::size_t block = 0, head = 0, query = 0, key = 0;
  double probability = 0;
};

std::vector<double> probabilities(const Tensor& qkv, const Heads& heads, const Entry& at) {
  const float* q = qkv.row(at.block * heads.sequence + at.query) + heads.query(at.head);
  std::vector<double> p;
  double largest = -1e300, sum = 0;
  for (std::size_t j = 0; j <= at.query; ++j) {
    const float* k = qkv.row(at.block * heads.sequence + j) + heads.key(at.head);
    double score = 0;
    for (std::size_t d = 0; d < heads.dim; ++d) score += static_cast<double>(q[d]) * k[d];
    p.push_back(score * heads.scale<double>());
    largest = std::max(largest, p.back());
  }
  for (double& x : p) sum += x = std::exp(x - largest);
  for (double& x : p) x /= sum;
  return p;
}

// The off-diagonal entry whose probability is nearest to `size`, in the first sequences.
Entry nearest_entry(const Tensor& qkv, const Heads& heads, double size) {
  Entry best;
  double distance = 1e300;
  for (std::size_t h = 0; h < heads.heads; ++h) {
    for (std::size_t i = 1; i < heads.sequence; ++i) {
      Entry entry{0, h, i, 0, 0};
      const std::vector<double> p = probabilities(qkv, heads, entry);
      for (std::size_t j = 0; j < i; ++j) {
        const double off = std::fabs(std::log(p[j] / size));
        if (!(off < distance)) continue;
        distance = off;
        entry.key = j;
        entry.probability = p[j];
        best = entry;
      }
    }
  }
  return best;
}

std::optional<Values> masked_entry(const Training& run, const Values& healthy, double size) {
  const bool gpt = run.config.family == Family::gpt;
  const Tensor& qkv =
      *healthy.at(micro(0) + layer(run) + (gpt ? ".attn.qkv/out" : ".attn.rope/out"));
  const Heads heads(HeadsOf(run.config), 0);
  const Entry at = nearest_entry(qkv, heads, size);
  if (at.probability < size / 1.4 || at.probability > 0.999) return {};
  const std::string id = micro(0) + layer(run) + ".attn.core/out";
  Tensor o = *healthy.at(id);
  const float* v = qkv.row(at.block * heads.sequence + at.key) + heads.value(at.head);
  float* row = o.row(at.block * heads.sequence + at.query) + at.head * heads.dim;
  for (std::size_t d = 0; d < heads.dim; ++d) {
    row[d] = static_cast<float>((row[d] - at.probability * v[d]) / (1 - at.probability));
  }
  round_in_place(o.values, run.recipe.compute);
  return Values{{id, kept(std::move(o))}};
}

// Faults of one kind in any tensor.
std::optional<Values> scaled(const Training& run, const Values& healthy, const std::string& name,
                             bool activation, double size) {
  return everywhere(run, healthy, name, activation, [size](Tensor& x, int) {
    for (float& v : x.values) v = static_cast<float>(v * (1 + size));
  });
}

std::optional<Values> zeroed(const Training& run, const Values& healthy, const std::string& name,
                             bool activation, double size) {
  return everywhere(run, healthy, name, activation, [size](Tensor& x, int m) {
    for (std::size_t e = 0; e < x.size(); ++e) {
      if (uniform(77 + static_cast<std::uint64_t>(m), e) < size) x.values[e] = 0;
    }
  });
}

// A share of one row is the last micro-batch's; in the first.
std::optional<Values> stale(const Training& run, const Values& healthy, const std::string& name,
                            bool activation, double size) {
  Tensor x = *healthy.at(micro(0) + name);
  const Tensor& before = *healthy.at(micro(run.config.micro_batches - 1) + name);
  const std::size_t row = x.rows / 3;
  for (std::size_t j = 0; j < x.cols; ++j) {
    x(row, j) = static_cast<float>((1 - size) * x(row, j) + size * before(row, j));
  }
  if (activation) round_in_place(x.values, run.recipe.compute);
  return Values{{micro(0) + name, kept(std::move(x))}};
}

std::optional<Values> scaled_projection(const Training& run, const Values& healthy, double size) {
  return scaled(run, healthy, layer(run) + ".attn.proj/out", true, size);
}

std::optional<Values> zeroed_activations(const Training& run, const Values& healthy, double size) {
  return zeroed(run, healthy, layer(run) + ".mlp.act/out", true, size);
}

std::optional<Values> mixed_token(const Training& run, const Values& healthy, double size) {
  const std::string id = micro(0) + "embedding/out";
  Tensor x = *healthy.at(id);
  const std::size_t row = x.rows / 3, other = x.rows / 2;
  for (std::size_t j = 0; j < x.cols; ++j) {
    x(row, j) = static_cast<float>((1 - size) * x(row, j) + size * x(other, j));
  }
  round_in_place(x.values, run.recipe.compute);
  return Values{{id, kept(std::move(x))}};
}

std::optional<Values> stale_row(const Training& run, const Values& healthy, double size) {
  return stale(run, healthy, layer(run) + ".attn.core/out", true, size);
}

std::string backward(const Training& run) { return layer(run) + ".mlp.act/grad_in"; }

std::optional<Values> scaled_backward(const Training& run, const Values& healthy, double size) {
  return scaled(run, healthy, backward(run), true, size);
}

std::optional<Values> zeroed_backward(const Training& run, const Values& healthy, double size) {
  return zeroed(run, healthy, backward(run), true, size);
}

std::optional<Values> stale_backward_row(const Training& run, const Values& healthy, double size) {
  return stale(run, healthy, backward(run), true, size);
}

std::string gradient(const Training& run) { return layer(run) + ".mlp.fc1.weight/wgrad"; }

std::optional<Values> tokens_left_out(const Training& run, const Values& healthy, double size) {
  const auto count = static_cast<std::size_t>(std::lround(size * run.config.tokens()));
  if (count == 0) return {};
  std::string name = layer(run) + ".norm2/out", of = layer(run) + ".mlp.act/grad_in";
  // The copies that a sum over tokens takes, if it takes any.
  const std::string fc1 = layer(run) + ".mlp.fc1";
  if (const auto* casts = run.recipe.casts_of(run.config, fc1, Product::wgrad)) {
    name = casts->activations.copy_of(fc1 + "/operand", Contracted::rows);
    of = casts->gradients.copy_of(fc1 + "/grad_operand", Contracted::rows);
  }
  return everywhere(run, healthy, gradient(run), false, [&](Tensor& w, int m) {
    const Tensor& x = *healthy.at(micro(m) + name);
    const Tensor& dy = *healthy.at(micro(m) + of);
    for (std::size_t t = 0; t < count; ++t) {
      for (std::size_t i = 0; i < w.rows; ++i) {
        for (std::size_t j = 0; j < w.cols; ++j) w(i, j) -= x(t, i) * dy(t, j);
      }
    }
  });
}

std::optional<Values> scaled_gradient(const Training& run, const Values& healthy, double size) {
  return scaled(run, healthy, gradient(run), false, -size);
}

std::optional<Values> zeroed_elements(const Training& run, const Values& healthy, double size) {
  return zeroed(run, healthy, gradient(run), false, size);
}

std::optional<Values> stale_gradient_row(const Training& run, const Values& healthy, double size) {
  return stale(run, healthy, gradient(run), false, size);
}

constexpr std::array faults{
    Fault{"masked-entry", "activation", "element",
          "one attention entry is masked (its probability)", masked_entry},
    Fault{"zeroed-activations", "activation", "element",
          "elements of the MLP's activations are zero (share)", zeroed_activations},
    Fault{"mixed-token", "activation", "row", "one token's embedding mixed with another's (share)",
          mixed_token},
    Fault{"stale-row", "activation", "row",
          "one row of the attention output is another batch's (share)", stale_row},
    Fault{"scaled-projection", "activation", "scale",
          "output of the attention projection times 1 + s", scaled_projection},
    Fault{"zeroed-backward", "backward", "element",
          "elements of the gradient into the MLP's activation are zero (share)", zeroed_backward},
    Fault{"stale-backward-row", "backward", "row",
          "one row of that gradient is another batch's (share)", stale_backward_row},
    Fault{"scaled-backward", "backward", "scale", "that gradient times 1 + s", scaled_backward},
    Fault{"zeroed-elements", "weight gradient", "element",
          "elements of a weight gradient are zero (share)", zeroed_elements},
    Fault{"tokens-left-out", "weight gradient", "row",
          "a weight gradient misses tokens (share of them)", tokens_left_out},
    Fault{"stale-gradient-row", "weight gradient", "row",
          "one row of a weight gradient is another batch's (share)", stale_gradient_row},
    Fault{"scaled-gradient", "weight gradient", "scale", "a weight gradient times 1 - s",
          scaled_gradient},
};

}  // namespace

std::span<const Fault> all_faults() { return faults; }

const Fault& find_fault(std::string_view name) {
  const auto found = std::ranges::find(faults, name, &Fault::name);
  if (found == faults.end()) throw std::invalid_argument("no fault " + std::string(name));
  return *found;
}

}  // namespace plumb::experiments

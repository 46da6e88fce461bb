#include "bounds/examples/example.hpp"

#include <algorithm>
#include <array>

#include "bounds/examples/routed.hpp"
#include "bounds/proof/term.hpp"

namespace plumb::bounds {
namespace {

Matrix<double> row_maxima(const Matrix<double>& x, double above) {
  Matrix<double> m(x.rows, 1);
  for (std::size_t i = 0; i < x.rows; ++i) {
    const double largest = *std::max_element(x.row(i), x.row(i) + x.cols);
    m.values[i] = static_cast<double>(static_cast<float>(largest + above));
  }
  return m;
}

// Half of the contractions over tokens are shared by two ranks in zigzag, where the tokens divide.
void deal_tokens(Example& e, Draw& draw) {
  const bool attention = e.id == "attention_grad";
  const bool gemm =
      e.id == "gemm" && e.attributes["transpose_a"] != 0 && e.attributes["transpose_b"] == 0;
  const bool sums = e.id == "column_sum" || e.id == "embedding_grad" ||
                    e.id.ends_with("norm_wgrad") || e.id.ends_with("_loss");
  const bool routed = e.id == "grouped_wgrad" || e.id == "grouped_column_sum";
  if (!attention && !gemm && !sums && !routed) return;
  const std::size_t sequence = attention ? static_cast<std::size_t>(e.attributes["sequence"])
                               : routed  ? e.inputs.back().rows
                                         : e.inputs[0].rows;
  if (draw.coin() || sequence % 4 != 0) return;
  e.how.deal = {2, static_cast<int>(sequence)};
  e.how.parts = attention ? 2 : std::max(e.how.parts, 2);
  if (attention) e.how.wire = fp32;
}

// In half of the calls of attention over two ranks keys and values go round.
void make_ring(Example& e, Draw& draw) {
  if (e.id != "attention" && e.id != "attention_grad") return;
  const auto sequence = static_cast<int>(e.attributes["sequence"]);
  if (sequence % 4 != 0 || draw.coin()) return;
  e.how.deal = {2, sequence, 0, true};
  e.how.parts = 2;
  e.how.wire = fp32;
}

// Half of the heads have sinks.
void add_sinks(Example& e, Draw& draw) {
  if ((e.id != "attention" && e.id != "attention_grad") || draw.coin()) return;
  e.attributes["sinks"] = 1;
  e.inputs.push_back(draw.moderate(static_cast<std::size_t>(e.attributes["heads"]), 1, 2));
}

// In half of the sequences another document begins anew at every fourth token or so.
void add_documents(Example& e, Draw& draw) {
  const bool attention = e.id == "attention" || e.id == "attention_grad";
  if ((!attention && e.id != "rope") || draw.coin()) return;
  if (attention) e.attributes["documents"] = 1;
  const auto sequence = static_cast<std::size_t>(e.attributes["sequence"]);
  Matrix<double> places(e.inputs[0].rows, 1);
  for (std::size_t t = 0; t < places.rows; ++t) {
    const bool begins = t % sequence == 0 || draw.between(0, 3) == 0;
    places.values[t] = begins ? 0 : places.values[t - 1] + 1;
  }
  e.inputs.push_back(std::move(places));
}

// Half of the rotations leave the first columns of a head alone.
void turn_some(Example& e, Draw& draw) {
  if (e.id != "rope" || draw.coin()) return;
  const auto pairs = static_cast<std::size_t>(e.attributes["head_dim"]) / 2;
  e.attributes["rotated"] = static_cast<double>(2 * draw.between(1, pairs));
}

}  // namespace

Matrix<double> value_of_softmax(const Matrix<double>& x) {
  ExactRoundings none;
  Matrix<double> p = find_operation("softmax")->value({{&x}, {}, {}, none})[0];
  for (double& v : p.values) v = static_cast<double>(static_cast<float>(v));
  return p;
}

void keep_known_attributes(Example& e) {
  const Schema& schema = find_operation(e.id)->schema;
  std::erase_if(e.attributes, [&](const auto& attribute) {
    return std::ranges::none_of(
        schema.attributes, [&](const Attribute& known) { return known.name == attribute.first; });
  });
}

Example example_of(std::string_view id, Draw& draw) {
  Example e{std::string(id), {}, {}, {}};
  constexpr std::array parts{1, 2, 4};
  const Format in = draw.coin() ? bf16 : fp32;
  e.how = {parts[draw.between(0, 2)], draw.coin() ? bf16 : fp32, draw.coin() ? bf16 : fp32};
  const std::size_t rows = draw.between(1, 12);
  const std::size_t cols = 2 * draw.between(1, 24);
  const auto starts = [&](std::string_view with) { return e.id.rfind(with, 0) == 0; };
  // The activations' cubes and squares leave FP32's range where huge products do not.
  const bool cubes =
      draw.kind() == "huge" && (starts("gelu") || starts("silu") || starts("swiglu"));
  const auto give = [&](std::size_t r, std::size_t c) {
    e.inputs.push_back(cubes ? draw.moderate(r, c, 1e9) : draw.matrix(r, c, in));
  };
  if (id == "gemm") {
    const std::size_t k = draw.between(4, draw.between(0, 9) == 0 ? 1500 : 100);
    const bool ta = draw.coin();
    const bool tb = draw.coin();
    e.attributes = {{"transpose_a", ta}, {"transpose_b", tb}};
    if (draw.between(0, 2) == 0) e.attributes["chain"] = static_cast<double>(draw.between(1, k));
    ta ? give(k, rows) : give(rows, k);
    tb ? give(cols, k) : give(k, cols);
    if (draw.coin()) give(cols, 1);
  } else if (id == "batched_gemm") {
    const std::size_t batch = draw.between(1, 4), k = draw.between(1, 60);
    const bool ta = draw.coin(), tb = draw.coin();
    e.attributes = {
        {"batch", static_cast<double>(batch)}, {"transpose_a", ta}, {"transpose_b", tb}};
    ta ? give(batch * k, rows) : give(batch * rows, k);
    tb ? give(batch * cols, k) : give(batch * k, cols);
  } else if (starts("rmsnorm") || starts("layernorm")) {
    e.attributes = {{"eps", 1e-5}};
    if (id == "layernorm") {
      const std::size_t way = draw.between(0, 2);
      if (way < 2) e.attributes[way == 0 ? "one_pass" : "welford"] = 1;
    }
    give(rows, cols);
    e.inputs.push_back(draw.moderate(cols, 1, 0.3, 1));
    if (id == "layernorm") give(cols, 1);
    if (id.find("grad") != id.npos) give(rows, cols);
    e.how.parts = id.find("wgrad") != id.npos ? e.how.parts : 1;
  } else if (starts("head_norm")) {
    const std::size_t kv = draw.between(1, 2);
    const std::size_t heads = kv * draw.between(1, 3), dim = 2 * draw.between(1, 8);
    e.attributes = {{"heads", heads}, {"kv_heads", kv}, {"head_dim", dim}, {"eps", 1e-5}};
    const std::size_t width = (heads + 2 * kv) * dim;
    give(rows, width);
    for (int w = 0; w < 2; ++w) e.inputs.push_back(draw.moderate(dim, 1, 0.3, 1));
    if (e.id.ends_with("grad")) give(rows, width);
    e.how.parts = id.find("wgrad") != id.npos ? e.how.parts : 1;
  } else if (id == "pack_heads" || id == "split_heads" || id == "shared_key_grad") {
    const bool sums = id == "shared_key_grad";
    if (!sums) e.how.parts = 1;
    // Each rank has a key.
    const std::size_t kv = static_cast<std::size_t>(e.how.parts) * draw.between(1, 3);
    const std::size_t heads = kv * draw.between(1, 2), dim = 2 * draw.between(1, 4);
    const std::size_t shared = draw.between(sums ? 1 : 0, dim - 1);
    e.attributes = {{"heads", heads}, {"kv_heads", kv}, {"head_dim", dim}, {"shared", shared}};
    if (id == "pack_heads") {
      give(rows, heads * dim);
      give(rows, kv * (2 * dim - shared));
      if (shared > 0) give(rows, shared);
    } else {
      give(rows, (heads + 2 * kv) * dim);
    }
  } else if (id == "rope" || starts("attention")) {
    const std::size_t kv = draw.between(1, 2);
    const std::size_t heads = kv * draw.between(1, 3);
    const std::size_t dim = 2 * draw.between(1, 12);
    const std::size_t sequence = draw.between(1, 24);
    const std::size_t tokens = sequence * draw.between(1, 2);
    e.attributes = {{"heads", heads},       {"kv_heads", kv}, {"head_dim", dim},
                    {"sequence", sequence}, {"base", 10000},  {"inverse", draw.coin()}};
    const std::size_t width = (heads + 2 * kv) * dim;
    // Scores beyond some hundreds would leave nothing of a softmax but its largest entry.
    const bool vast = draw.kind() == "spread" || draw.kind() == "powers" || draw.kind() == "huge";
    if (vast && id != "rope") {
      e.inputs.push_back(draw.moderate(tokens, width, 3));
    } else {
      give(tokens, width);
    }
    if (id == "attention_grad") give(tokens, heads * dim);
    e.how.parts = 1;
  } else if (starts("cross_entropy")) {
    const std::size_t vocabulary = draw.between(4, 80);
    e.inputs.push_back(draw.moderate(rows, vocabulary, draw.kind() == "spread" ? 40 : 3));
    if (draw.kind() == "tiny") e.inputs[0] = draw.matrix(rows, vocabulary);
    e.inputs.push_back(draw.whole(rows, vocabulary));
    e.inputs.push_back(draw.whole(rows, 2));
    e.inputs.push_back(Matrix<double>(1, 1, static_cast<double>(rows)));
    if (id == "cross_entropy_grad") {
      e.inputs.push_back(row_maxima(e.inputs[0], 0.5));
      if (draw.coin()) e.inputs.push_back(Matrix<double>(1, 1, 1024));
    }
    if (draw.between(0, 2) == 0) e.attributes["smoothing"] = 0.1;
    if (draw.between(0, 2) == 0) e.attributes["weight"] = 0.3;
    e.how.wire = fp32;
  } else if (id == "softmax" || id == "log_sum_exp") {
    e.inputs.push_back(draw.moderate(rows, cols, draw.kind() == "spread" ? 40 : 3));
    if (draw.kind() == "tiny") e.inputs[0] = draw.matrix(rows, cols);
    e.how.parts = 1;
  } else if (id == "softmax_grad") {
    e.inputs.push_back(value_of_softmax(draw.moderate(rows, cols, 3)));
    give(rows, cols);
  } else if (id == "softmax_merge") {
    for (std::size_t r = draw.between(1, 5); r > 0; --r) {
      give(rows, cols);
      e.inputs.push_back(draw.moderate(rows, 1, 3));
    }
  } else if (id == "amax_scale") {
    give(rows, cols);
    e.attributes = {{"largest", draw.coin() ? e4m3fn.largest() : e5m2.largest()}};
  } else if (id == "block_scales" || id == "quantize_blocks") {
    give(rows, cols);
    e.attributes = {{"rows", draw.between(1, 4)},
                    {"cols", draw.between(1, 20)},
                    {"rule", draw.between(0, 4)},
                    {"sliced_rows", draw.coin()}};
    constexpr std::array elements{e4m3fn, e5m2, e2m1, e2m3};
    e.how = {parts[draw.between(0, 2)], fp32, elements[draw.between(0, 3)]};
    const bool of_experts = draw.between(0, 3) == 0;
    const Matrix<double> ids = draw.whole(rows, 4);
    if (of_experts) {
      e.attributes["experts"] = 4;
      e.attributes["sliced_rows"] = 0;
      e.how.deal.groups = static_cast<int>(draw.between(1, 2));
      if (rows % 4 == 0 && draw.coin()) {
        e.how.deal.ranks = 2;
        e.how.deal.sequence = static_cast<int>(rows);
      }
      e.inputs.push_back(ids);
    }
    if (id == "quantize_blocks") {
      e.id = "block_scales";
      e.inputs.insert(e.inputs.begin() + 1, value_of(e)[0]);
      e.id = id;
      if (draw.coin()) e.attributes["key"] = static_cast<double>(draw.between(0, 1U << 30));
    }
  } else if (id == "quantize") {
    give(rows, cols);
    double largest = 1e-30;
    for (const double v : e.inputs[0].values) largest = std::max(largest, std::fabs(v));
    const double s = 400 / largest;
    const int exponent = std::ilogb(s);
    const double most = std::ldexp(1.0, std::min(exponent, 120));
    e.inputs.push_back(Matrix<double>(
        1, 1, draw.coin() || exponent > 120 ? most : static_cast<double>(static_cast<float>(s))));
    e.how.output = draw.coin() ? e4m3fn : e5m2;
    if (draw.coin()) {  // of a larger tensor than this one was scaled for
      e.attributes["saturate"] = 1;
      for (double& v : e.inputs[1].values) v *= 4;
    }
  } else if (starts("embedding")) {
    e.inputs.push_back(draw.whole(rows, 7));
    if (id == "embedding") {
      give(7, cols);
      if (draw.coin()) give(5, cols);
      if (e.inputs.size() == 3 && draw.coin()) e.inputs.push_back(draw.whole(rows, 5));
    } else {
      give(rows, cols);
      e.attributes = {{"rows", 7}, {"period", draw.coin() ? 0 : 7}};
    }
  } else if (id == "sum") {
    // Each rank has an input.
    for (std::size_t i = 4 * draw.between(1, 2); i > 0; --i) give(rows, cols);
  } else if (id == "all_reduce") {
    const std::size_t ranks = draw.between(1, 9), algorithm = draw.between(0, 3);
    e.attributes = {{"algorithm", algorithm}};
    if (algorithm == 0 && draw.coin())
      e.attributes["rotation"] = static_cast<double>(draw.between(0, ranks - 1));
    for (std::size_t i = 0; i < ranks; ++i) give(rows, cols);
  } else if (id == "adam") {
    e.attributes = {{"lr", 1e-3},
                    {"beta1", 0.9},
                    {"beta2", 0.95},
                    {"eps", 1e-8},
                    {"step", static_cast<double>(draw.between(1, 50))}};
    if (draw.coin()) e.attributes["weight_decay"] = 0.1;
    for (int i = 0; i < 4; ++i) give(rows, cols);
    for (double& v : e.inputs[2].values) {
      v = static_cast<double>(static_cast<float>(std::min(v * v, 1e30)));
    }
    if (draw.coin()) e.inputs.push_back(Matrix<double>(1, 1, draw.between(0, 9) == 0 ? 1 : 0));
  } else if (id == "loss_scale") {
    e.attributes = {{"growth", 2}, {"backoff", 0.5}, {"interval", 3}};
    e.inputs = {Matrix<double>(1, 1, std::exp2(draw.between(0, 126))),
                Matrix<double>(1, 1, static_cast<double>(draw.between(0, 2))),
                Matrix<double>(1, 1, draw.coin())};
  } else if (id == "amax_history") {
    give(draw.between(1, 6), 1);
    for (double& v : e.inputs[0].values) v = std::fabs(v);
    for (std::size_t i = draw.between(1, 3); i > 0; --i) give(rows, cols);
  } else if (id == "clip") {
    e.attributes = {{"max_norm", 1}};
    e.inputs.push_back(Matrix<double>(
        1, 1, static_cast<double>(static_cast<float>(std::fabs(draw.normal()) * 2 + 1e-3))));
  } else if (id == "unscale") {
    e.inputs.push_back(draw.coin() ? Matrix<double>(1, 1, 65536) : draw.moderate(1, 1, 100, 1000));
    for (std::size_t i = draw.between(1, 3); i > 0; --i) give(rows, cols);
  } else if (is_routed(id)) {
    routed(e, draw, in);
  } else if (id == "scale") {
    give(rows, cols);
    e.inputs.push_back(draw.moderate(1, 1, 1));
  } else if (starts("swiglu_grad")) {
    give(rows, cols);
    give(rows, cols / 2);
  } else if (id == "dropout") {
    constexpr std::array rates{0.1, 0.3, 0.6};
    give(rows, cols);
    e.attributes = {{"rate", rates[draw.between(0, 2)]},
                    {"key", static_cast<double>(draw.between(0, 1U << 30))}};
  } else if (id == "cast") {
    give(rows, cols);
    if (draw.coin()) e.attributes["key"] = static_cast<double>(draw.between(0, 1U << 30));
  } else {  // add, column_sum, grad_norm, activations and their gradients
    give(rows, cols);
    const bool gradient = e.id.ends_with("_grad");
    if (id == "add" || gradient || id == "grad_norm") give(rows, cols);
  }
  deal_tokens(e, draw);
  make_ring(e, draw);
  add_sinks(e, draw);
  add_documents(e, draw);
  turn_some(e, draw);
  keep_known_attributes(e);
  return e;
}

std::vector<Matrix<double>> value_of(const Example& e) {
  return run<double>(e, ExactRoundings(), find_operation(e.id)->value);
}
std::vector<Matrix<float>> evaluation_of(const Example& e) {
  return run<float>(e, RealRoundings(), find_operation(e.id)->evaluate);
}
std::vector<Matrix<Truth>> truth_of(const Example& e) {
  return run<Truth>(e, NoRoundings<Truth>(), find_operation(e.id)->truth);
}
Outcome<Tolerance> tolerance_of(const Example& e, Mode mode, double delta) {
  std::vector<const Matrix<double>*> pointers;
  for (const auto& input : e.inputs) pointers.push_back(&input);
  const auto values = value_of(e);
  auto t = find_operation(e.id)->tolerance({pointers, e.attributes, e.how, mode, delta, values});
  const double inflated = mutant_factor("bound." + e.id);
  if (!t || inflated == 1) return t;
  Tolerance wider = *t;
  for (auto& bound : wider.bound) {
    for (double& x : bound.values) x *= inflated;
  }
  return wider;
}

void judge(const Example& e, const std::vector<Matrix<float>>& outputs, Comparison& verdict,
           Mode mode, double delta) {
  const auto tolerance = tolerance_of(e, mode, delta);
  if (!tolerance) {
    ++verdict.refusals;
    verdict.refusal = tolerance.error().detail;
    return;
  }
  const auto values = value_of(e);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < outputs[o].size(); ++i) {
      const double value = values[o].values[i];
      const double mean = mode == Mode::moments ? tolerance->bias[o].values[i] : 0;
      const double error = std::fabs(static_cast<double>(outputs[o].values[i]) - value - mean);
      const double bound = tolerance->bound[o].values[i];
      if (mode == Mode::moments && bound == 0) {  // foretold, but for what FP64 loses
        if (!(error <= 0x1p-40 * std::fabs(value))) ++verdict.violations;
        continue;
      }
      ++verdict.elements;
      if (mode != Mode::moments && !(error <= bound)) ++verdict.violations;
      if (error == 0) continue;
      verdict.largest_ratio = std::max(verdict.largest_ratio, error / bound);
      verdict.squares += error / bound * (error / bound);
    }
  }
}

}  // namespace plumb::bounds

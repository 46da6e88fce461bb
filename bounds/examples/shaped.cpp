#include "bounds/examples/shaped.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <sstream>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/routed.hpp"
#include "number/blocks.hpp"
#include "number/outcome.hpp"
#include "number/philox.hpp"
#include "number/words.hpp"

namespace plumb::bounds {
namespace {

// A bound is computed from all of its values in FP64, beside the values themselves.
constexpr std::size_t most_values = std::size_t(1) << 24;    // of a matrix
constexpr std::size_t most_products = std::size_t(1) << 28;  // of the operation

std::vector<std::size_t> sizes_of(const std::string& shape, std::size_t count,
                                  const std::string& expected) {
  std::vector<std::size_t> sizes;
  std::istringstream in(shape);
  for (std::string part; std::getline(in, part, 'x');) {
    std::size_t n = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), n);
    const bool whole = read.ec == std::errc() && read.ptr == part.data() + part.size();
    sizes.push_back(whole ? n : 0);
  }
  const bool possible = std::ranges::all_of(sizes, [](std::size_t n) { return n > 0; });
  if (sizes.size() == count && possible && !shape.ends_with('x')) return sizes;
  throw Failure("shape '" + shape + "' does not fit; write " + expected);
}

// Each size is bounded before it is multiplied.
void refuse_large(const std::string& shape, std::initializer_list<std::size_t> sizes,
                  std::size_t most, const std::string& what) {
  std::size_t room = most;
  for (const std::size_t n : sizes) room /= n;
  if (room > 0) return;
  throw Failure("shape '" + shape + "' makes more than " + std::to_string(most) + " " + what +
                "; choose a smaller one");
}

void norm(Maker& m, Example& e) {
  m.table();
  m.weights();
  if (e.id == "layernorm") m.weights();
  if (e.id.ends_with("grad")) m.table();
  e.attributes = {{"eps", 1e-5}};
}

void heads(Maker& m, Example& e) {
  if (m.cols_ % 6 != 0)
    throw Failure(e.id + " takes SEQUENCExF with F = 3 head_dim, head_dim even");
  m.table();
  if (e.id == "attention_grad") m.drawn(m.rows_, m.cols_ / 3);
  e.attributes = {{"heads", 1},
                  {"kv_heads", 1},
                  {"head_dim", static_cast<double>(m.cols_ / 3)},
                  {"sequence", static_cast<double>(m.rows_)},
                  {"base", 10000},
                  {"inverse", 0}};
}

void normed_heads(Maker& m, Example& e) {  // one of each, with the weights of a norm of their size
  if (m.cols_ % 6 != 0) throw Failure(e.id + " takes ROWSxF with F = 3 head_dim, head_dim even");
  const std::size_t dim = m.cols_ / 3;
  m.table();
  for (int w = 0; w < 2; ++w) {
    m.weights();
    e.inputs.back().values.resize(dim);
    e.inputs.back().rows = dim;
  }
  if (e.id.ends_with("grad")) m.table();
  e.attributes = {
      {"heads", 1}, {"kv_heads", 1}, {"head_dim", static_cast<double>(dim)}, {"eps", 1e-5}};
}

void packed_heads(Maker& m, Example& e) {  // of two columns; of a key the second is shared
  if (m.cols_ % 6 != 0) throw Failure(e.id + " takes ROWSxF with F = 6 heads");
  const std::size_t n = m.cols_ / 6;
  e.attributes = {{"heads", static_cast<double>(n)},
                  {"kv_heads", static_cast<double>(n)},
                  {"head_dim", 2},
                  {"shared", 1}};
  if (e.id != "pack_heads") return m.table();
  for (const std::size_t columns : {2 * n, 3 * n, std::size_t(1)}) m.drawn(m.rows_, columns);
}

void gated(Maker& m, Example& e) {
  if (m.cols_ % 2 != 0) throw Failure(e.id + " needs an even number of columns: gate and up");
  m.table();
  if (e.id == "swiglu_grad") m.drawn(m.rows_, m.cols_ / 2);
}

void loss(Maker& m, Example& e) {
  m.table();
  m.labels();
  m.filled(m.rows_, 1, 1);
  m.filled(1, 1, static_cast<double>(m.rows_));
  if (e.id == "cross_entropy_grad") {
    m.filled(m.rows_, 1, 0);
    const Matrix<double>& x = e.inputs[0];
    for (std::size_t t = 0; t < m.rows_; ++t) {
      double sum = 0;
      for (std::size_t v = 0; v < m.cols_; ++v) sum += std::exp(x(t, v));
      e.inputs.back().values[t] = static_cast<double>(static_cast<float>(std::log(sum)));
    }
  }
}

void embedded(Maker& m, Example& e) {  // ROWS tokens of a table with as many rows
  m.filled(m.rows_, 1, 0);
  for (std::size_t t = 0; t < m.rows_; ++t) {
    e.inputs.back().values[t] = static_cast<double>(t * 7 % m.rows_);
  }
  m.table();
  if (e.id == "embedding_grad") {
    e.attributes = {{"rows", static_cast<double>(m.rows_)}, {"period", 0}};
  }
}

void softmaxes(Maker& m, Example& e) {
  m.table();
  if (e.id == "softmax_merge") m.drawn(m.rows_, 1), m.table(), m.drawn(m.rows_, 1);
  if (e.id == "softmax_grad") {
    e.inputs[0] = value_of({"softmax", e.inputs, {}, {}})[0];
    for (double& p : e.inputs[0].values) p = static_cast<double>(static_cast<float>(p));
    m.table();
  }
}

void scaled(Maker& m, Example& e) {
  m.table();
  double largest = 1e-30;
  for (const double x : e.inputs[0].values) largest = std::max(largest, std::fabs(x));
  const bool quantized = e.id == "quantize";  // to what E4M3 holds, by a power of two
  m.filled(1, 1, quantized ? std::exp2(std::floor(std::log2(448 / largest))) : 0.75);
  if (quantized) e.how.output = e4m3fn;
}

void optimizer(Maker& m, Example& e) {  // in its tenth step
  m.table();
  for (const double power : {1.0, 2.0}) {
    m.filled(m.rows_, m.cols_, 0);
    for (std::size_t i = 0; i < e.inputs.back().size(); ++i) {
      const double g = std::fabs(normal_at(100 + e.inputs.size(), i)) + 0.1;
      e.inputs.back().values[i] = round_to(std::pow(0.3 * g, power), fp32);
    }
  }
  m.table();
  e.attributes = {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"step", 10}};
}

void clipped(Maker& m, Example& e) {
  m.drawn(1, 1);  // a norm above max_norm
  double& norm = e.inputs.back().values[0];
  norm = round_to(1 + std::fabs(norm), fp32);
  e.attributes = {{"max_norm", 1}};
}

void in_blocks(Maker& m, Example& e) {  // of MXFP8: 32 numbers and a power of two
  m.table();
  e.attributes = {{"rows", 1},
                  {"cols", 32},
                  {"rule", static_cast<double>(ScaleRule::ceil)},
                  {"sliced_rows", 0}};
  e.how.output = e4m3fn;
  if (e.id == "block_scales") return;
  e.inputs.push_back(value_of({"block_scales", e.inputs, e.attributes, e.how})[0]);
}

void to_fit(Maker& m, Example& e) {
  m.table();
  e.attributes = {{"largest", e4m3fn.largest()}};
}

void one_table(Maker& m, Example&) { m.table(); }
void dropped(Maker& m, Example& e) {
  m.table();
  e.attributes = {{"rate", 0.1}, {"key", 1}};
}
void two_tables(Maker& m, Example&) {
  m.table();
  m.table();
}

void with_history(Maker& m, Example&) {  // of two steps
  m.filled(2, 1, 1);
  m.table();
}

void loss_scaled(Maker& m, Example& e) {  // the last step before it grows
  m.filled(1, 1, 65536);
  m.filled(1, 1, 1999);
  m.filled(1, 1, 0);
  e.attributes = {{"growth", 2}, {"backoff", 0.5}, {"interval", 2000}};
}

void reduced(Maker& m, Example& e) {  // eight ranks in a ring
  for (int rank = 0; rank < 8; ++rank) m.table();
  e.attributes = {{"algorithm", 0}};
}

void unscaled(Maker& m, Example&) {
  m.filled(1, 1, 65536);
  m.table();
}

void batched(Maker& m, Example& e) {  // four products of ROWS x COLUMNS times COLUMNS x ROWS
  m.drawn(4 * m.rows_, m.cols_);
  m.drawn(4 * m.rows_, m.cols_);
  e.attributes = {{"batch", 4}, {"transpose_a", 0}, {"transpose_b", 1}};
}

struct Form {
  std::string_view id;
  void (*make)(Maker&, Example&);
  std::string_view usual = "16x4096";
};

constexpr Form forms[] = {
    {"gemm", nullptr, "32x4096x32"},
    {"batched_gemm", batched, "16x1024"},
    {"add", two_tables},
    {"dropout", dropped},
    {"sum", two_tables},
    {"all_reduce", reduced},
    {"column_sum", one_table, "4096x16"},
    {"embedding", embedded},
    {"embedding_grad", embedded},
    {"rmsnorm", norm},
    {"rmsnorm_grad", norm},
    {"rmsnorm_wgrad", norm, "4096x16"},
    {"head_norm", normed_heads, "256x192"},
    {"head_norm_grad", normed_heads, "256x192"},
    {"head_norm_wgrad", normed_heads, "4096x48"},
    {"pack_heads", packed_heads, "256x192"},
    {"split_heads", packed_heads, "256x192"},
    {"shared_key_grad", packed_heads, "256x192"},
    {"layernorm", norm},
    {"layernorm_grad", norm},
    {"layernorm_wgrad", norm, "4096x16"},
    {"rope", heads, "256x192"},
    {"attention", heads, "256x192"},
    {"attention_grad", heads, "256x192"},
    {"softmax", softmaxes},
    {"softmax_grad", softmaxes},
    {"log_sum_exp", softmaxes},
    {"softmax_merge", softmaxes},
    {"router", routed, "256x64"},
    {"router_grad", routed, "256x64"},
    {"balance_loss", routed, "4096x8"},
    {"z_loss", routed, "4096x1"},
    {"top_k", routed, "256x64"},
    {"within_capacity", routed, "256x64"},
    {"expert_count", routed, "256x64"},
    {"expert_bias", routed, "256x64"},
    {"dispatch", routed, "256x64"},
    {"dispatch_grad", routed, "256x64"},
    {"grouped_gemm", routed, "64x1024"},
    {"grouped_wgrad", routed, "1024x16"},
    {"grouped_column_sum", routed, "4096x16"},
    {"combine", routed, "256x64"},
    {"combine_grad", routed, "256x64"},
    {"combine_weight_grad", routed, "16x4096"},
    {"gelu", one_table},
    {"gelu_grad", two_tables},
    {"gelu_erf", one_table},
    {"gelu_erf_grad", two_tables},
    {"silu", one_table},
    {"silu_grad", two_tables},
    {"swiglu", gated},
    {"swiglu_grad", gated},
    {"cross_entropy", loss},
    {"cross_entropy_grad", loss},
    {"cast", one_table},
    {"amax_scale", to_fit},
    {"amax_history", with_history},
    {"quantize", scaled},
    {"block_scales", in_blocks},
    {"quantize_blocks", in_blocks},
    {"grad_norm", one_table},
    {"clip", clipped, "1x1"},
    {"scale", scaled},
    {"unscale", unscaled},
    {"loss_scale", loss_scaled, "1x1"},
    {"adam", optimizer},
};

const Form& form_of(const std::string& operation) {
  std::vector<std::string> known;
  for (const Form& form : forms) {
    if (form.id == operation) return form;
    known.emplace_back(form.id);
  }
  throw Failure(unknown("operation", operation, known));
}

}  // namespace

double normal_at(std::uint64_t input, std::uint64_t element) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(2 * input, element)));
  return radius * std::cos(2 * std::numbers::pi * uniform(2 * input + 1, element));
}

std::vector<std::string> shaped_operations() {
  std::vector<std::string> all;
  for (const Form& form : forms) all.emplace_back(form.id);
  return all;
}

std::string usual_shape(const std::string& operation) {
  return std::string(form_of(operation).usual);
}

Example shaped_example(const std::string& operation, const std::string& shape, const Format& inputs,
                       const DrawAt& draw) {
  const Form& form = form_of(operation);
  Example e{operation, {}, {}, {}};
  if (operation == "gemm") {
    const auto n = sizes_of(shape, 3, "MxKxN, e.g. 64x4096x64");
    refuse_large(shape, {n[0], n[1], n[2]}, most_products, "products");
    for (const auto& [rows, cols] : {std::pair{n[0], n[1]}, {n[1], n[2]}, {n[0], n[2]}}) {
      refuse_large(shape, {rows, cols}, most_values, "values in a matrix");
    }
    Maker maker(0, 0, inputs, draw, e);
    maker.drawn(n[0], n[1]);
    maker.drawn(n[1], n[2]);
    e.attributes = {{"transpose_a", 0}, {"transpose_b", 0}};
    return e;
  }
  const auto n = sizes_of(shape, 2, "ROWSxCOLUMNS, e.g. 16x4096");
  refuse_large(shape, {n[0], n[1]}, most_values, "values in a matrix");
  if (form.make == heads) refuse_large(shape, {n[0], n[0]}, most_values, "scores");
  if (form.make == batched) {
    refuse_large(shape, {4, n[0], n[1], n[0]}, most_products, "products");
    refuse_large(shape, {4, n[0], std::max(n[0], n[1])}, most_values, "values in a matrix");
  }
  Maker maker(n[0], n[1], inputs, draw, e);
  form.make(maker, e);
  keep_known_attributes(e);
  return e;
}

}  // namespace plumb::bounds

// gemm: C = op(A) op(B) + bias
//
//   inputs       A, B, [bias (N, 1)]        op(A) (M, K)   op(B) (K, N)   C (M, N)
//   attributes   transpose_a, transpose_b, [chain]
//   evaluate     K in `parts` slices (of tokens, if they are dealt: A' B), each one chain of FP32
//                fused multiply-adds, or a chain for each `chain` terms, whose sums FP32 then adds
//                one after the other; parts combined on the wire; bias added in FP32; one rounding
//                to the output format
//   tolerance    of part r, with S_r = |A_r| |B_r| and K terms:
//                  sums     gamma_K S_r + K t     any order of a chain of K roundings  [Hig02 3.1]
//                Chains of n terms each pass n + ceil(K / n) - 1 <= K roundings, too.
//                S_r is a float product itself, enlarged by its own 2 K u S_r + K t. Then the
//                combination, the bias and the cast as for every operation: bounds/tolerance.hpp.
//                By chance, energy = u^2 (sum of the squares of the running sums) per part [HI23],
//                and apart from it what may vanish of small products, as a worst case (theory.md
//                P8); moments are those of the chain as promised (bounds/ordered.hpp). Asked for any
//                order, energy is that of the largest partial sums that any may have (theory.md P6).
#include "bounds/operations/gemm.hpp"

#include <cmath>
#include <limits>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/product_of_part.hpp"
#include "bounds/ordered.hpp"
#include "bounds/tolerance.hpp"
#include "number/product.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> finished(std::vector<Matrix<T>>&& parts, const Call<T>& call) {
  Matrix<T> c = sum_in_rank_order(std::move(parts), call.how, call.roundings);
  if (call.inputs.size() == 3) {
    const auto& bias = call[2].values;
    for (std::size_t i = 0; i < c.rows; ++i) {
      for (std::size_t j = 0; j < c.cols; ++j) c(i, j) += bias[j];
    }
  }
  call.roundings.round(c, call.how.output);
  return as_outputs(std::move(c));
}

// The tokens of A' B in the order in which ranks hold them, where they are dealt.
template <class T>
std::vector<Matrix<T>> in_rank_order(const Matrix<T>& a, const Matrix<T>& b,
                                     const SumPartition& of) {
  std::vector<Matrix<T>> both;
  both.push_back(rows_in(of.order, a));
  both.push_back(rows_in(of.order, b));
  return both;
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const bool rows = call.attribute("transpose_a") != 0;
  if (call.how.tokens.ranks > 1 && (!rows || call.attribute("transpose_b") != 0)) {
    throw std::invalid_argument("gemm: only the terms of A' B are tokens, which can be dealt");
  }
  return partitioned_gemm(call, parting(rows ? call[0].rows : call[0].cols, call.how));
}

// Roundings of a chain that chance sees (theory.md P4): the sum of the squares of u times the
// running sums, and apart from it what may vanish of products that are some spacings or less of the
// sum they are added to. Such roundings depend on each other (theory.md P8: stagnation); they add
// up as worst cases do.
struct Running {
  Matrix<double> squares, vanishing;
};

// Books the addition of `term`, which made `sum`.
void count_rounding(double sum, double term, double& square, double& vanishing) {
  // At least half a spacing, and at most twice as much.
  const double half = std::max(0x1p-24 * std::fabs(sum), 0x1p-150);
  const bool small = std::fabs(term) < 8 * half;
  vanishing += small ? std::min(half, std::fabs(term)) : 0;
  square += small ? 0 : half * half;
}

// Ends a chain: its sum joins that of those before, if there are any.
void end_chain(Matrix<double>& chain, Matrix<double>& before, bool any, Running& running) {
  for (std::size_t e = 0; e < chain.size(); ++e) {
    before.values[e] += chain.values[e];
    if (any) {
      count_rounding(before.values[e], chain.values[e], running.squares.values[e],
                     running.vanishing.values[e]);
    }
    chain.values[e] = 0;
  }
}

Running running_sums(View<double> a, View<double> b, std::size_t chain) {
  const Matrix<double> zeros(a.rows, b.cols);
  Running running{zeros, zeros};
  Matrix<double> sums = zeros, before = zeros;
  std::vector<double> b_row(b.cols);
  for (std::size_t k = 0; k < a.cols; ++k) {
    if (chain > 0 && k > 0 && k % chain == 0) end_chain(sums, before, k > chain, running);
    for (std::size_t j = 0; j < b.cols; ++j) b_row[j] = b(k, j);
    for (std::size_t i = 0; i < a.rows; ++i) {
      const double x = a(i, k);
      double* sum = sums.row(i);
      double* square = running.squares.row(i);
      double* vanishing = running.vanishing.row(i);
      for (std::size_t j = 0; j < b.cols; ++j) {
        const double product = x * b_row[j];
        sum[j] += product;
        count_rounding(sum[j], product, square[j], vanishing[j]);
      }
    }
  }
  if (chain > 0 && a.cols > chain) end_chain(sums, before, true, running);
  return running;
}

// The numbers that a machine may flush, in absolute value; others are zero.
Matrix<double> subnormals(View<double> x) {
  Matrix<double> flushed(x.rows, x.cols);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) {
      const double size = std::fabs(x(i, j));
      if (size < smallest_normal_fp32) flushed(i, j) = size;
    }
  }
  return flushed;
}
Matrix<double> sizes(View<double> x) {
  Matrix<double> all(x.rows, x.cols);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) all(i, j) = std::fabs(x(i, j));
  }
  return all;
}
bool any_number(const Matrix<double>& x) {
  return std::ranges::any_of(x.values, [](double v) { return v != 0; });
}

// The same where the order is not known: no partial sum is above M, the larger of the sums of
// positive and of negative products, and each of 2 K roundings may be at M.
Running largest_sums(View<double> a, View<double> b, const Matrix<double>& c,
                     const Matrix<double>& size) {
  const Matrix<double> zeros(a.rows, b.cols);
  Running running{zeros, zeros};
  Matrix<double> half = zeros;
  const auto roundings = 2 * static_cast<double>(a.cols);
  for (std::size_t e = 0; e < half.size(); ++e) {
    const double most = (size.values[e] + std::fabs(c.values[e])) / 2 * (1 + 0x1p-20);
    half.values[e] = std::max(0x1p-24 * most, 0x1p-150);
    running.squares.values[e] = roundings * half.values[e] * half.values[e];
  }
  for (std::size_t k = 0; k < a.cols; ++k) {
    for (std::size_t i = 0; i < a.rows; ++i) {
      const double x = std::fabs(a(i, k));
      for (std::size_t j = 0; j < b.cols; ++j) {
        const double term = x * std::fabs(b(k, j));
        if (term < 8 * half(i, j)) running.vanishing(i, j) += std::min(half(i, j), term);
      }
    }
  }
  return running;
}

// How chance is to be counted in a slice.
struct ByChance {
  bool counts = false;    // at all
  std::size_t chain = 0;  // of so many terms, if the order is the promised one
  bool any_order = false;
};
ByChance by_chance(const ToleranceCall& call) {
  return {call.mode == Mode::probabilistic, chain_of(call.attributes),
          call.sums.way == SumsIn::Way::any};
}

// One slice of K: the FP64 product, and the error of its sum in any order.
Matrix<RunningError> slice_of(View<double> a, View<double> b, const ByChance& chance) {
  const Matrix<double> c = product(a, b);
  const Matrix<float> s = product_of_sizes(a, b);
  const double ku = static_cast<double>(a.cols) * 0x1p-24;
  // Beyond 2^22 terms S may be off by more than its enlargement covers: there is no bound.
  const double gamma = ku <= 0.25 ? ku / (1 - ku) : std::numeric_limits<double>::infinity();
  const double t = static_cast<double>(a.cols) * 0x1p-149;  // underflow, of s as well
  Matrix<RunningError> part(a.rows, b.cols);
  Matrix<double> size(a.rows, b.cols);
  for (std::size_t e = 0; e < part.size(); ++e) {
    RunningError& x = part.values[e];
    x.value = c.values[e];
    const double sum =
        (static_cast<double>(s.values[e]) * (1 + term<"gemm.sizes">(2 * ku)) + t) * (1 + 0x1p-20);
    x[Share::sums] = term<"gemm.sums">(gamma * sum) + term<"gemm.underflow">(t);
    size.values[e] = sum;
  }
  if (chance.counts) {
    const Running running =
        chance.any_order ? largest_sums(a, b, c, size) : running_sums(a, b, chance.chain);
    for (std::size_t e = 0; e < part.size(); ++e) {
      part.values[e].energy = term<"gemm.energy">(running.squares.values[e]);
      part.values[e].drift = term<"gemm.vanishing">(running.vanishing.values[e]);
    }
  }
  if (!arithmetic_in_force.flushes) return part;
  const Matrix<double> lost = lost_by_flushes(a, b);
  for (std::size_t e = 0; e < part.size(); ++e)
    part.values[e].err_surely(lost.values[e], Share::sums);
  return part;
}

using Begins = std::vector<std::size_t>;  // of the parts, and the end

// The moments of the chains, and then of the evaluation's end.
Outcome<Tolerance> moments(const ToleranceCall& call, const Begins& begins) {
  const View<double> a = view(call[0], call.attribute("transpose_a") != 0);
  const View<double> b = view(call[1], call.attribute("transpose_b") != 0);
  const std::size_t chain = chain_of(call.attributes);
  const Order order{chain > 0 ? Order::Kind::blocked : Order::Kind::sequential, chain};
  std::vector<Matrix<ErrorMoments>> parts;
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    const std::size_t first = begins[p], last = begins[p + 1];
    const SumErrors errors = errors_in_order(columns(a, first, last), rows(b, first, last), order);
    Matrix<ErrorMoments>& part = parts.emplace_back(a.rows, b.cols);
    for (std::size_t e = 0; e < part.size(); ++e) {
      part.values[e] = ErrorMoments::of(errors.sum.values[e], errors.bias.values[e],
                                        term<"gemm.variance">(errors.variance.values[e]));
    }
  }
  MomentRoundings roundings;
  const Matrix<ErrorMoments> none;
  Matrix<ErrorMoments> bias;
  if (call.inputs.size() == 3) bias = moments_of_input(call[2]);
  std::vector<const Matrix<ErrorMoments>*> inputs{&none, &none};
  if (call.inputs.size() == 3) inputs.push_back(&bias);
  return moments_of(
      finished<ErrorMoments>(std::move(parts), {inputs, call.attributes, call.how, roundings}),
      call);
}

// The bound of the sums with its numbers.
std::string words_of(const Begins& begins) {
  std::size_t most = 0;
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    most = std::max(most, begins[p + 1] - begins[p]);
  }
  const double ku = static_cast<double>(most) * 0x1p-24;
  char text[160];
  std::snprintf(text, sizeof text, "gamma_K S + K t: K = %zu, gamma_K = K u / (1 - K u) = %.4g",
                most, ku / (1 - ku));
  return begins.size() == 2 ? text : std::string(text) + ", summed over the parts";
}

Outcome<Tolerance> tolerance_in_order(const ToleranceCall& call, const Begins& begins) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  const bool repeated = call.mode != Mode::deterministic && (repeats(call[0]) || repeats(call[1]));
  if (call.mode == Mode::moments) {
    if (repeated) return Refusal{Why::conflict, std::string(data_repeat)};
    return moments(call, begins);
  }
  const View<double> a = view(call[0], call.attribute("transpose_a") != 0);
  const View<double> b = view(call[1], call.attribute("transpose_b") != 0);
  std::vector<Matrix<RunningError>> parts;
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    const std::size_t first = begins[p], last = begins[p + 1];
    parts.push_back(slice_of(columns(a, first, last), rows(b, first, last), by_chance(call)));
  }
  RunningErrorRoundings roundings;
  const Matrix<RunningError> none;
  Matrix<RunningError> bias;
  if (call.inputs.size() == 3) bias = converted<RunningError>(call[2]);
  std::vector<const Matrix<RunningError>*> inputs{&none, &none};
  if (call.inputs.size() == 3) inputs.push_back(&bias);
  const auto outputs =
      finished<RunningError>(std::move(parts), {inputs, call.attributes, call.how, roundings});
  return tolerance_of(outputs, call, repeated, {{Share::sums, words_of(begins)}});
}

Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  const bool rows = call.attribute("transpose_a") != 0;
  return tolerance_of_partitioned_gemm(call, parting(rows ? call[0].rows : call[0].cols, call.how));
}

}  // namespace

Matrix<double> lost_by_flushes(View<double> a, View<double> b) {
  // Each product and each sum may vanish where it is subnormal.
  Matrix<double> lost(a.rows, b.cols,
                      term<"gemm.flushes">(2 * static_cast<double>(a.cols) * smallest_normal_fp32));
  const Matrix<double> of_a = subnormals(a), of_b = subnormals(b);
  const auto add = [&](const Matrix<double>& left, const Matrix<double>& right) {
    if (!any_number(left) || !any_number(right)) return;
    const Matrix<double> products = product(view(left), view(right));
    for (std::size_t e = 0; e < lost.size(); ++e) {
      lost.values[e] += term<"gemm.flushed_operands">(products.values[e] * (1 + 0x1p-40));
    }
  };
  add(of_a, sizes(b));
  add(sizes(a), of_b);
  return lost;
}

std::size_t chain_of(const Attributes& attributes) {
  const auto found = attributes.find("chain");
  return found == attributes.end() ? 0 : static_cast<std::size_t>(found->second);
}

template <class T>
std::vector<Matrix<T>> partitioned_gemm(const Call<T>& call, const SumPartition& of) {
  View<T> a = view(call[0], call.attribute("transpose_a") != 0);
  View<T> b = view(call[1], call.attribute("transpose_b") != 0);
  std::vector<Matrix<T>> dealt;
  if (call.how.tokens.ranks > 1) {
    dealt = in_rank_order(call[0], call[1], of);
    a = view(dealt[0], true);
    b = view(dealt[1]);
  }
  std::vector<Matrix<T>> parts;
  for (std::size_t p = 0; p + 1 < of.begins.size(); ++p) {
    const std::size_t first = of.begins[p], last = of.begins[p + 1];
    parts.push_back(product_of_part(columns(a, first, last), rows(b, first, last), call, p));
  }
  return finished(std::move(parts), call);
}
template std::vector<Matrix<float>> partitioned_gemm(const Call<float>&, const SumPartition&);
template std::vector<Matrix<double>> partitioned_gemm(const Call<double>&, const SumPartition&);
template std::vector<Matrix<BigFloat>> partitioned_gemm(const Call<BigFloat>&, const SumPartition&);

Outcome<Tolerance> tolerance_of_partitioned_gemm(const ToleranceCall& call,
                                                 const SumPartition& of) {
  if (call.how.tokens.ranks == 1) return tolerance_in_order(call, of.begins);
  const auto dealt = in_rank_order(call[0], call[1], of);
  ToleranceCall same = call;
  same.inputs[0] = &dealt[0];
  same.inputs[1] = &dealt[1];
  same.how.tokens = {};
  return tolerance_in_order(same, of.begins);
}

namespace {

void random(RandomCall& c) {
  const std::size_t k = c.draw.between(4, c.draw.between(0, 9) == 0 ? 1500 : 100);
  const bool ta = c.draw.coin();
  const bool tb = c.draw.coin();
  c.e.attributes = {{"transpose_a", ta}, {"transpose_b", tb}};
  if (c.draw.between(0, 2) == 0) c.e.attributes["chain"] = c.whole(1, k);
  ta ? c.give(k, c.rows) : c.give(c.rows, k);
  tb ? c.give(c.cols, k) : c.give(k, c.cols);
  if (c.draw.coin()) c.give(c.cols, 1);
  if (ta && !tb) c.shard_tokens(k);
}

void shaped(Maker& m) {
  const std::size_t rows = m.sizes[0], inner = m.sizes[1], cols = m.sizes[2];
  m.limit_products({rows, inner, cols});
  m.limit_values({rows, inner});
  m.limit_values({inner, cols});
  m.limit_values({rows, cols});
  m.drawn(rows, inner);
  m.drawn(inner, cols);
  m.e.attributes = {{"transpose_a", 0}, {"transpose_b", 0}};
}

}  // namespace

extern const Operation gemm{
    .id = "gemm",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance,
    .sums = SumOrder::any,
    .traits = {.kind = Kind::product, .one_product = true},
    .schema = {.inputs = {where({"A", "M", "K"}, "transpose_a", "K", "M"),
                          where({"B", "K", "N"}, "transpose_b", "N", "K"),
                          optional({"bias", "N", "1"})},
               .outputs = {{"C", "M", "N"}},
               .attributes = {flag("transpose_a"), flag("transpose_b"), or_else(count("chain"))},
               .dealt = "K"},
    .examples = {.random = random, .shaped = shaped, .usual = "32x4096x32"},
};

}  // namespace plumb::bounds

// attention: causal softmax attention per head, grouped queries, and its gradient
//
//   inputs       qkv (T, F) (, sinks (heads)) (, places (T))    o (T, heads head_dim)
//                layout of F: see rope.cpp; places: of each token within its document
//   attributes   heads, kv_heads, head_dim, sequence (, sinks: 1) (, documents: 1)
//                a token sees those before it in its document, or in its sequence, and itself
//                (, rate, mask: dropout of probabilities. That of token t in head h for key j of its
//                sequence is kept where uniform(mask, (t heads + h) sequence + j) >= rate)
//   evaluate     s = (q . k) / sqrt(head_dim); p = exp(s - max) / sum exp(s - max); P = p rounded
//                to the output format; o = sum_j P_j v_j; o rounded. Chains run over ascending
//                index. With dropout P is multiplied by the FP32 number next to 1 / (1 - rate)
//                where it is kept, and rounded once more, before o is made. A sink is one score more in each row of its head, the last: it has no
//                value.
// attention_grad: dqkv (T, F) (, dsinks (T, heads)) from qkv and do (, sinks) (, places)
//   dP           = do . v; with dropout times that number where P was kept, else 0, in FP32; dv is
//                of P after dropout, all else of P before it
//   D            = sum_j P_j dP_j
//   dS           = P (dP - D), rounded to the output format
//   dq           = (sum_j dS_j k_j) / sqrt(head_dim)
//   dk, dv       one chain through the query heads of a group, in each part over the queries, or
//                (how.tokens.groups) the heads, of one rank; parts are combined before the scale
//   dsinks       what each row gives to its sink's logit, - p D, its p not rounded; then rounded
// Where keys and values go round (how.tokens.ring): ring_attention.hpp.
//   moments      what a row shares (largest, sum, D, each exponential, P and dP) is a source of its
//                own
#include <algorithm>
#include <cmath>
#include <optional>

#include "bounds/examples/heads.hpp"
#include "bounds/operations/ring_attention.hpp"
#include "bounds/tolerance.hpp"
#include "number/exponential.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> ring_forward(const Call<T>& call) {
  return as_outputs(Ring<T>(call, 1).forward().o);
}
template <class T>
std::vector<Matrix<T>> ring_grad(const Call<T>& call) {
  return Ring<T>(call, 2).grad();
}

// One head h in sequence b: rounded probabilities from the first key that each row sees on, and the
// probabilities of the sink.                                                         // (S, S), (S)
template <class T>
struct Weights {
  Matrix<T> p;
  std::vector<T> sink;
  std::vector<std::size_t> first;
};

// The softmax of scores that are not scaled yet, of the first n of a row; returns the sink's.
template <class T>
T softmax(T* row, std::size_t n, T scale, const T* sink) {
  for (std::size_t j = 0; j < n; ++j) row[j] *= scale;
  T largest = *std::max_element(row, row + n);
  if (sink != nullptr && largest < *sink) largest = *sink;
  largest = with_named_error(largest);
  for (std::size_t j = 0; j < n; ++j) row[j] = with_named_error(exp(row[j] - largest));
  T sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += row[j];
  T of_sink = 0;
  if (sink != nullptr) {
    of_sink = with_named_error(exp(*sink - largest));
    sum += of_sink;
  }
  sum = with_named_error(sum);
  for (std::size_t j = 0; j < n; ++j) row[j] = row[j] / sum;
  return sink == nullptr ? of_sink : of_sink / sum;
}

template <class T>
Weights<T> probabilities(const Call<T>& call, const Heads& of, std::size_t b, std::size_t h) {
  Matrix<T> p =
      product(of.block(call[0], b, of.query(h), false), of.block(call[0], b, of.key(h), true));
  const T* sink = of.sinks == 0 ? nullptr : &call[of.sinks].values[h];
  std::vector<T> of_sink;
  std::vector<std::size_t> firsts;
  for (std::size_t i = 0; i < p.rows; ++i) {
    const std::size_t first = of.first_seen(call, b * of.sequence + i) - b * of.sequence;
    firsts.push_back(first);
    std::fill_n(p.row(i), first, T(0));
    of_sink.push_back(softmax(p.row(i) + first, i + 1 - first, of.scale<T>(), sink));
    std::fill(p.row(i) + i + 1, p.row(i) + p.cols, T(0));
  }
  call.roundings.round(p, call.how.output);
  return {std::move(p), std::move(of_sink), std::move(firsts)};
}

// Multiplies what dropout keeps of one head, (S, S), and drops the rest.
template <class T>
void thin(const Heads& of, std::size_t b, std::size_t h, Matrix<T>& p) {
  const T factor = static_cast<T>(of.of_kept());
  for (std::size_t i = 0; i < p.rows; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      p(i, j) = of.keeps(b * of.sequence + i, h, j) ? p(i, j) * factor : T(0);
    }
  }
}

// P as it weighs values: after dropout, rounded once more.
template <class T>
Matrix<T> thinned(const Call<T>& call, const Heads& of, std::size_t b, std::size_t h, Matrix<T> p) {
  if (of.rate == 0) return p;
  thin(of, b, h, p);
  call.roundings.round(p, call.how.output);
  return p;
}

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  if (call.how.tokens.ring) return ring_forward(call);
  const Heads of(call, 1);
  Matrix<T> o(call[0].rows, of.heads * of.dim);
  for (std::size_t b = 0; b < o.rows / of.sequence; ++b) {
    for (std::size_t h = 0; h < of.heads; ++h) {
      const Matrix<T> p = thinned(call, of, b, h, probabilities(call, of, b, h).p);
      multiply(view(p), of.block(call[0], b, of.value(h), false),
               o.row(b * of.sequence) + h * of.dim, o.cols);
    }
  }
  call.roundings.round(o, call.how.output);
  return as_outputs(std::move(o));
}

// dS of one head: P (dP - D), masked entries zero; the D go to `along`.                 // (S, S)
template <class T>
Matrix<T> score_gradients(const Call<T>& call, Weights<T>& w, Matrix<T> dp, std::vector<T>& along) {
  using std::fma;
  Matrix<T>& p = w.p;
  for (T& x : p.values) x = with_named_error(x);
  for (T& x : dp.values) x = with_named_error(x);
  for (std::size_t i = 0; i < p.rows; ++i) {
    T d = 0;
    for (std::size_t j = w.first[i]; j <= i; ++j) d = fma(p(i, j), dp(i, j), d);
    d = with_named_error(d);
    for (std::size_t j = 0; j < p.cols; ++j) {
      dp(i, j) = j >= w.first[i] && j <= i ? p(i, j) * (dp(i, j) - d) : T(0);
    }
    along.push_back(d);
  }
  call.roundings.round(dp, call.how.output);
  return dp;
}

// Which part has the queries of each row. (A draw leaves a key all its queries on one rank where
// the candidate does: only the cuts of the zigzag move.)
std::vector<int> parts_of_rows(std::size_t n, const Evaluation& how) {
  std::vector<int> part(n, 0);
  const auto [order, begins] = parting(n, how);
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    for (std::size_t i = begins[p]; i < begins[p + 1]; ++i) part[order[i]] = static_cast<int>(p);
  }
  return part;
}

// Adds what the queries of one part give to dqkv, unscaled, and their rows of dsinks: other rows of
// P and dS are zero.
template <class T>
Matrix<T> gradient_part(const Call<T>& call, const std::vector<int>& part_of, int part,
                        Matrix<T>& d_sinks) {
  const Heads of(call, 2);
  const Matrix<T>& qkv = call[0];
  const Matrix<T>& d_out = call[1];
  Matrix<T> d(qkv.rows, qkv.cols);
  const bool by_heads = call.how.tokens.groups > 1;
  if (by_heads && of.ratio() % static_cast<std::size_t>(call.how.parts) != 0) {
    throw std::invalid_argument("parts by heads divide the query heads of a group");
  }
  const std::size_t chain =
      by_heads ? of.ratio() / static_cast<std::size_t>(call.how.parts) : of.ratio();
  for (std::size_t b = 0; b < d.rows / of.sequence; ++b) {
    T* rows = d.row(b * of.sequence);
    for (std::size_t h = 0; h < of.heads; ++h) {
      if (by_heads && h % of.ratio() / chain != static_cast<std::size_t>(part)) continue;
      const bool later = h % chain != 0;  // continues the chain of its group
      Weights<T> w = probabilities(call, of, b, h);
      const View<T> d_o = of.block(d_out, b, h * of.dim, false);
      Matrix<T> dp = product(d_o, of.block(qkv, b, of.value(h), true));
      if (of.rate > 0) thin(of, b, h, dp);
      Matrix<T> p = of.rate > 0 ? thinned(call, of, b, h, w.p) : Matrix<T>();
      std::vector<T> along;
      Matrix<T> ds = score_gradients(call, w, std::move(dp), along);
      if (of.rate == 0) p = std::move(w.p);
      for (std::size_t i = 0; i < p.rows; ++i) {
        const std::size_t token = b * of.sequence + i;
        if (by_heads || part_of[token] == part) {
          if (of.sinks > 0) d_sinks(token, h) = -(w.sink[i] * along[i]);
          continue;
        }
        std::fill_n(p.row(i), p.cols, T(0));
        std::fill_n(ds.row(i), ds.cols, T(0));
      }
      multiply(view(ds), of.block(qkv, b, of.key(h), false), rows + of.query(h), d.cols);
      // A row of P and dS goes into dq as a whole, into a row of dk and dv by one element.
      for (T& x : ds.values) x = with_unnamed_errors(x);
      for (T& x : p.values) x = with_unnamed_errors(x);
      multiply(view(ds, true), of.block(qkv, b, of.query(h), false), rows + of.key(h), d.cols,
               later);
      multiply(view(p, true), d_o, rows + of.value(h), d.cols, later);
    }
  }
  return d;
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  if (call.how.tokens.ring) return ring_grad(call);
  const Heads of(call, 2);
  const std::vector<int> part_of = parts_of_rows(call[0].rows, call.how);
  Matrix<T> d_sinks(of.sinks == 0 ? 0 : call[0].rows, of.heads);
  std::vector<Matrix<T>> parts;
  for (int p = 0; p < call.how.parts; ++p) {
    parts.push_back(gradient_part(call, part_of, p, d_sinks));
  }
  Matrix<T> d = sum_in_rank_order(std::move(parts), call.how, call.roundings);
  const std::size_t group = of.ratio() + 2;
  const T scale = of.scale<T>();
  for (std::size_t t = 0; t < d.rows; ++t) {
    for (std::size_t head = 0; head * of.dim < d.cols; ++head) {
      if (head % group == group - 1) continue;  // values
      T* row = d.row(t) + head * of.dim;
      for (std::size_t j = 0; j < of.dim; ++j) row[j] *= scale;
    }
  }
  call.roundings.round(d, call.how.output);
  std::vector<Matrix<T>> outputs = as_outputs(std::move(d));
  if (of.sinks > 0) {
    call.roundings.round(d_sinks, call.how.output);
    outputs.push_back(std::move(d_sinks));
  }
  return outputs;
}

// Each element of a row of P knows how it moves with all others: memory grows with the cube.
constexpr std::size_t most_keys = 256;

std::optional<Refusal> refusal(const ToleranceCall& call) {
  if (call.mode == Mode::probabilistic) {
    return Refusal{Why::unsupported,
                   "of attention only the deterministic tolerance and the moments are derived"};
  }
  if (call.mode == Mode::moments && call.count("sequence") > most_keys) {
    return Refusal{Why::unsupported, "moments of attention are derived for sequences of up to " +
                                         std::to_string(most_keys) + " tokens"};
  }
  if (call.how.parts > 1 && call.how.wire != fp32) {
    return Refusal{Why::unsupported, "parts of attention's gradient are derived for an FP32 wire"};
  }
  if (const auto others = refusals_before(call); !others.empty()) return others.front();
  if (call.form != 0 && is_set(call.attributes, "sinks")) {
    return Refusal{Why::unsupported,
                   "with sinks only the promised formula is bounded; name it in a card "
                   "(form_attention, form_attention_grad: promised)"};
  }
  const auto subnormal = [](const Matrix<double>* x) {
    return std::ranges::any_of(
        x->values, [](double v) { return v != 0 && std::fabs(v) < smallest_normal_fp32; });
  };
  if (arithmetic_in_force.flushes && std::ranges::any_of(call.inputs, subnormal)) {
    return Refusal{Why::unsupported,
                   "the inputs hold subnormal numbers, and where they may be flushed attention has "
                   "no bound; set them to zero, or take a card that keeps them"};
  }
  return {};
}

// Moments are those of the chains as promised, the worst case that of any order; of rings both are
// those of the turns.
template <auto WorstCase, NearEvaluation OfRing, MomentEvaluation Moments>
Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  if (const auto refused = refusal(call)) return *refused;
  const bool derived = call.mode == Mode::deterministic && !call.how.tokens.ring;
  return derived ? WorstCase(call) : tolerance_by_evaluation(call, {OfRing, Moments}, {0});
}

void random_qkv(RandomCall& c) {
  const HeadsSize size = random_heads(c);
  // Scores beyond some hundreds would leave nothing of a softmax but its largest entry.
  const std::string_view kind = c.draw.kind();
  const bool vast = kind == "spread" || kind == "powers" || kind == "huge";
  vast ? c.moderate(size.tokens, size.cols, 3) : c.give(size.tokens, size.cols);
}

// Half of the calls over two ranks send keys and values round; half have sinks, half documents, half
// dropout.
void choose(RandomCall& c) {
  const auto heads = static_cast<std::size_t>(c.e.attributes["heads"]);
  const auto sequence = static_cast<int>(c.e.attributes["sequence"]);
  if (sequence % 4 == 0 && !c.draw.coin()) {
    c.e.how.tokens = {2, sequence, 0, true};
    c.e.how.parts = 2;
    c.e.how.wire = fp32;
  }
  if (!c.draw.coin()) {
    c.e.attributes["sinks"] = 1;
    c.moderate(heads, 1, 2);
  }
  if (c.documents(static_cast<std::size_t>(sequence))) c.e.attributes["documents"] = 1;
  if (c.draw.coin()) return;  // the other half drops some probabilities
  c.e.attributes["rate"] = c.draw.coin() ? 0.1 : 0.5;
  c.e.attributes["mask"] = c.whole(0, 1U << 30);
}

void random(RandomCall& c) {
  random_qkv(c);
  choose(c);
}
void random_grad(RandomCall& c) {
  random_qkv(c);
  const double heads = c.e.attributes["heads"], dim = c.e.attributes["head_dim"];
  c.give(c.e.inputs[0].rows, static_cast<std::size_t>(heads * dim));
  c.shard_tokens(static_cast<std::size_t>(c.e.attributes["sequence"]));
  if (c.e.how.parts > 1) c.e.how.wire = fp32;
  choose(c);
  const bool even = static_cast<std::size_t>(heads / c.e.attributes["kv_heads"]) % 2 == 0;
  if (c.e.how.parts > 1 || !even || c.draw.coin()) return;
  c.e.how.parts = 2;
  c.e.how.wire = fp32;
  c.e.how.tokens.groups = 2;
}
void shaped_grad(Maker& m) {
  shaped_heads(m);
  m.drawn(m.rows, m.cols / 3);
}

}  // namespace

extern const Operation attention{
    .id = "attention",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance<attention_tolerance, ring_forward<RunningError>, forward<ErrorMoments>>,
    .sums = SumOrder::chain,
    .traits = {.kind = Kind::attention},
    .schema = {.inputs = {{"qkv", "sequence n", "heads head_dim + 2 kv_heads head_dim"},
                          given({"sinks", "heads", "1"}, "sinks"),
                          given({"places", "sequence n", "1"}, "documents")},
               .outputs = {{"o", "sequence n", "heads head_dim"}},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"),
                              count("sequence"), or_else(flag("sinks")), or_else(flag("documents")),
                              or_else(real("rate")), or_else(key("mask"))},
               .dealt = "sequence n"},
    .examples = {.random = random, .shaped = shaped_heads, .usual = "128x192"},
    .forms = attention_forms,
};
extern const Operation attention_grad{
    .id = "attention_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance<attention_grad_tolerance, ring_grad<RunningError>, grad<ErrorMoments>>,
    .sums = SumOrder::own,
    .traits = {.kind = Kind::attention},
    .schema = {.inputs = {{"qkv", "sequence n", "heads head_dim + 2 kv_heads head_dim"},
                          {"do", "sequence n", "heads head_dim"},
                          given({"sinks", "heads", "1"}, "sinks"),
                          given({"places", "sequence n", "1"}, "documents")},
               .outputs = {{"dqkv", "sequence n", "heads head_dim + 2 kv_heads head_dim"},
                           given({"dsinks", "sequence n", "heads"}, "sinks")},
               .attributes = {count("heads"), count("kv_heads"), count("head_dim"),
                              count("sequence"), or_else(flag("sinks")), or_else(flag("documents")),
                              or_else(real("rate")), or_else(key("mask"))},
               .dealt = "sequence n"},
    .examples = {.random = random_grad, .shaped = shaped_grad, .usual = "128x192"},
    .forms = attention_forms,
};

}  // namespace plumb::bounds

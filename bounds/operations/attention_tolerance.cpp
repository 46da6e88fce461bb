// How far attention and its gradient, evaluated as attention.cpp says, may be from their values.
//
// u = 2^-24 (enlarged), g(n) = n u / (1 - n u): a chain of n roundings [Hig02 3.1]; E_x bounds x's
// error; |.| of a matrix is taken element by element. With n = S, d = head_dim, c_e = 2:
//
//   scores       E_s = (g(d) + 4u) |q| |k|^T / sqrt d        chain; scale (2), its product (1)
//   exponents    a_j = E_s,j + u (|s_j - m| + E_s,j + max E_s) + c_e u
//                The maximum itself need not be known: moving all scores cancels in p.
//   weights      e^ = e e^(+-a); running sums round by u each: Z^ = Z (1 +- B),
//                B = (sum_j e_j (e^a_j - 1) + u (1 + B') sum of running sums + 2 n t) / Z,
//                B' the same without the running sums
//   P            E_p = (p (e^a_j (1 + u) - 1 + B) + 4 t) / (1 - B)
//                t: underflow of exp, of the division
//   P stored     E_P = E_p + half a spacing of the output format
//   dropped      P' = f P where it is kept, f in FP32: E_P' = f E_P + u f (P + E_P) + half a spacing of
//                the output format (in the forms below u_f of its size), in place of P before o and
//                dv; dP' in FP32 likewise
//   output       E_o = E_P |V| + g(n) (P + E_P) |V| + n t
// Gradient, from the stored P:
//   dP           E_dP = g(d) |do| |V|^T + d t
//   D            E_D = sum_j E_P (|dP| + E_dP) + P E_dP + g(n) sum_j (P + E_P)(|dP| + E_dP) + n t
//   dS           E_dS = E_P (|dP - D| + E') + P E' + 3u (P + E_P)(|dP - D| + E') + t,
//                E' = E_dP + E_D;  then stored
//   dq, dk, dv   E = E_left |right| + g(chain) (|left| + E_left) |right| + chain t;  scale: + 4u
//   dsinks       E = E_p |D| + (p + E_p) E_D + u (p + E_p) (|D| + E_D) + t,  E_p before any cast
//   result       half a spacing of the output format
// A sink is one score more, known exactly.
//
// Kernels of other people (Call::form; theory.md A5), with R = (2 c + 1) n u for functions of c ulp:
//   flash        a_j + R for e_j and in B: each term is scaled less than n times; the sum in any
//                order, g(n) in place of the running sums; P is rounded before it is divided: its
//                cast loses u_f P + t_f / 2. In the gradient P = exp(s - l) from l = m + ln Z:
//                + (2 c_log + 2) u ln Z + u |m| + u |s_j - m|; and D = sum_d do_d o_d from o as
//                stored: E_D is at least sum_d |do_d| E_o,d + g(d) sum_d |do_d o_d| + d t
//                What each head of a group gives to dk and dv is stored before it is added: u_f of
//                its size, and as much for the running sum and the scaled result
//   composed     scores, their scaled factors and dP are stored, dS twice; dq, dk, dv as in flash: E_s + 4 u_f |q| |k|^T / sqrt d,
//                E_dP + half a spacing; D perhaps as in flash
//
// Terms: `functions` is what P's softmax leaves, `stored` what roundings to the output format
// leave (P, dS, and the result), `sums` the chains, `steps` the rest.
// SOURCES  theory.md A3; bounds/SOURCES.md [Hig02] [BHH21]
#include "bounds/operations/attention.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

constexpr double u = 0x1p-24 * (1 + 0x1p-10);  // enlarged: squares of u, FP64 steps, exp's series
// Two subnormal spacings, or what two flushes lose.
double t() { return arithmetic_in_force.flushes ? 2 * smallest_normal_fp32 : 0x1p-148; }

constexpr double infinity = std::numeric_limits<double>::infinity();

double g(double n) { return n * u / (1 - n * u); }

Matrix<double> absolute(const Matrix<double>& x) {
  Matrix<double> m = x;
  for (double& v : m.values) v = std::fabs(v);
  return m;
}

// A matrix with what its roundings in FP32, and apart from these to the output format, may add.
struct Bounded {
  Matrix<double> value, fp32_error, stored;

  explicit Bounded(Matrix<double> x)
      : value(std::move(x)), fp32_error(value.rows, value.cols), stored(value.rows, value.cols) {}
  double error(std::size_t e) const { return fp32_error.values[e] + stored.values[e]; }
  double most(std::size_t e) const { return std::fabs(value.values[e]) + error(e); }
  Matrix<double> largest() const {
    Matrix<double> m(value.rows, value.cols);
    for (std::size_t e = 0; e < m.size(); ++e) m.values[e] = most(e);
    return m;
  }
  void store(const Format& to) {
    if (to == fp32) return;
    for (std::size_t e = 0; e < value.size(); ++e) {
      if (most(e) > 0) stored.values[e] = term<"attention.store">(half_spacing(most(e), to));
      if (!(most(e) <= to.largest())) stored.values[e] = infinity;
    }
  }
  // Once more, after a product that FP32 rounds.
  void store_again(const Format& to) {
    for (std::size_t e = 0; e < value.size(); ++e) {
      if (most(e) > 0) {
        stored.values[e] += term<"attention.store_again">(
            2 * most(e) * to.unit_roundoff() * (1 + 0x1p-6) + to.spacing_at_zero());
      }
    }
  }
  // A number that is rounded before it is divided by another: in proportion, wherever its binade ends.
  void store_unscaled(const Format& to) {
    if (to == fp32) return;
    for (std::size_t e = 0; e < value.size(); ++e) {
      if (most(e) > 0) {
        stored.values[e] = term<"attention.store_unscaled">(
            most(e) * to.unit_roundoff() * (1 + 0x1p-10) + to.spacing_at_zero() / 2);
      }
    }
  }
};

// Stored probabilities of one head; those of its sink, not stored.             // (S, S), (S, 1)
struct Weights {
  Bounded p, sink;
};

bool takes(const ToleranceCall& call, AttentionForm form) {
  return call.form == static_cast<std::size_t>(form);
}

// Are intermediate results stored in the output format?
bool stores(const ToleranceCall& call) {
  return takes(call, AttentionForm::composed) && !(call.how.output == fp32);
}
// What is lost where scores, and queries and keys that are scaled beforehand, are stored.
double of_stored_scores(const ToleranceCall& call) {
  return stores(call) ? 4 * call.how.output.unit_roundoff() * (1 + 0x1p-6) : 0;
}
// The same where they are subnormal: of one score, with the sums of the sizes of query and key.
double of_subnormal_scores(const ToleranceCall& call, double scale, double sums) {
  if (!stores(call)) return 0;
  const double at_zero = call.how.output.spacing_at_zero();
  return term<"attention.subnormal_scores">(at_zero / 2 * sums * std::sqrt(scale) + 2 * at_zero);
}
// Of each row of a block the sum of its sizes.
std::vector<double> sums_of_rows(View<double> x) {
  std::vector<double> sums(x.rows);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) sums[i] += x(i, j);
  }
  return sums;
}

// What dropout leaves of one head, in FP32.
Bounded thinned(const Heads& of, std::size_t b, std::size_t h, const Bounded& p) {
  Bounded y(p.value);
  const double factor = of.of_kept();
  for (std::size_t i = 0; i < y.value.rows; ++i) {
    for (std::size_t j = 0; j < y.value.cols; ++j) {
      const std::size_t e = i * y.value.cols + j;
      const bool kept = j <= i && of.keeps(b * of.sequence + i, h, j);
      y.value.values[e] = kept ? factor * p.value.values[e] : 0;
      y.fp32_error.values[e] = kept ? factor * p.fp32_error.values[e] +
                                          term<"attention.dropped">(u * factor * p.most(e)) + t()
                                    : 0;
      y.stored.values[e] = kept ? factor * p.stored.values[e] : 0;
    }
  }
  return y;
}
// P as it weighs values: after dropout, stored once more.
Bounded weighing(const ToleranceCall& call, const Heads& of, std::size_t b, std::size_t h,
                 const Bounded& p) {
  if (of.rate == 0) return p;
  Bounded y = thinned(of, b, h, p), again = y;
  takes(call, AttentionForm::promised) ? again.store(call.how.output)
                                       : again.store_unscaled(call.how.output);
  for (std::size_t e = 0; e < y.value.size(); ++e) {
    if (y.most(e) > 0 && !(call.how.output == fp32)) y.stored.values[e] += again.stored.values[e];
  }
  return y;
}

Weights probabilities(const ToleranceCall& call, const Heads& of, const Matrix<double>& size,
                      std::size_t b, std::size_t h, bool in_gradient) {
  const bool flash = takes(call, AttentionForm::flash);
  const SoftmaxForm form{!takes(call, AttentionForm::promised), flash, flash && in_gradient};
  Matrix<double> s =
      product(of.block(call[0], b, of.query(h), false), of.block(call[0], b, of.key(h), true));
  Matrix<double> s_error =
      product(of.block(size, b, of.query(h), false), of.block(size, b, of.key(h), true));
  const double scale = of.scale<double>();
  const auto d = static_cast<double>(of.dim);
  for (double& x : s.values) x *= scale;
  // Underflow, at most (d + 1) 2^-148, is far below the 2^-10 by which u is enlarged: a score's
  // error enters through exp, next to u.
  for (double& x : s_error.values) {
    x = (term<"attention.scores">(g(d)) + term<"attention.scale">(4 * u) +
         term<"attention.stored_scores">(of_stored_scores(call))) *
        scale * x;
  }
  if (stores(call)) {
    const auto q = sums_of_rows(of.block(size, b, of.query(h), false)),
               k = sums_of_rows(of.block(size, b, of.key(h), false));
    for (std::size_t i = 0; i < s.rows; ++i) {
      for (std::size_t j = 0; j < s.cols; ++j) {
        s_error(i, j) += of_subnormal_scores(call, scale, q[i] + k[j]);
        if (!(std::fabs(s(i, j)) / scale <= call.how.output.largest())) s_error(i, j) = infinity;
      }
    }
  }
  Weights w{Bounded(Matrix<double>(s.rows, s.cols)), Bounded(Matrix<double>(s.rows, 1))};
  for (std::size_t i = 0; i < s.rows; ++i) {
    const std::size_t first = of.first_seen(call, b * of.sequence + i) - b * of.sequence;
    std::vector<double> score(s.row(i) + first, s.row(i) + i + 1);
    std::vector<double> known(s_error.row(i) + first, s_error.row(i) + i + 1);
    if (of.sinks > 0) {
      score.push_back(call[of.sinks].values[h]);
      known.push_back(0);
    }
    std::vector<double> p(score.size()), error(score.size());
    softmax_with_error(score.data(), known.data(), score.size(), p.data(), error.data(), form);
    std::copy_n(p.begin(), i + 1 - first, w.p.value.row(i) + first);
    std::copy_n(error.begin(), i + 1 - first, w.p.fp32_error.row(i) + first);
    if (of.sinks > 0) {
      w.sink.value.values[i] = p.back();
      w.sink.fp32_error.values[i] = error.back();
    }
  }
  takes(call, AttentionForm::promised) ? w.p.store(call.how.output)
                                       : w.p.store_unscaled(call.how.output);
  return w;
}

// Adds the value of a product left * right and its errors to a block of outputs.
void accumulate(const Bounded& left, bool transposed, View<double> right, View<double> right_size,
                double terms, RunningError* to, std::size_t stride) {
  const auto as = [&](const Matrix<double>& m) { return view(m, transposed); };
  const Matrix<double> value = product(as(left.value), right);
  const Matrix<double> by_fp32 = product(as(left.fp32_error), right_size);
  const Matrix<double> by_store = product(as(left.stored), right_size);
  const Matrix<double> size = left.largest();
  const Matrix<double> sum = product(as(size), right_size);
  for (std::size_t i = 0; i < value.rows; ++i) {
    for (std::size_t j = 0; j < value.cols; ++j) {
      RunningError& x = to[i * stride + j];
      x.value += value(i, j);
      x[Share::functions] += term<"attention.left">(by_fp32(i, j));
      // What the rounding of P or dS left. It waits under `wire`, which attention has no use for,
      // until finished() books it with the result's own rounding.
      x[Share::wire] += term<"attention.left_store">(by_store(i, j));
      x[Share::sums] += term<"attention.sums">(g(terms) * sum(i, j)) +
                        term<"attention.sums_underflow">(terms * t());
    }
  }
}

// Adds the results' own casts, and books what stored P and dS left with them under `stored`.
Outcome<Tolerance> finished(std::vector<Matrix<RunningError>>&& results,
                            const ToleranceCall& call) {
  for (Matrix<RunningError>& y : results) {
    RunningErrorRoundings().round(y, call.how.output);
    for (RunningError& x : y.values) {
      x[Share::stored] += x[Share::wire];
      x[Share::wire] = 0;
    }
  }
  const std::string n = std::to_string(call.count("sequence"));
  const std::string dim = std::to_string(call.count("head_dim"));
  return tolerance_of(
      results, call, false,
      {{Share::sums, "g(n) (P + E_P) |V| + n t, n = " + n + ", and what gradients have like it"},
       {Share::functions, "E_p |V|: scores' chains g(d), d = " + dim + ", and exp's ulps, c_e = 2"},
       {Share::stored, "half an output spacing at P (and dS), carried on, and at |y|"},
       {Share::steps, "u for each product, quotient and scale beside the chains"}});
}

// The gradient that a row gives to its sink's logit.
RunningError sink_gradient(double p, double p_error, double along, double along_error) {
  RunningError d = RunningError::of(-p * along);
  d[Share::functions] += term<"attention.sink_p">(p_error * std::fabs(along));
  d[Share::sums] += term<"attention.sink_along">((p + p_error) * along_error);
  d[Share::steps] += u * (p + p_error) * (std::fabs(along) + along_error) + t();
  return d;
}

// The errors of D where it is taken from the stored output of the head.                    // (S)
std::vector<double> errors_of_stored_along(const ToleranceCall& call, const Heads& of,
                                           const Matrix<double>& size, std::size_t b,
                                           std::size_t h) {
  Matrix<RunningError> o(of.sequence, of.dim);
  const Bounded p = probabilities(call, of, size, b, h, false).p;
  accumulate(weighing(call, of, b, h, p), false, of.block(call[0], b, of.value(h), false),
             of.block(size, b, of.value(h), false), static_cast<double>(of.sequence), o.row(0),
             o.cols);
  RunningErrorRoundings().round(o, call.how.output);
  const auto d = static_cast<double>(of.dim);
  std::vector<double> errors(of.sequence, d * t());
  for (std::size_t i = 0; i < of.sequence; ++i) {
    for (std::size_t j = 0; j < of.dim; ++j) {
      const double d_o = std::fabs(call[1](b * of.sequence + i, h * of.dim + j));
      errors[i] += term<"attention.stored_along">(d_o * o(i, j).worst()) +
                   term<"attention.stored_along_chain">(g(d) * d_o * o(i, j).most());
    }
  }
  return errors;
}

// dS of one head from its P and dP, in place of dP; returns D and its error of each row. // (S, S)
// The errors of D are at least `stored`, unless that is empty.
std::vector<std::pair<double, double>> score_gradients(const Bounded& p, Bounded& dp,
                                                       const Format& output,
                                                       const std::vector<double>& stored) {
  std::vector<std::pair<double, double>> alongs;
  for (std::size_t i = 0; i < p.value.rows; ++i) {
    double along = 0;
    double along_error = 0;
    double sum = 0;
    const std::size_t row = i * p.value.cols;
    for (std::size_t e = row; e <= row + i; ++e) {
      along = std::fma(p.value.values[e], dp.value.values[e], along);
      along_error += term<"attention.along_p">(p.error(e) * dp.most(e)) +
                     term<"attention.along_dp">(p.value.values[e] * dp.error(e));
      sum += p.most(e) * dp.most(e);
    }
    const auto n = static_cast<double>(i + 1);
    along_error += term<"attention.along_chain">(g(n) * sum) + n * t();
    if (!stored.empty()) along_error = std::max(along_error, stored[i]);
    alongs.emplace_back(along, along_error);
    for (std::size_t e = row; e < row + p.value.cols; ++e) {
      const bool masked = e > row + i;
      const double centred = dp.value.values[e] - along;
      const double off = dp.error(e) + along_error;
      dp.value.values[e] = masked ? 0 : p.value.values[e] * centred;
      dp.fp32_error.values[e] =
          masked ? 0
                 : term<"attention.ds_p">(p.error(e) * (std::fabs(centred) + off)) +
                       term<"attention.ds_off">(p.value.values[e] * off) +
                       term<"attention.ds_steps">(3 * u * p.most(e) * (std::fabs(centred) + off)) +
                       t();
    }
  }
  dp.store(output);
  return alongs;
}

// What kernels lose that store what a head gives to dk and dv, and to dq before it is scaled, or that
// scale keys and queries beforehand: u_f of the sums of sizes, for each of the three roundings.
void store_of_head(const ToleranceCall& call, const Heads& of, const Bounded& ds, const Bounded& p,
                   std::size_t b, std::size_t h, Matrix<RunningError>& d) {
  const Format& to = call.how.output;
  if (to == fp32) return;
  const Matrix<double> qkv = absolute(call[0]), d_out = absolute(call[1]);
  const Matrix<double> ds_size = ds.largest(), p_size = p.largest();
  const auto add = [&](const Matrix<double>& sizes, std::size_t column) {
    for (std::size_t i = 0; i < sizes.rows; ++i) {
      for (std::size_t j = 0; j < sizes.cols; ++j) {
        d(b * of.sequence + i, column + j)[Share::wire] += term<"attention.store_of_head">(
            3 * to.unit_roundoff() * (1 + 0x1p-6) * sizes(i, j) + 3 * to.spacing_at_zero());
      }
    }
  };
  add(product(view(ds_size), of.block(qkv, b, of.key(h), false)), of.query(h));
  add(product(view(ds_size, true), of.block(qkv, b, of.query(h), false)), of.key(h));
  add(product(view(p_size, true), of.block(d_out, b, h * of.dim, false)), of.value(h));
}

}  // namespace

void softmax_with_error(const double* score, const double* score_error, std::size_t n, double* p,
                        double* error, const SoftmaxForm& form) {
  const Arithmetic& now = arithmetic_in_force;
  const auto count = static_cast<double>(n);
  constexpr double farthest_seen = 104;  // beyond, FP32's exponential is zero
  const double online =
      form.online ? u * (count * (2 * now.exp_ulp + 1) + 2 * now.exp_ulp_per_unit * farthest_seen)
                  : 0;
  const double m = *std::max_element(score, score + n);
  const double farthest = *std::max_element(score_error, score_error + n);
  double z = 0;
  double off = 0;
  double running = 0;  // from the second addition on: the first adds to zero
  for (std::size_t j = 0; j < n; ++j) {
    p[j] = std::exp(score[j] - m);
    const double distance = m - score[j] + score_error[j] + farthest;
    error[j] = std::expm1(
        term<"attention.score_error">(score_error[j]) + term<"attention.distance">(u * distance) +
        term<"attention.exp">(u * now.exp_errors(std::min(distance, farthest_seen))) +
        term<"attention.online">(online));
    z += p[j];
    off += p[j] * error[j];
    running += j == 0 ? 0 : z;
  }
  const double b0 = (term<"attention.denominator">(off) + static_cast<double>(n) * 2 * t()) / z;
  const double sums = form.any_order ? term<"attention.any_order">(g(count))
                                     : term<"attention.running">(u * running / z);
  const double b = b0 + sums * (1 + b0) * (1 + 2 * count * u);
  const double at_least = b < 1 ? 1 - b : 0;  // zero: no bound, found by the caller as infinity
  const double divided = 2 * now.divide_ulp * u;
  for (std::size_t j = 0; j < n; ++j) {
    if (form.from_stored) {
      const double log_z = std::log(z);
      const double off_exponent =
          u * ((2 * now.log_ulp + 2) * log_z + std::fabs(m) + (m - score[j]));
      error[j] += term<"attention.from_stored">((1 + error[j]) * std::expm1(off_exponent));
    }
    p[j] /= z;
    error[j] =
        p[j] * (error[j] + b + term<"attention.division">(divided * (1 + error[j]))) / at_least +
        term<"attention.underflow">(4 * t() / at_least);
  }
}

Outcome<Tolerance> attention_tolerance(const ToleranceCall& call) {
  const Heads of(call, 1);
  const Matrix<double> size = absolute(call[0]);
  Matrix<RunningError> o(call[0].rows, of.heads * of.dim);
  for (std::size_t b = 0; b < o.rows / of.sequence; ++b) {
    for (std::size_t h = 0; h < of.heads; ++h) {
      const Bounded p = probabilities(call, of, size, b, h, false).p;
      accumulate(weighing(call, of, b, h, p), false, of.block(call[0], b, of.value(h), false),
                 of.block(size, b, of.value(h), false), static_cast<double>(of.sequence),
                 o.row(b * of.sequence) + h * of.dim, o.cols);
    }
  }
  return finished(as_outputs(std::move(o)), call);
}

Outcome<Tolerance> attention_grad_tolerance(const ToleranceCall& call) {
  const Heads of(call, 2);
  const Matrix<double>& qkv = call[0];
  const Matrix<double> size = absolute(qkv);
  const Matrix<double> d_size = absolute(call[1]);
  Matrix<RunningError> d(qkv.rows, qkv.cols), d_sinks(qkv.rows, of.heads);
  // Summing parts of a chain is one more tree of additions: each part counts as a term more.
  const auto n = static_cast<double>(of.sequence) + call.how.parts;
  const auto group_n = static_cast<double>(of.ratio() * of.sequence) + call.how.parts;
  for (std::size_t b = 0; b < d.rows / of.sequence; ++b) {
    RunningError* rows = d.row(b * of.sequence);
    for (std::size_t h = 0; h < of.heads; ++h) {
      const auto block = [&](const Matrix<double>& m, std::size_t column) {
        return of.block(m, b, column, false);
      };
      const auto [p, sink] = probabilities(call, of, size, b, h, true);
      const std::size_t o = h * of.dim;
      Bounded ds(product(block(call[1], o), of.block(qkv, b, of.value(h), true)));
      ds.fp32_error = product(block(d_size, o), of.block(size, b, of.value(h), true));
      const auto dim = static_cast<double>(of.dim);
      for (double& e : ds.fp32_error.values) e = term<"attention.dp">(g(dim) * e) + dim * t();
      if (of.rate > 0) ds = thinned(of, b, h, ds);
      if (takes(call, AttentionForm::composed)) ds.store(call.how.output);  // dP
      std::vector<double> stored;
      if (!takes(call, AttentionForm::promised)) {
        stored = errors_of_stored_along(call, of, size, b, h);
      }
      const auto alongs = score_gradients(p, ds, call.how.output, stored);
      for (std::size_t i = 0; i < alongs.size(); ++i) {
        d_sinks(b * of.sequence + i, h) = sink_gradient(
            sink.value.values[i], sink.fp32_error.values[i], alongs[i].first, alongs[i].second);
      }
      if (stores(call)) ds.store_again(call.how.output);  // scaled
      accumulate(ds, false, block(qkv, of.key(h)), block(size, of.key(h)), n, rows + of.query(h),
                 d.cols);
      accumulate(ds, true, block(qkv, of.query(h)), block(size, of.query(h)), group_n,
                 rows + of.key(h), d.cols);
      accumulate(weighing(call, of, b, h, p), true, block(call[1], o), block(d_size, o), group_n,
                 rows + of.value(h), d.cols);
      if (!takes(call, AttentionForm::promised)) {
        store_of_head(call, of, ds, weighing(call, of, b, h, p), b, h, d);
      }
    }
  }
  const std::size_t group = of.ratio() + 2;
  for (std::size_t e = 0; e < d.size(); ++e) {
    if (e % d.cols / of.dim % group == group - 1) continue;  // values are not scaled
    RunningError& x = d.values[e];
    const double all = term<"attention.gradient_scale">(4 * u * x.most());
    RunningError scaled = RunningError::of(x.value * of.scale<double>());
    scaled.carry(of.scale<double>(), x);
    scaled[Share::steps] += of.scale<double>() * all + t();
    x = scaled;
  }
  std::vector<Matrix<RunningError>> results = as_outputs(std::move(d));
  if (of.sinks > 0) results.push_back(std::move(d_sinks));
  return finished(std::move(results), call);
}

}  // namespace plumb::bounds

#include "trace/message_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "number/words.hpp"

namespace plumb::trace {
namespace {

constexpr std::size_t at_once = 4096;     // numbers of each piece that are held
constexpr std::size_t most_guessed = 16;  // ranks

template <class T>
using TermsOf = std::vector<std::vector<T>>;  // by rank, by element
using Terms = TermsOf<double>;

bool adds(const Message& m) { return m.reduce == "sum" || m.reduce == "avg"; }

// How far a sum may be from the exact one, of numbers of a format: twins.md J4.
struct Allowed {
  double relative = 0, absolute = 0;  // of the sum of magnitudes; and beside it
  double largest = infinite;          // number of the format
};

// Numbers below the smallest normal one may be flushed where FP32 flushes them. Formats whose own lies
// higher keep them: they are converted, or computed by units that have them.
double lost_near_zero(const Format& format) {
  return format.emin <= fp32.emin ? format.smallest_normal() : format.spacing_at_zero();
}

Allowed allowed(const Message& m, const StoredTensor& out, std::size_t terms) {
  if (!adds(m)) return {};
  const bool wide = out.stored == Stored::f64;
  const Format& format = wide ? fp64 : out.format();
  const double u = format.unit_roundoff(), between = wide ? u : fp32.unit_roundoff();
  const double roundings = static_cast<double>(terms - 1) + (m.reduce == "avg" ? 2 : 0);
  // Of the evaluation here, in numbers of 64 bits of significand.
  const double own = static_cast<double>(terms + 2) * std::ldexp(1.0, -63);
  return {std::expm1(roundings * (std::log1p(u) + std::log1p(between))) + own,
          roundings * lost_near_zero(format), format.largest()};
}

// Mistakes that leave such numbers, each until an element contradicts it.
class Guesses {
 public:
  explicit Guesses(const Made& made) {
    const Message& m = *made.out.of;
    const std::size_t n = made.from.size();
    if (n < 2 || !adds(m)) return;
    const bool divides = m.reduce == "avg";
    const auto ranks = static_cast<double>(n);
    const double whole = divides ? 1 / ranks : 1;
    const auto all = [&](double weight) { return std::vector<double>(n, weight); };
    std::vector<double> alone = all(0);
    alone[made.own] = 1;
    left_.push_back({"what the rank gave itself: nothing was added", alone});
    left_.push_back(divides ? Guess{"the sum: nobody divided it", all(1)}
                            : Guess{"the sum, divided by the number of ranks", all(1 / ranks)});
    if (!divides) left_.push_back({"the sum times the number of ranks", all(ranks)});
    for (std::size_t by = 0; by < n && n <= most_guessed; ++by) {
      for (const double times : {0.0, 2.0}) {
        std::vector<double> weights = all(whole);
        weights[by] *= times;
        const int rank = made.from[by].rank;
        left_.push_back({times == 0
                             ? fmt::format("the sum without what rank {} gave", rank)
                             : fmt::format("the sum with what rank {} gave in it twice", rank),
                         weights});
      }
    }
  }

  void look(const Terms& x, std::size_t e, double y, double tolerance) {
    std::erase_if(left_, [&](const Guess& guess) {
      long double sum = 0;
      for (std::size_t by = 0; by < x.size(); ++by)
        sum += static_cast<long double>(guess.weights[by]) * x[by][e];
      return !(std::fabs(static_cast<double>(sum - y)) <= tolerance);
    });
  }
  std::string first() const { return left_.empty() ? "" : left_.front().says; }

 private:
  struct Guess {
    std::string says;
    std::vector<double> weights;  // of each term
  };
  std::vector<Guess> left_;
};

// What an element has to be.
struct Due {
  long double value = 0;
  double magnitudes = 0;
  bool finite = true, a_number = true;  // of all that it is made of
  bool up = false, down = false;        // is an infinity of that sign among it?
  double above = 0, below = 0;          // sums of what is larger than zero, and of what is less

  void count(double x) {
    finite = finite && std::isfinite(x);
    a_number = a_number && !std::isnan(x);
    up = up || x == infinite;
    down = down || x == -infinite;
    (x > 0 ? above : below) += std::isfinite(x) ? std::fabs(x) : 0;
  }
};

Due due(const std::string& reduce, const Terms& x, std::size_t e) {
  Due d;
  d.value = x[0][e];
  long double sum = 0;
  for (const auto& of : x) {
    const long double term = of[e];
    sum += term;
    d.magnitudes += std::fabs(of[e]);
    d.count(of[e]);
    if (reduce == "min") d.value = std::min(d.value, term);
    if (reduce == "max") d.value = std::max(d.value, term);
  }
  const auto n = static_cast<double>(x.size());
  if (reduce == "sum") d.value = sum;
  if (reduce == "avg") {
    d.value = sum / n;
    d.magnitudes /= n;
  }
  return d;
}

std::string made_as(const Made& made) {
  const std::string& reduce = made.out.of->reduce;
  std::vector<int> ranks;
  for (const Part& x : made.from) ranks.push_back(x.rank);
  if (reduce.empty()) return fmt::format("what rank {} gave", ranks.front());
  return fmt::format("the {} of what ranks {} gave",
                     reduce == "sum"   ? "sum"
                     : reduce == "avg" ? "average"
                     : reduce == "min" ? "least"
                                       : "largest",
                     fmt::join(ranks, ", "));
}

// One number of many that are wrong.
struct Wrong {
  std::size_t many = 0, place = 0;
  double ratio = infinite;
  std::string is, should;
};

Finding told(const Made& made, const Wrong& wrong, std::string looks_like) {
  const std::string& at = made.out.of->at;
  Finding f{
      "", "replay", wrong.ratio,
      fmt::format("{} of the {} that rank {} got{} are not {}: number {} is {}, and should be {}",
                  wrong.many, how_many(made.out.size, "number"), made.out.rank,
                  at.empty() ? "" : " (at " + at + ")", made_as(made), wrong.place, wrong.is,
                  wrong.should)};
  f.rank = made.out.rank;
  f.looks_like = std::move(looks_like);
  return f;
}

// look(terms, which of their elements, its place in the piece, what came out), a few thousand at a time.
template <class T, class F>
void by_numbers(const Made& made, const F& look) {
  std::vector<T> y;
  TermsOf<T> x(made.from.size());
  for (std::size_t at = 0; at < made.out.size; at += at_once) {
    const std::size_t n = std::min(at_once, made.out.size - at);
    y.resize(n);
    made.out.read(at, y);
    for (std::size_t by = 0; by < x.size(); ++by) {
      x[by].resize(n);
      made.from[by].read(at, x[by]);
    }
    for (std::size_t e = 0; e < n; ++e) look(x, e, at + e, y[e]);
  }
}

class PartJudge {
 public:
  explicit PartJudge(const Made& made)
      : made_(made),
        reduce_(made.out.of->reduce),
        allowed_(allowed(*made.out.of, *made.out.tensor, made.from.size())),
        guesses_(made) {}

  PartJudged run() {
    by_numbers<double>(made_, [this](const auto&... number) { look(number...); });
    if (wrong_ > 0) out_.finding = found();
    return std::move(out_);
  }

 private:
  void look(const Terms& x, std::size_t e, std::size_t place, double y) {
    const Due d = due(reduce_, x, e);
    const double tolerance = allowed_.relative * d.magnitudes + allowed_.absolute;
    const double ratio = ratio_of(x, e, d, y, tolerance);
    out_.ratio = std::max(out_.ratio, ratio);
    guesses_.look(x, e, y, tolerance);
    if (ratio <= 1) return;
    ++wrong_;
    if (wrong_ > 1 && ratio <= worst_.ratio) return;
    worst_ = {place, y, static_cast<double>(d.value), tolerance, ratio};
  }

  double ratio_of(const Terms& x, std::size_t e, const Due& d, double y, double tolerance) const {
    if (d.finite && std::isfinite(y)) {
      const auto off = static_cast<double>(std::fabs(d.value - y));
      return off == 0 ? 0 : tolerance > 0 ? off / tolerance : infinite;
    }
    if (adds(*made_.out.of)) return may_be_sum(d, y) ? 0 : infinite;
    const auto is = [y](double given) {
      return given == y || (std::isnan(given) && std::isnan(y));
    };
    // The least and the largest of what is no number are that, or any of the others: libraries compare
    // in this order or that.
    if (!reduce_.empty() && !d.a_number) {
      const bool one = std::ranges::any_of(x, [&](const auto& of) { return is(of[e]); });
      return one || std::isnan(y) ? 0 : infinite;
    }
    return is(static_cast<double>(d.value)) ? 0 : infinite;
  }

  // Of sums that are not finite, or are made of such. A partial sum may leave the format in some order; an
  // infinity stays until one of the other sign comes, and what is no number stays so.
  bool may_be_sum(const Due& d, double y) const {
    const double grown = 1 + allowed_.relative;
    const bool up = d.up || d.above * grown >= allowed_.largest;
    const bool down = d.down || d.below * grown >= allowed_.largest;
    if (std::isnan(y)) return !d.a_number || (up && down);
    if (!d.a_number || std::isfinite(y)) return false;
    return y > 0 ? up && !d.down : down && !d.up;
  }

  Finding found() const {
    const int digits = digits_to_tell(worst_.should, worst_.is);
    Finding f = told(made_,
                     {wrong_, worst_.place, worst_.ratio, fmt::format("{:.{}g}", worst_.is, digits),
                      fmt::format("{:.{}g}", worst_.should, digits)},
                     guesses_.first());
    f.value = worst_.is;
    f.expected = worst_.should;
    f.tolerance = worst_.tolerance;
    return f;
  }

  struct Worst {
    std::size_t place = 0;
    double is = 0, should = 0, tolerance = 0, ratio = 0;
  };
  const Made& made_;
  const std::string& reduce_;
  const Allowed allowed_;
  Guesses guesses_;
  std::size_t wrong_ = 0;
  Worst worst_;
  PartJudged out_;
};

// Of whole numbers, and of truth values: exact, as libraries have them. A sum wraps around, one of truth
// values is whether any is true; an average is cut, or rounded.
class WholeJudge {
 public:
  explicit WholeJudge(const Made& made)
      : made_(made),
        reduce_(made.out.of->reduce),
        stored_(made.out.tensor->stored),
        truth_(made.out.tensor->type == "BOOL"),
        is_signed_(stored_ < Stored::u8) {}

  PartJudged run() {
    by_numbers<std::uint64_t>(made_, [this](const auto&... number) { look(number...); });
    if (wrong_.many == 0) return {};
    return {infinite, told(made_, wrong_, "")};
  }

 private:
  void look(const TermsOf<std::uint64_t>& x, std::size_t e, std::size_t place, std::uint64_t y) {
    std::uint64_t all = as_it_counts(x[0][e]);
    for (std::size_t by = 1; by < x.size(); ++by) all = joined(all, as_it_counts(x[by][e]));
    if (reduce_ == "avg" ? is_average(all, y, x.size()) : as_it_counts(y) == all) return;
    if (wrong_.many++ > 0) return;
    const auto n = static_cast<std::int64_t>(x.size());
    wrong_.place = place;
    wrong_.is = text(y);
    wrong_.should = reduce_ == "avg" ? text(all) + fmt::format(" / {}", n) : text(all);
  }

  std::uint64_t as_it_counts(std::uint64_t x) const { return truth_ && x != 0 ? 1 : x; }
  std::uint64_t joined(std::uint64_t a, std::uint64_t b) const {
    if (reduce_ == "min") return below(a, b) ? a : b;
    if (reduce_ == "max" || truth_) return below(a, b) ? b : a;
    return wrapped(a + b, stored_);
  }
  bool below(std::uint64_t a, std::uint64_t b) const {
    return is_signed_ ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
  }
  // Less than one off.
  bool is_average(std::uint64_t sum, std::uint64_t y, std::size_t n) const {
    const long double off = number(y) - number(sum) / static_cast<long double>(n);
    return std::fabs(off) < 1;
  }
  long double number(std::uint64_t x) const {
    return is_signed_ ? static_cast<long double>(static_cast<std::int64_t>(x))
                      : static_cast<long double>(x);
  }
  std::string text(std::uint64_t x) const {
    return is_signed_ ? std::to_string(static_cast<std::int64_t>(x)) : std::to_string(x);
  }

  const Made& made_;
  const std::string& reduce_;
  const Stored stored_;
  const bool truth_, is_signed_;
  Wrong wrong_;
};

bool is_whole_throughout(const Made& made) {
  return is_whole(made.out.tensor->stored) && std::ranges::all_of(made.from, [&](const Part& x) {
           return x.tensor->type == made.out.tensor->type;
         });
}

}  // namespace

Part part(const Message& m, int rank, bool is_given, std::size_t piece) {
  const std::vector<std::size_t>& sizes = is_given ? m.given : m.got;
  const auto here = sizes.begin() + static_cast<std::ptrdiff_t>(piece);
  return {&m, is_given ? m.in : m.out, std::accumulate(sizes.begin(), here, std::size_t{0}), *here,
          rank};
}

PartJudged judge_part(const Made& made) {
  return is_whole_throughout(made) ? WholeJudge(made).run() : PartJudge(made).run();
}

}  // namespace plumb::trace

// trace/spreads.hpp: nulls: how a statistic of a healthy run would scatter, learnt from the twins.
//
// Log statistics (norm, mismatch, row, element): y_k = ln S(draw k); mean m; spread pooled over the
// tensors of a kind and shrunk (scaled F prior); t = (ln S - m) / (s sqrt(1 + 1/K)), one-sided,
// with at most 6 degrees. scale: mean zero, two-sided, its spread in units of the relative noise.
// A share of n elements scatters at least as that of n independent ones does: mismatch m has a
// variance of ln m of (1 - m)/(n m) or more, whatever few twins say (flips come together, not
// apart). The floors f, the cap of 6 and the prior's cap of 60 are empirical: chosen on healthy
// runs of a study; the experiment false-alarms measures them again on this program.
//
// Spreads that were learnt from earlier healthy batches of the same run (Learnt) replace all of
// that: only the means come from this run, so that two twins judge as sharply as many. row and
// element compare with a field that few draws give too roughly: they need four.
//
// TESTED   tests/trace/spreads_test.cpp
// SOURCES  twins.md N1 to N7; bounds/SOURCES.md [Smy04]
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/sees.hpp"
#include "trace/statistics.hpp"

namespace plumb::trace {

// One tensor's twins and candidate, reduced to numbers.
struct Measured {
  std::string id;
  std::string kind;  // same module and tensor in all layers and micro-batches
  int group = 0;     // forward, gradient, weight matrix, weight vector
  std::vector<Sample> draws;
  Sample candidate{};
  double noise = 0;  // relative noise of the draws
  double norm_of_reference = 0;
  double elements = 1;
  bool touched = true;  // something is split upstream; else twins are bitwise equal by promise
};

enum class Case {
  live,         // judged by t
  few,          // some twins show nothing: judged against the largest
  bitwise,      // nothing is split upstream: any difference is a finding
  undecidable,  // all twins show nothing although something is split upstream
  refused,      // scale of a tensor that is mostly noise
};

struct Judged {
  std::size_t tensor;  // index into the measured
  Statistic statistic;
  Case how;
  double p = 1;
  double center = 0;  // of ln S (of S for scale); `spread` and `degrees` are those of t
  double spread = 0;
  double degrees = 0;
  // The size of the statistic at which p would be `level`.
  double threshold(double level) const;
  double size_of(const Sample& sample) const;
  // p of another sample under the same null.
  double p_of(const Sample& sample) const;
};

// How the statistics of each tensor scatter among the twins of many batches. Tensors go by their id
// without its micro-batch.
class Learnt {
 public:
  struct Mean {
    double sum = 0, count = 0;
  };
  using OfTensor = std::array<Mean, all_statistics.size()>;

  Learnt() = default;
  explicit Learnt(std::map<std::string, OfTensor> known) : of_(std::move(known)) {}
  // Adds the twins of one more batch, two draws or more. The candidates are not looked at.
  void add(const std::vector<Measured>& batch);
  // The variance of ln S (of scale in units of the noise); absent where the statistic was never
  // live.
  std::optional<double> variance(const std::string& id, Statistic statistic) const;
  const std::map<std::string, OfTensor>& tensors() const { return of_; }

 private:
  std::map<std::string, OfTensor> of_;
};

// Returns the median over tensors of the norm's own variance over the learnt one, in units of its
// expectation where the learnt one is right (twins.md N7); 1 where fewer than two draws or no
// tensor can say.
double moved_on(const std::vector<Measured>& all, const Learnt& learnt);

// Returns the null of each tensor and statistic. Without learnt spreads at least two draws each are
// needed.
std::vector<Judged> judge(const std::vector<Measured>& all, const Learnt* learnt = nullptr);

}  // namespace plumb::trace

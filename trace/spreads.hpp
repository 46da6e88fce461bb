// trace/spreads.hpp: nulls: how a statistic of a healthy run would scatter, learnt from the twins.
//
// Log statistics (norm, mismatch, row, element): y_k = ln S(draw k); mean m; spread pooled over the
// tensors of a kind and shrunk (scaled F prior); t = (ln S - m) / (s sqrt(1 + 1/K)). scale: mean
// zero, in units of the run's own noise. What a t says of a whole run is of
// trace/families.hpp.
// A share of n elements scatters at least as that of n independent ones does: mismatch m has a
// variance of ln m of (1 - m)/(n m) or more, whatever few twins say (flips come together, not
// apart). The floors f and the prior's cap of 60 are empirical: chosen on healthy runs of a study;
// the experiment false-alarms measures them again on this program.
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
  double beside = 0;    // of given twins: trace/beside.hpp
};

enum class Case {
  live,         // judged by t
  few,          // some twins show nothing: judged against the largest
  bitwise,      // nothing is split upstream: any difference is a finding
  undecidable,  // nothing to compare with: all twins show nothing, or nothing is learnt of it
  refused,      // scale of a tensor that is mostly noise
};

// Where a statistic of one tensor lies in healthy runs. Of live and few tests: `center` is of ln S
// (0 of scale), `spread` that of a further run, `degrees` at most those of its tail.
struct Null {
  std::size_t tensor;  // index into the measured
  Statistic statistic;
  Case how;
  double center = 0;
  double spread = 0;
  double degrees = 0;
  double noise = 0, of_reference = 0;  // of scale: the twins' noise, the reference's norm
  // |S|, and how far it lies beyond the center: t, in spreads; of scale |t|, in spreads as wide as
  // the run is noisy. S = 0 lies at -inf.
  double size_of(const Sample& sample) const;
  double beyond(const Sample& sample) const;
  // The size that lies t beyond, in a run as noisy as its twins.
  double size_at(double t) const;
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

// Returns the null of each tensor and statistic, for a candidate, or for one of the twins by the
// others. Without learnt spreads a twin needs two others, and a candidate two twins.
std::vector<Null> nulls(const std::vector<Measured>& all, const Learnt* learnt);
std::vector<Null> nulls_without(std::size_t twin, const std::vector<Measured>& all,
                                const Learnt* learnt);

}  // namespace plumb::trace

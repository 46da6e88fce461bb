// bounds/roundings.hpp: the places where a promise says that a number loses bits.
//
// An operation is written once, over float or double, and calls these two functions wherever its
// evaluation loses bits. The kinds below make one code the reference, a twin, the exact run and a
// draw of noise around the exact run.
//
// TESTED   tests/bounds/roundings_test.cpp; what they predict: experiment twin-spread
// SOURCES  twins.md M2, M3; bounds/SOURCES.md [Wu86]: signs
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bounds/sees.hpp"
#include "number/matrix.hpp"
#include "number/rounding.hpp"

namespace plumb::bounds {

// The cast of a tensor where it is not to nearest even, or must not overflow. (plumb::Cast is that of
// one number.)
struct TensorCast {
  bool saturate = false;             // beyond the largest number the largest number
  std::optional<std::uint64_t> key;  // stochastic: element e is rounded with random_word(key, e)
};

template <class T>
class Roundings {
 public:
  virtual ~Roundings() = default;
  // Rounds x to what the format can hold.                                             // (N, M)
  virtual void round(Matrix<T>& x, const Format& to) = 0;
  virtual void round_as(Matrix<T>& x, const Format& to, const TensorCast& cast) = 0;
  // Called with the parts of a sum before each is rounded to `wire`.
  virtual void before_parts(std::vector<Matrix<T>>& parts, const Format& wire) = 0;
};

// The arithmetic as promised: nearest even.
class RealRoundings : public Roundings<float> {
 public:
  void round(Matrix<float>& x, const Format& to) override { round_in_place(x.values, to); }
  void round_as(Matrix<float>& x, const Format& to, const TensorCast& cast) override;
  void before_parts(std::vector<Matrix<float>>&, const Format&) override {}
};

// Rounds as promised, after moving a random amount of about one ulp between neighbouring parts: the
// same sum, other roundings (twins.md M2). Rows (tokens) of a matrix whose parts round to the same
// numbers are moved alike, so that rows that are alike still round alike, as they do in any run:
// their errors add up over tokens, and would cancel if each were drawn by itself. Rows that differ
// are moved apart: one amount for all of them would give every row the same phase where a small
// part joins a large one. Each element of a vector has its own amount. Elements that no rounding
// touches (parts and sums are numbers of the wire format) are left alone. `key` names the run and
// the place.
//
// Where nobody knows the order in which ranks add, it also draws one: for all elements, or for each of
// as many slices as there are parts, as rings do (twins.md M8).
class TwinRoundings : public RealRoundings {
 public:
  struct Moves {
    bool amounts = true;  // between neighbouring parts
    bool orders = false;  // of the parts
  };
  explicit TwinRoundings(std::uint64_t key, Moves moves = {true, false})
      : key_(key), moves_(moves) {}
  void before_parts(std::vector<Matrix<float>>& parts, const Format& wire) override;

 private:
  void reorder(std::vector<Matrix<float>>& parts) const;
  void move_amounts(std::vector<Matrix<float>>& parts, const Format& wire) const;

  std::uint64_t key_;
  Moves moves_;
};

// The same of an evaluation by chance: results are rounded stochastically, with draws of their own
// (twins.md M7); parts and their sums, on the wire, to nearest.
class ChanceRoundings final : public TwinRoundings {
 public:
  // `draws`: the key of the random bits.
  ChanceRoundings(std::uint64_t key, std::uint64_t draws, Moves moves = {true, false})
      : TwinRoundings(key, moves), draws_(draws) {}
  void round(Matrix<float>& x, const Format& to) override;
  void before_parts(std::vector<Matrix<float>>& parts, const Format& wire) override;

 private:
  std::uint64_t draws_;
  std::uint64_t drawn_ = 0;     // elements so far
  std::size_t wire_calls_ = 0;  // still to come from the combination that has begun
};

// No rounding at all.
template <class T>
class NoRoundings final : public Roundings<T> {
 public:
  void round(Matrix<T>&, const Format&) override {}
  void round_as(Matrix<T>&, const Format&, const TensorCast&) override {}
  void before_parts(std::vector<Matrix<T>>&, const Format&) override {}
};
using ExactRoundings = NoRoundings<double>;

// Rounds as promised and keeps what each call of round() changed.
class RecordedRoundings final : public RealRoundings {
 public:
  // `errors` gets one entry a call; the caller keeps it.
  explicit RecordedRoundings(std::vector<Tensor>& errors) : errors_(errors) {}
  void round(Matrix<float>& x, const Format& to) override;
  void round_as(Matrix<float>& x, const Format& to, const TensorCast& cast) override;

 private:
  void keep(const Tensor& before, const Tensor& after);
  std::vector<Tensor>& errors_;
};

// Adds, instead of rounding, the recorded error of the same call with one random sign a call: the
// wild bootstrap [Wu86]. Sizes and resemblances within a tensor stay what they are (equal values
// round alike, also when a whole tensor lies beside a number of the format); only how the errors of
// different places meet is drawn. A zero has no error, whatever was rounded there: it is a number
// of every format, and where it fills a block of scale 1, an error of the block's units would be
// huge.
class SignedRoundings final : public Roundings<double> {
 public:
  SignedRoundings(const std::vector<Tensor>& errors, std::uint64_t key)
      : errors_(errors), key_(key) {}
  void round(Matrix<double>& x, const Format& to) override;
  void round_as(Matrix<double>& x, const Format& to, const TensorCast&) override { round(x, to); }
  void before_parts(std::vector<Matrix<double>>&, const Format&) override {}

 private:
  const std::vector<Tensor>& errors_;
  std::uint64_t key_;
  std::size_t calls_ = 0;
};

}  // namespace plumb::bounds

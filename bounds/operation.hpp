// bounds/operation.hpp: what an operation of a training step must be able to say.
//
// Each operation is one row of operations.inc; those of a kind share a file of bounds/operations.
// It says
//
//   evaluate       the outputs as an Evaluation promises them (casts, splits, order, roundings)
//   value          the same mathematics in FP64, without any rounding to a format
//   truth          the same in 300 bits, for tests and certificates
//   tolerance      how far an evaluation as promised may lie from `value`, given the inputs
//
// and its schema: inputs, outputs and attributes by name. What they mean stands at the top of its
// file.
//
// TESTED   tests/bounds/operations/*_test.cpp
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bounds/proof/big_float.hpp"
#include "bounds/roundings.hpp"
#include "bounds/schema.hpp"
#include "bounds/sees.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"
#include "number/order.hpp"
#include "number/outcome.hpp"

namespace plumb::bounds {

using Attributes = std::map<std::string, double, std::less<>>;

// How the terms of a contraction lie on the ranks that share it. They lie in contiguous slices. If
// they are tokens and ranks > 1, each sequence is cut into 2 * ranks chunks, dealt to the ranks
// there and back (zigzag). Copies of tokens lie where their tokens do; each group of experts has
// ranks of its own.
struct TokenSharding {
  int ranks = 1;
  int sequence = 0;       // rows of a sequence
  std::uint64_t key = 0;  // not 0: this is a draw, whose cuts fall elsewhere
  bool ring = false;      // attention only: keys and values go round (ring_attention.hpp)
  // Of experts: contiguous groups of them. Of attention's gradient: groups of a key's query heads,
  // which are its parts then.
  int groups = 1;
  std::uint64_t candidates_key = 0;  // of all draws: of the one that the candidate stands for
  bool as_they_come() const { return ranks == 1 && key == 0; }
  bool operator==(const TokenSharding&) const = default;
};
// Returns the numbers of n rows in rank order; equal slices of them are the ranks'.
std::vector<std::size_t> rows_in_rank_order(std::size_t n, const TokenSharding& tokens);

// Where a node's sum and its result lose bits. Two runs share a rounding if and only if their
// evaluations of that node are equal.
struct Evaluation {
  int parts = 1;              // slices of the contraction, each made by another rank, in rank order
  Format wire = fp32;         // the format each part and each running sum of parts is rounded to
  Format output = fp32;       // the format of the result
  TokenSharding tokens = {};  // which tokens each part has, where parts are of tokens
  bool by_chance = false;     // roundings to `output` are stochastic, and nobody knows the draws
  // Ranks add parts in an order that nobody knows: a ring, a tree, a switch. It is evaluated in rank
  // order; bounds hold for every order, with each sum rounded to the wire or not.
  bool any_rank_order = false;
  // Nobody knows in which order a product adds the terms of each part. It is evaluated by chains; a draw
  // (order_key not 0) adds them in an order of its own (twins.md M9).
  bool any_order = false;
  std::uint64_t order_key = 0;
  bool operator==(const Evaluation&) const = default;
};
// The evaluation that bounds an evaluation: by chance a number loses up to a whole spacing of its
// format, which is half a spacing of the format with one bit less. The same again of what it returns.
Evaluation bounding(Evaluation how);

// How n terms of a sum are shared: their numbers in rank order, and where in that order each part
// begins, with n as the end. In a draw (how.tokens.key) the cuts between slices and between chunks
// move by up to half a piece (twins.md M3): the partial sums differ and so do their roundings, but
// each term keeps its place. The first part still adds the terms 0, 1, 2 ... as a single device
// does.
struct SumPartition {
  std::vector<std::size_t> order, begins;
};
SumPartition parting(std::size_t n, const Evaluation& how);

// In which order FP32 takes the sums of a call: bounds/sum.hpp. Ranks add up as promised.
struct SumsIn {
  enum class Way { promised, ordered, any } way = Way::promised;
  Order order = {};    // of ordered
  Format kept = fp32;  // by the formula `stored`: each sum is rounded to it when it is made
};

template <class T>
struct Call {
  std::vector<const Matrix<T>*> inputs;
  const Attributes& attributes;
  Evaluation how;
  Roundings<T>& roundings;
  SumsIn sums = {};
  std::size_t form = 0;  // of Operation::forms

  const Matrix<T>& operator[](std::size_t i) const { return *inputs.at(i); }
  // Throws std::invalid_argument if the attribute is missing.
  double attribute(std::string_view name) const;
  double attribute(std::string_view name, double otherwise) const {
    return attributes.contains(name) ? attribute(name) : otherwise;
  }
  std::size_t count(std::string_view name) const {
    return static_cast<std::size_t>(attribute(name));
  }
  // The attribute `key` of operations that may round stochastically; below 2^53, as a double is.
  std::optional<std::uint64_t> random_key() const {
    if (!attributes.contains("key")) return {};
    return static_cast<std::uint64_t>(attribute("key"));
  }
};

enum class Mode { deterministic, probabilistic, moments };
std::string_view name_of(Mode mode);

// A share of the largest bound of an output, or of the bound that was asked for
// (ToleranceCall::explained). The shares, in their order, add up to that bound exactly, in a
// machine's moments their squares. Causes: bounds/proof/running_error.hpp, SHARES. gemm and
// attention derive a share by a formula of their own, and say it with its numbers.
struct Term {
  std::string name;     // of the cause
  std::string formula;  // of the proof, or the cause in words
  double largest;       // what it is of the largest bound (absolute)
};

// How far each element of each output may be from `value`. It is as far from `truth`, but for
// 2^-900, where FP64 may underflow on the way.
struct Tolerance {
  Mode mode = Mode::deterministic;
  double delta = 0;                      // probability of any violation; 0: never
  std::vector<Matrix<double>> bound;     // absolute, one per output; moments: standard deviation
  std::vector<Matrix<double>> bias;      // moments only: mean error
  std::vector<std::vector<Term>> terms;  // per output
};

// One element of one output.
struct Place {
  std::size_t output, element;
};

struct ToleranceCall {
  std::vector<const Matrix<double>*> inputs;
  const Attributes& attributes;
  Evaluation how;
  Mode mode;
  double delta;                            // asked of probabilistic
  std::span<const Matrix<double>> values;  // what `value` returned for the same inputs
  // Whose bound the terms of its output add up to; absent: the largest.
  std::optional<Place> explained = {};
  SumsIn sums = {};
  std::size_t form = 0;  // of Operation::forms
  bool terms = true;     // false: the bounds alone are wanted, and the terms may be none

  // Is it this one?
  bool explains(std::size_t output, std::size_t element) const {
    return explained && explained->output == output && explained->element == element;
  }

  const Matrix<double>& operator[](std::size_t i) const { return *inputs.at(i); }
  double attribute(std::string_view name) const;
  std::size_t count(std::string_view name) const {
    return static_cast<std::size_t>(attribute(name));
  }
};

// The order of FP32 sums for which an operation's tolerance holds. `any` is said of the
// deterministic mode; by chance and in moments it is a chain.
enum class SumOrder {
  own,   // what its file promises, which no machine card can name
  none,  // it sums up nothing in FP32, or no more than two numbers
  any,
  chain,  // from the first to the last, as the order "sequential"
  tree,   // halves of a row added, as the order "pairwise"
};
// "sums one after the other" and the like.
std::string_view name_of(SumOrder order);

// What an operation is for. Tables of experiments book its roundings under it.
enum class Kind {
  other,
  product,    // a matrix product, or several: sums that kernels take in orders of their own
  attention,  // attention, and what turns its queries and keys
  residual,   // makes or adds to the residual stream
};

// What rooms above ask of an operation. Each card says it of itself; nobody compares ids.
struct Traits {
  Kind kind = Kind::other;
  bool choice = false;           // its first output is a choice, made of margins, and has no error
  bool makes_scales = false;     // its outputs scale a tensor, and nothing else
  bool short_copy = false;       // its output holds the numbers of a scaled short format
  bool scales_output = false;    // `output` is the format of scaled elements; what it makes is FP32
  bool shaped_by_parts = false;  // the shape of its outputs depends on the Evaluation
  bool may_saturate = false;     // attribute saturate: the largest number for what lies beyond
  bool says_left_out = false;    // its last output is not 0 where the step is to be left out
  bool keeps_history = false;    // input and output 0: the latest magnitudes of a tensor
  bool adds_inputs = false;      // its terms are whole inputs, dealt to the parts
  bool of_ranks = false;         // its inputs are the ranks': a machine's collective adds them
  bool one_product = false;      // of two matrices: a machine's card may know its steps
  bool exact = false;            // its bound is 0 in every call, by the promised formula
  bool updates = false;          // of an optimizer: what it makes of a gradient, element by element
};

class RandomCall;
class Maker;

// How to make calls of an operation: bounds/examples.
struct Examples {
  void (*random)(RandomCall&) = nullptr;  // inputs of the draw's kind, of random sizes
  void (*shaped)(Maker&) = nullptr;       // in a shape that somebody asks for
  std::string_view usual = "16x4096";     // a shape that fits
};

// A formula that kernels take. The bound of a covered one is never above that of another.
struct Form {
  std::string_view name;
  bool covered = false;
  bool worst_only = false;  // no moments and no chance are derived
};

struct Operation {
  std::string_view id;
  std::vector<Matrix<float>> (*evaluate)(const Call<float>&);
  std::vector<Matrix<double>> (*value)(const Call<double>&);
  std::vector<Matrix<BigFloat>> (*truth)(const Call<BigFloat>&);
  Outcome<Tolerance> (*tolerance)(const ToleranceCall&);
  SumOrder sums = SumOrder::own;
  Traits traits = {};
  Schema schema = {};
  Examples examples = {};
  bool sums_as_asked = false;  // takes its sums in the order that a call asks for
  // How many terms its longest sum has, where a card may know its order up to a length (order_ID).
  std::size_t (*terms)(const ToleranceCall&) = nullptr;
  // Formulas for the same mathematics, the promised one first; none: there is one. Each may be asked
  // for (Call::form), none stands in a graph.
  List<Form> forms = {};

  SumOrder sums_in(Mode mode) const {
    return sums == SumOrder::any && mode != Mode::deterministic ? SumOrder::chain : sums;
  }
};

// All operations in the order of operations.inc.
std::span<const Operation* const> all_operations();
// Returns the operation of that id, or nullptr.
const Operation* find_operation(std::string_view id);
// Throws Failure on an unknown id, listing the known.
const Operation& known_operation(std::string_view id);

// The sum of parts as an Evaluation promises it: every part and every running sum rounded to the
// wire format, in rank order. One part is returned as it is. Used by every operation with a sum.
// Errors of an evaluation in any rank order are those of any (bounds/tolerance.hpp).
template <class T>
Matrix<T> sum_in_rank_order(std::vector<Matrix<T>>&& parts, const Evaluation& how,
                            Roundings<T>& roundings);

// Returns the rows in this order.
template <class T>
Matrix<T> rows_in(const std::vector<std::size_t>& order, const Matrix<T>& x) {
  Matrix<T> y(x.rows, x.cols);
  for (std::size_t i = 0; i < y.rows; ++i) std::copy_n(x.row(order[i]), x.cols, y.row(i));
  return y;
}

// Wraps the outputs of an operation. ({std::move(y)} would copy it.)
template <class T, class... Others>
std::vector<Matrix<T>> as_outputs(Matrix<T>&& first, Others&&... others) {
  static_assert((std::is_same_v<Others, Matrix<T>> && ...), "what is handed over is moved");
  std::vector<Matrix<T>> all;
  all.reserve(1 + sizeof...(others));
  all.push_back(std::move(first));
  (all.push_back(std::move(others)), ...);
  return all;
}

// Slice i of `parts` equal slices of [0, n).
struct Slice {
  std::size_t first, last;
};
inline Slice slice(std::size_t n, int parts, int i) {
  const auto p = static_cast<std::size_t>(parts);
  const auto k = static_cast<std::size_t>(i);
  return {k * n / p, (k + 1) * n / p};
}

}  // namespace plumb::bounds

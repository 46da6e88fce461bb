// probe/subject.hpp: what is probed: products of a device, a library or a kernel, known only by what
// they return.
//
//   multiply   products A B, A (M, K) and B (K, N) of numbers of `input`; returns C (M, N) of each.
//              Many are asked for at once, for subjects that take long to start.
//   functions  exp, log ... of FP32 numbers; casts, as cast_bf16: the numbers of the format, as FP32
//   tables     of tables of FP32 numbers (M, N): column_sum (N, 1), row_sum (M, 1), softmax of each
//              row (M, N)
//   tile       as many sums are asked for in one product: C of tile x tile, of which the diagonal
//              is read. 1 where a larger C costs more than it tells.
//
// TESTED   tests/probe/calibrate_test.cpp
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "number/format.hpp"
#include "number/mma.hpp"
#include "number/order.hpp"
#include "number/product.hpp"
#include "probe/sees.hpp"

namespace plumb::probe {

struct Operands {
  Tensor a, b;  // (M, K), (K, N)
};

// A function of one argument or two, element by element.
using Function =
    std::function<std::vector<float>(const std::vector<float>& x, const std::vector<float>& y)>;

// Of some tables at once; nothing where the subject has no such sums.
using Tables = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

struct Subject {
  std::string name;
  Format input;
  std::function<std::vector<Tensor>(const std::vector<Operands>&)> multiply;
  std::size_t tile = 16;
  std::map<std::string, Function> functions = {};  // as far as there are any
  std::map<std::string, Tables> tables = {};       // the same
};

// Products of a backend; of numbers of a shorter format, which it takes as FP32. `reference` has the
// sums, softmax and casts of the program's own kernels, too.
Subject subject_of(const Backend& backend, const Format& input);

// A device that is not there: what a card says, made bit by bit. Subjects whose facts are known, to
// try the probes on.
struct Emulated {
  Order order = {};                 // FP32 sums; not of a matrix unit
  std::optional<Mma> unit = {};     // instead: steps of such a unit
  std::optional<Order> parts = {};  // of a unit: blocked or split, whose parts FP32 adds
  bool fused = true;                // FP32: is a product within its sum rounded only once?
  bool flushes = false;             // operands, products and sums below FP32's normal numbers
  std::uint64_t key = 1;            // of stochastic rounding
};
Tensor emulated_product(View<float> a, View<float> b, const Emulated& device);
Subject subject_of(const Emulated& device, const Format& input);

}  // namespace plumb::probe

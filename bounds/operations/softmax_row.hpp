// bounds/operations/softmax_row.hpp: the exponentials of a row and their sum, halves of it added;
// or, online, taken about the largest number so far and scaled anew whenever there is a larger one.
#pragma once

#include <type_traits>
#include <vector>

#include "bounds/sees.hpp"
#include "bounds/sum.hpp"
#include "number/exponential.hpp"
#include "number/order.hpp"
#include "number/rows.hpp"

namespace plumb::bounds {

// Formulas of operations that begin so. What is taken online errs by more than what is not.
inline constexpr List<Form> softmax_forms{{"two_pass", true}, {"online"}};
inline constexpr std::size_t online = 1;

inline constexpr Order pairwise{Order::Kind::pairwise};

// The sum of exponentials that are scaled on the way, in any order (theory.md A4): each less than n
// times. Arguments of what it is scaled with add up to its own, and so do their roundings and errors
// in proportion; each factor's exponential and product err by themselves.
inline RunningError taken_online(const std::vector<RunningError>& exponentials) {
  SumInAnyOrder in_any_order;
  for (const RunningError& e : exponentials) in_any_order.add(e);
  RunningError z = in_any_order.total();
  constexpr double farthest = 104;  // beyond, FP32's exponential is zero
  const Arithmetic& now = arithmetic_in_force;
  const auto n = static_cast<double>(exponentials.size());
  const double all = n * (2 * now.exp_ulp + 1) + 2 * now.exp_ulp_per_unit * farthest;
  const double relative = std::expm1(all * 0x1p-24 * (1 + 0x1p-10));
  z.err_surely(term<"softmax.online">(z.most() * relative), Share::functions);
  z.err_surely(n * (now.flushes ? 2 * smallest_normal_fp32 : 0x1p-148), Share::functions);
  return z;
}

// Exponentials of a row and their sum. Each goes into the numerator and, with the opposite sign of
// effect, into the sum: counting its error twice as if independent only widens (1 - p <= 1).
template <class T>
struct Row {
  T largest, sum;
  std::vector<T> exponentials;

  Row(const T* x, std::size_t n, const SumsIn& in, std::size_t form)
      : largest(largest_of(x, n)), exponentials(plumb::exponentials(x, n, largest)) {
    if (form == online) {
      take_as_powers(x, n);
      sum = online_sum(x, n);
    } else if constexpr (std::is_same_v<T, double>) {
      sum = sum_of(exponentials.data(), n);
    } else if (in.way != SumsIn::Way::promised) {
      Sum<T> as_asked(in);
      for (const T& e : exponentials) as_asked.add(e);
      sum = as_asked.total();
    } else {
      const auto leaf = [&](const T&, std::size_t j) { return exponentials[j]; };
      const auto add = [](const T& a, const T& b) { return a + b; };
      sum = total<T>(pairwise, n, leaf, add);
    }
  }

  // exp(x - m) as 2^(x log2 e - m log2 e): what the products lose does not cancel, nor does log2 e's own
  // rounding, a quarter of u. A largest number on the way to m lies between x and m.
  void take_as_powers(const T* x, std::size_t n) {
    if constexpr (std::is_same_v<T, RunningError>) {
      for (std::size_t j = 0; j < n; ++j) {
        T argument = x[j] - largest;
        const double farther = std::max(x[j].most(), largest.most());
        argument.err_surely(term<"softmax.powers">(3 * 0x1p-24 * farther), Share::functions);
        exponentials[j] = exp(argument);
      }
    }
  }

  T online_sum(const T* x, std::size_t n) const {
    if constexpr (std::is_same_v<T, double>) return sum_of(exponentials.data(), n);
    if constexpr (std::is_same_v<T, RunningError>) return taken_online(exponentials);
    T largest_yet = x[0], all = 1;
    for (std::size_t j = 1; j < n; ++j) {
      if (largest_yet < x[j]) {
        all = all * exp(largest_yet - x[j]) + T(1);
        largest_yet = x[j];
      } else {
        all += exp(x[j] - largest_yet);
      }
    }
    return all;
  }
};

}  // namespace plumb::bounds

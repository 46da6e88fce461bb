// number/outcome.hpp: a value, or the reason there is none; and what is thrown when the world
// fails.
//
// Outcome is for a missing answer that is an ordinary finding (a bound that does not apply, two
// shards that disagree). Misuse of a function throws std::invalid_argument. Failure is for what a
// user can mend: its text says what was found, what was expected and what to do.
// Outcome is shaped like std::expected, so that C++23 can replace it by one alias.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace plumb {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Why { not_finite, may_overflow, vacuous, unsupported, conflict };

struct Refusal {
  Why why;
  std::string detail;  // one sentence, with the numbers that led here
};

// Of what is not supported.
inline Refusal no(std::string why) { return {Why::unsupported, std::move(why)}; }

template <class T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Outcome(Refusal refusal) : state_(std::in_place_index<1>, std::move(refusal)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  const T& operator*() const { return std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Refusal& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Refusal> state_;
};

}  // namespace plumb

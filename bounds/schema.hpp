// bounds/schema.hpp: the form of an operation's calls: its inputs, outputs and attributes by name.
//
// A size is a sum of products, "heads head_dim + 2 kv_heads head_dim" or "T k". Each factor is a
// number, an attribute, or a symbol. A symbol is, where it first stands, whatever makes the size
// right: "sequence n" says that the rows are whole sequences. "*" is any size.
//
// TESTED   tests/bounds/schema_test.cpp
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

#include "bounds/sees.hpp"

namespace plumb::bounds {

// Up to ten items of a card, known when it is compiled.
template <class T>
class List {
 public:
  constexpr List() = default;
  constexpr List(std::initializer_list<T> items) {
    for (const T& item : items) items_.at(size_++) = item;
  }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr std::size_t size() const { return size_; }

 private:
  std::array<T, 10> items_{};
  std::size_t size_ = 0;
};

enum class Presence {
  once,
  optional,  // may be left out; a caller that gives a later input gives this one, too
  repeated,  // once or more, to the end of the inputs; neighbours of this kind alternate
  counted,   // as often as the attribute `by` says
  given,     // where the attribute `by` is `least` or more, or is not 0 if that is 0
};

// An input or an output.
struct Operand {
  std::string_view name, rows = "*", cols = "*";
  Presence presence = Presence::once;
  std::string_view by = "";
  double least = 0;
  bool may_be_absent = false;         // of counted ones: all of them
  std::string_view absent_size = "";  // the symbol that is 0 where an optional one is left out
  // Where this attribute is not 0, the sizes are the other ones.
  std::string_view where = "", other_rows = "", other_cols = "";
};

constexpr Operand optional(Operand x, std::string_view absent_size = "") {
  x.presence = Presence::optional;
  x.absent_size = absent_size;
  return x;
}
constexpr Operand repeated(Operand x) {
  x.presence = Presence::repeated;
  return x;
}
constexpr Operand counted(Operand x, std::string_view by, bool may_be_absent = false) {
  x.presence = Presence::counted;
  x.by = by;
  x.may_be_absent = may_be_absent;
  return x;
}
constexpr Operand given(Operand x, std::string_view by, double least = 0) {
  x.presence = Presence::given;
  x.by = by;
  x.least = least;
  return x;
}
constexpr Operand where(Operand x, std::string_view by, std::string_view rows,
                        std::string_view cols) {
  x.where = by;
  x.other_rows = rows;
  x.other_cols = cols;
  return x;
}

// An attribute is a double in a call; its kind says which doubles it may be.
struct Attribute {
  std::string_view name;
  enum class Kind { flag, count, real, key } kind = Kind::real;
  double least = 0, most = 0;  // of a count; of a real number, where they are not one
  bool required = true;
  double otherwise = 0;  // where it is left out, if a number can say that
};

inline constexpr double most_whole = 0x1p53;  // beyond, doubles are no longer all whole numbers

constexpr Attribute flag(std::string_view name) { return {name, Attribute::Kind::flag, 0, 1}; }
constexpr Attribute count(std::string_view name, double least = 1, double most = 0x1p31) {
  return {name, Attribute::Kind::count, least, most};
}
constexpr Attribute real(std::string_view name, double least = 0, double most = 0) {
  return {name, Attribute::Kind::real, least, most};
}
constexpr Attribute key(std::string_view name) {
  return {name, Attribute::Kind::key, 0, most_whole};
}
constexpr Attribute or_else(Attribute a, double otherwise = 0) {
  a.required = false;
  a.otherwise = otherwise;
  return a;
}

struct Schema {
  List<Operand> inputs, outputs;
  List<Attribute> attributes = {};
  std::string_view dealt =
      "";  // the size whose terms a TokenSharding hands to ranks; none: no TokenSharding
};

}  // namespace plumb::bounds

#include "trace/store/stored.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>

#include "number/encoding.hpp"

namespace plumb::trace {
namespace {

struct Row {
  std::string_view name;
  std::size_t width;
  const Format* format;
};
// In the order of Stored.
constexpr std::array rows{
    Row{"fp64", 8, &fp32},         Row{"fp32", 4, &fp32},         Row{"fp16", 2, &fp16},
    Row{"bf16", 2, &bf16},         Row{"e4m3fn", 1, &e4m3fn},     Row{"e5m2", 1, &e5m2},
    Row{"e4m3fnuz", 1, &e4m3fnuz}, Row{"e5m2fnuz", 1, &e5m2fnuz}, Row{"e3m2", 1, &e3m2},
    Row{"e2m3", 1, &e2m3},         Row{"e2m1", 1, &e2m1},         Row{"e8m0", 1, &e8m0},
    Row{"int8", 1, &fp32},         Row{"int16", 2, &fp32},        Row{"int32", 4, &fp32},
    Row{"int64", 8, &fp32},        Row{"uint8", 1, &fp32},        Row{"uint16", 2, &fp32},
    Row{"uint32", 4, &fp32},       Row{"uint64", 8, &fp32}};
static_assert(rows.size() == static_cast<std::size_t>(Stored::u64) + 1);

// All numbers of a format of at most 16 bits, by code; of one with fewer than 8 bits by byte.
std::vector<double> decoded(const Format& format) {
  const std::size_t codes = std::size_t(1) << format.bits;
  std::vector<double> numbers(std::max<std::size_t>(codes, 256),
                              std::numeric_limits<double>::quiet_NaN());
  for (std::size_t c = 0; c < codes; ++c) {
    numbers[c] = decode(static_cast<std::uint32_t>(c), format);
  }
  return numbers;
}

template <class Code>
std::size_t by_table(std::span<const char> bytes, const Format& format, std::span<double> into) {
  static const std::map<std::string_view, std::vector<double>> tables = [] {
    std::map<std::string_view, std::vector<double>> all;
    for (const Row& row : rows) {
      if (row.format->bits <= 16) all.emplace(row.format->name, decoded(*row.format));
    }
    return all;
  }();
  const std::vector<double>& table = tables.at(format.name);
  for (std::size_t e = 0; e < into.size(); ++e) {
    Code code;
    std::memcpy(&code, bytes.data() + e * sizeof code, sizeof code);
    into[e] = table[code];
  }
  return into.size();
}

// Returns the place of the first number that FP32 does not have, or into.size().
template <class T>
std::size_t by_value(std::span<const char> bytes, std::span<double> into) {
  for (std::size_t e = 0; e < into.size(); ++e) {
    T x;
    std::memcpy(&x, bytes.data() + e * sizeof x, sizeof x);
    into[e] = static_cast<double>(x);
    if constexpr (sizeof(T) < 3 || std::is_same_v<T, float>) continue;
    const auto f = static_cast<float>(x);
    if (x == x && static_cast<long double>(f) != static_cast<long double>(x)) return e;
  }
  return into.size();
}

const Row& row_of(Stored stored) { return rows[static_cast<std::size_t>(stored)]; }

}  // namespace

std::size_t read_numbers(std::span<const char> bytes, Stored stored, std::span<double> into) {
  using S = Stored;
  switch (stored) {
    case S::f64:
      return by_value<double>(bytes, into);
    case S::f32:
      return by_value<float>(bytes, into);
    case S::i8:
      return by_value<std::int8_t>(bytes, into);
    case S::i16:
      return by_value<std::int16_t>(bytes, into);
    case S::i32:
      return by_value<std::int32_t>(bytes, into);
    case S::i64:
      return by_value<std::int64_t>(bytes, into);
    case S::u8:
      return by_value<std::uint8_t>(bytes, into);
    case S::u16:
      return by_value<std::uint16_t>(bytes, into);
    case S::u32:
      return by_value<std::uint32_t>(bytes, into);
    case S::u64:
      return by_value<std::uint64_t>(bytes, into);
    default:
      return width_of(stored) == 1 ? by_table<std::uint8_t>(bytes, format_of(stored), into)
                                   : by_table<std::uint16_t>(bytes, format_of(stored), into);
  }
}

namespace {

// f(a number of the type that is stored so)
template <class F>
auto as_whole(Stored stored, const F& f) {
  switch (stored) {
    case Stored::i8:
      return f(std::int8_t());
    case Stored::i16:
      return f(std::int16_t());
    case Stored::i32:
      return f(std::int32_t());
    case Stored::u8:
      return f(std::uint8_t());
    case Stored::u16:
      return f(std::uint16_t());
    case Stored::u32:
      return f(std::uint32_t());
    default:
      return f(std::int64_t());
  }
}

}  // namespace

void read_whole_numbers(std::span<const char> bytes, Stored stored, std::span<std::uint64_t> into) {
  as_whole(stored, [&]<class T>(T x) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      std::memcpy(&x, &bytes[i * sizeof x], sizeof x);
      into[i] = static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
    }
  });
}

std::uint64_t wrapped(std::uint64_t bits, Stored stored) {
  return as_whole(stored, [&]<class T>(T) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<T>(bits)));
  });
}

std::size_t width_of(Stored stored) { return row_of(stored).width; }

bool is_whole(Stored stored) { return stored >= Stored::i8; }

const Format& format_of(Stored stored) { return *row_of(stored).format; }

std::optional<Stored> find_stored(std::string_view name) {
  for (std::size_t s = 0; s < rows.size(); ++s) {
    if (rows[s].name == name) return static_cast<Stored>(s);
  }
  return {};
}

std::string_view name_of(Stored stored) { return row_of(stored).name; }

std::vector<std::string> all_stored() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace plumb::trace

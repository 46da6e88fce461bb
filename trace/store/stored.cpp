#include "trace/store/stored.hpp"

#include <cstring>
#include <type_traits>

#include "number/encoding.hpp"

namespace plumb::trace {
namespace {

// All numbers of a format of at most 16 bits, by code.
std::vector<double> decoded(const Format& format) {
  std::vector<double> numbers(std::size_t(1) << format.bits);
  for (std::size_t c = 0; c < numbers.size(); ++c) {
    numbers[c] = decode(static_cast<std::uint32_t>(c), format);
  }
  return numbers;
}

template <class Code>
void by_table(const std::vector<char>& bytes, const std::vector<double>& table,
              std::span<double> into) {
  for (std::size_t e = 0; e < into.size(); ++e) {
    Code code;
    std::memcpy(&code, bytes.data() + e * sizeof code, sizeof code);
    into[e] = table[code];
  }
}

// Returns the place of the first number that FP32 does not have, or into.size().
template <class T>
std::size_t by_value(const std::vector<char>& bytes, std::span<double> into) {
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

}  // namespace

std::size_t read_numbers(const std::vector<char>& bytes, Stored stored, std::span<double> into) {
  static const std::vector<double> of_fp16 = decoded(fp16), of_bf16 = decoded(bf16),
                                   of_e4m3 = decoded(e4m3fn), of_e5m2 = decoded(e5m2);
  using S = Stored;
  switch (stored) {
    case S::f16:
      by_table<std::uint16_t>(bytes, of_fp16, into);
      return into.size();
    case S::bf16:
      by_table<std::uint16_t>(bytes, of_bf16, into);
      return into.size();
    case S::e4m3:
      by_table<std::uint8_t>(bytes, of_e4m3, into);
      return into.size();
    case S::e5m2:
      by_table<std::uint8_t>(bytes, of_e5m2, into);
      return into.size();
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
  }
  return into.size();
}

std::size_t width_of(Stored stored) {
  using S = Stored;
  switch (stored) {
    case S::f64:
    case S::i64:
    case S::u64:
      return 8;
    case S::f32:
    case S::i32:
    case S::u32:
      return 4;
    case S::f16:
    case S::bf16:
    case S::i16:
    case S::u16:
      return 2;
    case S::e4m3:
    case S::e5m2:
    case S::i8:
    case S::u8:
      return 1;
  }
  return 1;
}

const Format& format_of(Stored stored) {
  switch (stored) {
    case Stored::f16:
      return fp16;
    case Stored::bf16:
      return bf16;
    case Stored::e4m3:
      return e4m3fn;
    case Stored::e5m2:
      return e5m2;
    default:
      return fp32;
  }
}

}  // namespace plumb::trace

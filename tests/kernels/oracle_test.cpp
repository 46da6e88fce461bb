// Does each matrix unit of the cards compute, bit for bit, what an independent program says of it, and
// what a real one does? experiments/oracle/mmasim.safetensors has inputs and results [MMA-Sim], made by
// oracle.py beside it; h100.safetensors what an H100 made of the same inputs, asked by device.py.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "bounds/mma.hpp"
#include "kernels/mma/product.hpp"
#include "number/encoding.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::oracle_test {
namespace {

constexpr std::size_t kinds = 9;

struct Codes {
  std::size_t rows = 0, cols = 0;  // leading dimensions are rows
  int bits = 0;
  std::vector<std::uint32_t> values;
};

// A file of whole numbers in the safetensors format, which is our own: read without suspicion.
std::map<std::string, Codes> read_codes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  std::uint64_t length = 0;
  if (all.size() < 8) throw std::runtime_error("cannot read " + path);
  std::memcpy(&length, all.data(), 8);
  std::map<std::string, Codes> tensors;
  const auto header = nlohmann::json::parse(all.substr(8, length));
  for (const auto& [name, said] : header.items()) {
    if (name == "__metadata__") continue;
    const auto type = said.at("dtype").get<std::string>();
    Codes t{1, 0, type == "U8" ? 8 : type == "U16" ? 16 : 32, {}};
    for (const std::size_t d : said.at("shape").get<std::vector<std::size_t>>()) {
      t.rows *= t.cols == 0 ? 1 : t.cols;
      t.cols = d;
    }
    const std::size_t bytes = static_cast<std::size_t>(t.bits) / 8;
    const std::size_t at = 8 + length + said.at("data_offsets").at(0).get<std::size_t>();
    t.values.resize(t.rows * t.cols);
    for (std::size_t e = 0; e < t.values.size(); ++e) {
      std::memcpy(&t.values[e], all.data() + at + e * bytes, bytes);
    }
    tensors[name] = t;
  }
  return tensors;
}

const std::map<std::string, Codes>& oracle() {
  static const auto tensors = read_codes(PLUMB_SOURCE_DIR "/experiments/oracle/mmasim.safetensors");
  return tensors;
}

const std::map<std::string, Codes>& real_h100() {
  static const auto tensors = read_codes(PLUMB_SOURCE_DIR "/experiments/oracle/h100.safetensors");
  return tensors;
}

// What a code of the file stands for.
float number_of(std::uint32_t code, const Format& format) {
  if (format.bits > 16) return std::bit_cast<float>(code);
  return static_cast<float>(decode(code, format));
}

// The rows of one kind.
Tensor operand(const Format& format, const char* which, std::size_t kind) {
  const Codes& codes = oracle().at("inputs." + std::string(format.name) + "." + which);
  const std::size_t rows = codes.rows / kinds;
  Tensor t(rows, codes.cols);
  for (std::size_t e = 0; e < t.size(); ++e) {
    t.values[e] = number_of(codes.values[kind * t.size() + e], format);
  }
  return t;
}

// "h100.mma_e4m3fn_by_e5m2_to_fp16.m16n8k8"
struct Name {
  explicit Name(const std::string& name) {
    std::istringstream parts(name);
    std::string fact;
    std::getline(parts, card, '.');
    std::getline(parts, fact, '.');
    std::getline(parts, variant, '.');
    const auto before = [&fact](const std::string& word) {
      const std::size_t at = fact.find(word);
      const std::string rest = at == fact.npos ? "" : fact.substr(at + word.size());
      fact = fact.substr(0, at);
      return rest;
    };
    scaled = fact.ends_with("_scaled");
    if (scaled) fact = fact.substr(0, fact.size() - std::string("_scaled").size());
    sum = before("_to_").empty() ? fp32 : fp16;
    const std::string by = before("_by_");
    a = *find_format(fact.substr(4));
    b = by.empty() ? a : *find_format(by);
  }
  std::string card, variant;
  bool scaled = false;
  Format a = fp32, b = fp32, sum = fp32;
};

// Instructions that step otherwise than the card of their machine says.
std::optional<Mma> unit_of(const Name& name) {
  if (name.scaled) return find_machine(name.card)->mma_scaling(name.a, name.b);
  std::optional<Mma> unit = find_machine(name.card)->mma_of_two(name.a, name.b, name.sum);
  if (!unit || name.variant.empty()) return unit;
  if (name.variant == "mma") return unit;  // m16n8k16, with k8 of TF32: steps as wgmma
  if (name.card == "t4") return find_machine("v100")->mma(name.a, name.sum);  // m8n8k4: as Volta
  if (name.card == "h100") unit->terms = 8;                                   // m16n8k8
  if (name.card == "mi250") unit->terms = 2;  // 16x16x8bf16, without _1k
  return unit;
}

// Equal bits. Of what is not aligned the sign of a zero is not the unit's; all NaNs are alike.
bool same(float found, float expected, const Mma& unit) {
  if (std::isnan(expected)) return std::isnan(found);
  if (unit.kind != Mma::Kind::aligned && expected == 0) return found == 0;
  return std::bit_cast<std::uint32_t>(found) == std::bit_cast<std::uint32_t>(expected);
}

struct Compared {
  std::size_t all = 0, other = 0, beyond = 0;
  double worst = 0;  // error over bound, where there is a bound
  std::string first;
};

void compare(const Name& name, const Mma& unit, const Codes& said, std::size_t kind,
             Compared& seen) {
  const Tensor a = operand(name.a, "a", kind), b = operand(name.b, "b", kind);
  const Matrix<double> wide_a = converted<double>(a), wide_b = converted<double>(b);
  Tensor c;
  SumErrors bound;
  if (name.scaled) {
    const Tensor of_a = operand(e8m0, "a", kind), of_b = operand(e8m0, "b", kind);
    const Matrix<double> wide_of_a = converted<double>(of_a), wide_of_b = converted<double>(of_b);
    c = kernels::mma_product(view(a), view(b, true), {view(of_a), view(of_b, true)}, unit);
    bound = mma_errors(view(wide_a), view(wide_b, true), {view(wide_of_a), view(wide_of_b, true)},
                       unit);
  } else {
    c = kernels::mma_product(view(a), view(b, true), unit);
    bound = mma_errors(view(wide_a), view(wide_b, true), unit);
  }
  for (std::size_t e = 0; e < c.size(); ++e) {
    const float expected = number_of(said.values[kind * c.size() + e], unit.sum);
    ++seen.all;
    if (!same(c.values[e], expected, unit)) {
      ++seen.other;
      if (seen.first.empty()) {
        std::ostringstream text;
        text << std::hexfloat << "kind " << kind << " element " << e << ": " << c.values[e]
             << ", expected " << expected;
        seen.first = text.str();
      }
    }
    // What the oracle says lies inside the bound, too: FP64 sums are as near as 2^-40 of it.
    const double error = std::fabs(static_cast<double>(expected) - bound.sum.values[e]);
    if (std::isinf(bound.worst.values[e])) {
      ++seen.beyond;
    } else if (error > 0) {
      seen.worst = std::max(seen.worst, error / bound.worst.values[e]);
    }
  }
}

// FP8 numbers are wgmma's: on an H100 mma adds them otherwise, by steps of which nothing is published.
bool by_mma_of_fp8(const Name& name) { return name.variant == "mma" && name.a.bits == 8; }

TEST(Oracle, ARealH100MakesTheBitsOfItsCard) {
  std::size_t units = 0, of_mma = 0;
  for (const auto& [text, said] : real_h100()) {
    const Name name(text);
    const std::optional<Mma> unit = unit_of(name);
    ASSERT_TRUE(unit) << text;
    Compared seen;
    for (std::size_t kind = 0; kind < kinds; ++kind) compare(name, *unit, said, kind, seen);
    if (by_mma_of_fp8(name)) {
      EXPECT_GT(seen.other, 0U) << text << " is wgmma's after all: say so on its card";
      ++of_mma;
      continue;
    }
    EXPECT_EQ(seen.other, 0U) << text << " of " << seen.all << ", e.g. " << seen.first;
    EXPECT_LE(seen.worst, 1) << text;
    ++units;
  }
  EXPECT_EQ(units, 18U);
  EXPECT_EQ(of_mma, 8U);
}

TEST(Oracle, SaysTheSameBitsOfEveryUnit) {
  std::size_t units = 0, all = 0, beyond = 0;
  double worst = 0;
  for (const auto& [text, said] : oracle()) {
    if (text.starts_with("inputs.")) continue;
    const Name name(text);
    ASSERT_NE(find_machine(name.card), nullptr) << text;
    const std::optional<Mma> unit = unit_of(name);
    ASSERT_TRUE(unit) << text;
    Compared seen;
    for (std::size_t kind = 0; kind < kinds; ++kind) compare(name, *unit, said, kind, seen);
    EXPECT_EQ(seen.other, 0U) << text << " of " << seen.all << ", e.g. " << seen.first;
    EXPECT_LE(seen.worst, 1) << text;
    ++units;
    all += seen.all;
    beyond += seen.beyond;
    worst = std::max(worst, seen.worst);
  }
  EXPECT_GT(units, 80U);
  EXPECT_GT(all, 100000U);
  EXPECT_LT(beyond, all / 10);
  EXPECT_GT(worst, 0.5);
}

// What a card says and the oracle was not asked of would stand unguarded.
TEST(Oracle, WasAskedOfEveryUnitOfACard) {
  std::set<std::string> asked;
  for (const auto& [text, said] : oracle()) asked.insert(text);
  std::size_t facts = 0;
  for (const Machine& machine : all_machines()) {
    const Fact* steps = machine.fact("steps");
    if (steps != nullptr && steps->value == "any") continue;  // the unit of another card
    for (const Fact& fact : machine.facts) {
      if (!fact.name.starts_with("mma_")) continue;
      EXPECT_TRUE(asked.contains(machine.id + "." + fact.name)) << machine.id << " " << fact.name;
      ++facts;
    }
  }
  EXPECT_GT(facts, 50U);
}

// Units that differ in one number, by what differs.
std::map<std::string, Mma> neighbours(const Mma& unit) {
  std::map<std::string, Mma> all;
  const auto add = [&](const std::string& name, auto&& change) {
    Mma other = unit;
    change(other);
    try {
      other.check();
      all.emplace(name, other);
    } catch (const std::invalid_argument&) {
    }
  };
  add("grid - 1", [](Mma& m) { --m.grid; });
  add("grid + 1", [](Mma& m) { ++m.grid; });
  add("kept - 1", [](Mma& m) { --m.kept; });
  add("kept + 1", [](Mma& m) { ++m.kept; });
  add("terms / 2", [](Mma& m) { m.terms /= 2; });
  add("terms * 2", [](Mma& m) { m.terms *= 2; });
  add("rounding", [](Mma& m) { m.nearest = !m.nearest; });
  add("groups", [](Mma& m) { m.groups = 3 - m.groups; });
  // The exponent of zero is seen where products have bits below the grid that it makes.
  const auto last_bit = [](const Format& f) { return f.emin - f.precision + 1; };
  const int of_scales = unit.block > 0 ? -120 : 0;  // of the data
  const int lowest = last_bit(unit.input) + last_bit(unit.second_input()) + of_scales;
  for (const int by : {-1, 1}) {
    const int coarser = unit.zero.value_or(-4096) + std::max(by, 0) - unit.grid;
    if (coarser <= lowest) continue;
    add(by < 0 ? "zero - 1" : "zero + 1", [by](Mma& m) { m.zero = *m.zero + by; });
  }
  return all;
}

TEST(Oracle, NoticesAnotherUnit) {
  std::size_t noticed = 0;
  for (const auto& [text, said] : oracle()) {
    if (text.starts_with("inputs.")) continue;
    const Name name(text);
    // Sums of 96 products of 4 or 6 bits are exact, or all but so: nothing is cut.
    if (!name.scaled && (name.a.bits < 8 || name.b.bits < 8)) continue;
    for (const auto& [what, other] : neighbours(*unit_of(name))) {
      Compared seen;
      for (std::size_t kind = 0; kind < kinds; ++kind) compare(name, other, said, kind, seen);
      EXPECT_GT(seen.other, 0U) << text << ": " << what;
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 300U);
}

}  // namespace
}  // namespace plumb::oracle_test

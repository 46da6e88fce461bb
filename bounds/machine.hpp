// bounds/machine.hpp: what is known about a machine's arithmetic, and how we know it.
//
// A card is one JSON file of bounds/machines: an id, a sentence, facts. It may have a "collective",
// how its ranks add up: algorithm, ranks, wire, provenance, source, and where it is known rotation
// (bounds/collective.hpp).
//
//   fact              values                                      where the card is silent
//   accumulator       fp32, mma                                   no bound
//   rounding          nearest_even, toward_zero, away, stochastic no bound
//   results           nearest_even, stochastic: their rounding     nearest_even
//                     to the format they are kept in
//   order             any, or as number/order.hpp says            any
//   order_OPERATION   the same, of the sums of one operation that says how many terms they have
//                     (gemm, column_sum, softmax): "split 4 up to 4096"    what `order` says
//   subnormals        kept, flushed                               flushed
//   fma               as_written, any                             any
//   exp_ulp ...       a number (FUNCTIONS below)                  what well-known libraries reach
//   forms             as_written, any: of all operations          any
//   form_OPERATION    one of Operation::forms, any                what `forms` says
//   mma_FORMAT        "terms 16 grid 25 kept 23 zero -133" ...    no such unit
//   mma_FORMAT_to_fp16  the same, with sums in FP16               no such unit
//   mma_FORMAT_scaled   the same, "... block 32": scales blocks   no such unit
//   steps             chain, any: how kernels arrange the unit's   chain
//   promoted_after    products, after which FP32 takes over a unit's sum    never
//
// FUNCTIONS  exp_ulp, exp_ulp_per_unit, log_ulp, erf_ulp, erf_absolute, tanh_ulp, divide_ulp,
//            sqrt_ulp: bounds/proof/arithmetic.hpp.
//            Silent: 4, 1.2, 4, 4, 2^-21, 6, 2.5, 3. The sources: CUDA's tables for its fast
//            functions (exp 2 + 1.17 |x|, quotient 2, root 3 ulp), numpy's (exp 2.52, log 3.83 ulp),
//            XLA's on an H100 (tanh 5.31 ulp at -5.2128, erf 2.9e-7: experiments/README.md, outsiders),
//            polynomials of erf with an absolute error of 1.5e-7 and FP32 roundings.
//
// TESTED   tests/bounds/machine_test.cpp
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bounds/collective.hpp"
#include "bounds/proof/arithmetic.hpp"
#include "bounds/sees.hpp"
#include "number/format.hpp"
#include "number/mma.hpp"
#include "number/order.hpp"

namespace plumb::bounds {

// How a fact is known: from the vendor or the literature; from a probe; or taken on trust.
enum class Provenance { published, measured, assumed };
std::string_view name_of(Provenance provenance);
// As the fact "rounding" says it.
std::string_view name_of(Rounding rounding);

struct Fact {
  std::string name;  // accumulator, exp_ulp, subnormals, ...
  std::string value;
  Provenance provenance;
  std::string source;  // citation key, or the command that measured it
};

struct Machine {
  std::string id, title;
  std::vector<Fact> facts;
  std::optional<Collective> collective = {};
  // How the collective is known.
  Provenance collective_provenance = Provenance::assumed;
  std::string collective_source = {};

  // Returns the fact of that name, or nullptr.
  const Fact* fact(std::string_view name) const;
  // The order and rounding of its FP32 sums, if the card knows them: the facts "order" (see
  // number/order.hpp; "any" says that nothing is known) and "rounding". Throws Failure if a fact
  // names no order or no rounding.
  std::optional<Order> order() const;
  // The same of one operation's sums of so many terms: the fact "order_ID", else "order".
  std::optional<Order> order_of(std::string_view operation, std::size_t terms) const;
  std::optional<Order> product_order(std::size_t terms) const { return order_of("gemm", terms); }
  // Does the card claim that FP32 accumulates, and rounds to nearest?
  bool rounds_to_nearest() const;
  // Does it claim that results are rounded stochastically to a format shorter than FP32?
  bool draws_results() const;
  // What it says of functions, subnormals and multiply-adds, or what libraries do where it is
  // silent. Throws Failure if a fact is no number or no word of its own.
  Arithmetic arithmetic() const;
  // The matrix unit for inputs of a format, with sums in FP32 or FP16: the fact "mma_FORMAT" or
  // "mma_FORMAT_to_fp16", or nothing. Throws Failure if the fact describes no unit.
  std::optional<Mma> mma(const Format& input, const Format& sum = fp32) const;
  // The same for two formats: of at most 8 bits, if the card says the same of both.
  std::optional<Mma> mma_of_two(const Format& a, const Format& b, const Format& sum = fp32) const;
  // The unit that scales blocks of these formats by powers of two: "mma_FORMAT_scaled", if the card
  // says the same of both.
  std::optional<Mma> mma_scaling(const Format& a, const Format& b) const;
};

// Throws Failure, naming the card and the field, if the text is no card.
Machine parse_machine(std::string_view id, std::string_view text);
// All embedded cards, sorted by id.
const std::vector<Machine>& all_machines();
// Returns the card of that id, or nullptr.
const Machine* find_machine(std::string_view id);

}  // namespace plumb::bounds

#include <sstream>
#include <stdexcept>

#include "bounds/machine.hpp"
#include "number/outcome.hpp"

namespace plumb::bounds {
namespace {

// The words of a fact, one after the other.
class Words {
 public:
  explicit Words(const std::string& text) : in_(text) { next(); }
  bool take(const char* word) {
    if (word_ != word) return false;
    next();
    return true;
  }
  // "word N"
  bool take(const char* word, int& number) {
    if (!take(word)) return false;
    std::istringstream text(word_);
    if (!(text >> number) || !text.eof()) return false;
    next();
    return true;
  }
  bool ended() const { return word_.empty(); }

 private:
  void next() {
    word_.clear();
    in_ >> word_;
  }

  std::istringstream in_;
  std::string word_;
};

// Fills in what the words say; false if they are none of a unit's.
bool read_unit(const std::string& text, Mma& unit) {
  Words words(text);
  if (!words.take("terms", unit.terms)) return false;
  if (words.take("exact") || words.take("pairs")) {
    const bool pairs = text.find("pairs") != std::string::npos;
    unit.kind = pairs ? Mma::Kind::paired : Mma::Kind::exact;
    unit.kept = 23;
    return words.ended();
  }
  if (!words.take("grid", unit.grid)) return false;
  if (words.take("floor", unit.kept)) {
    unit.kind = Mma::Kind::floored;
    (void)words.take("groups", unit.groups);
    return words.ended();
  }
  if (!words.take("kept", unit.kept)) return false;
  if (int zero = 0; words.take("zero", zero)) unit.zero = zero;
  unit.nearest = words.take("nearest");
  (void)words.take("block", unit.block);
  return words.ended();
}

// The unit that a fact describes, or nothing. Throws Failure if it describes none.
std::optional<Mma> unit_of(const Machine& machine, const std::string& name, const Format& input,
                           const Format& sum) {
  const Fact* known = machine.fact(name);
  if (known == nullptr) return {};
  Mma unit{input, 0, 0, 0};
  unit.sum = sum;
  if (const Fact* after = machine.fact("promoted_after"))
    unit.promoted_after = std::stoi(after->value);
  // Of sums in FP16 arrangements are not derived: no such unit is described. Nor are AMD's: no unit.
  const Fact* steps = machine.fact("steps");
  unit.any_steps = steps != nullptr && steps->value == "any";
  if (unit.any_steps && !(sum == fp32)) return {};
  const bool scaled = name.ends_with("_scaled");
  try {
    if (read_unit(known->value, unit) && (unit.block > 0) == scaled) {
      unit.check();
      return unit;
    }
  } catch (const std::invalid_argument&) {
  }
  throw Failure("machine card '" + machine.id + "': " + name + " = '" + known->value +
                "'; expected e.g. 'terms 16 grid 25 kept 23" + (scaled ? " block 32'" : "'"));
}

std::string fact_name(const Format& input, const std::string& more) {
  return "mma_" + std::string(input.name) + more;
}

std::string of_sum(const Format& sum) { return sum == fp32 ? "" : "_to_" + std::string(sum.name); }

}  // namespace

std::optional<Mma> Machine::mma(const Format& input, const Format& sum) const {
  return unit_of(*this, fact_name(input, of_sum(sum)), input, sum);
}

std::optional<Mma> Machine::mma_of_two(const Format& a, const Format& b, const Format& sum) const {
  std::optional<Mma> unit = mma(a, sum);
  if (a == b || !unit) return unit;
  const Fact* second = fact(fact_name(b, of_sum(sum)));
  if (second == nullptr || a.bits > 8 || b.bits > 8) return {};
  if (fact(fact_name(a, of_sum(sum)))->value != second->value) return {};
  unit->second = b;
  return unit;
}

std::optional<Mma> Machine::mma_scaling(const Format& a, const Format& b) const {
  const Fact* first = fact(fact_name(a, "_scaled"));
  const Fact* second = fact(fact_name(b, "_scaled"));
  if (first == nullptr || second == nullptr || first->value != second->value) return {};
  std::optional<Mma> unit = unit_of(*this, first->name, a, fp32);
  if (!(a == b)) unit->second = b;
  return unit;
}

}  // namespace plumb::bounds

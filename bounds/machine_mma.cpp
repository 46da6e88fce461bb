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
  return words.ended();
}

}  // namespace

std::optional<Mma> Machine::mma(const Format& input, const Format& sum) const {
  const std::string to = sum == fp32 ? "" : "_to_" + std::string(sum.name);
  const Fact* known = fact("mma_" + std::string(input.name) + to);
  if (known == nullptr) return {};
  Mma unit{input, 0, 0, 0};
  unit.sum = sum;
  try {
    if (read_unit(known->value, unit)) {
      unit.check();
      return unit;
    }
  } catch (const std::invalid_argument&) {
  }
  throw Failure("machine card '" + id + "': " + known->name + " = '" + known->value +
                "'; expected e.g. 'terms 16 grid 25 kept 23'");
}

std::optional<Mma> Machine::mma_of_two(const Format& a, const Format& b, const Format& sum) const {
  std::optional<Mma> unit = mma(a, sum);
  const std::optional<Mma> second = mma(b, sum);
  if (a == b || !unit || !second) return a == b ? unit : std::nullopt;
  const std::string to = sum == fp32 ? "" : "_to_" + std::string(sum.name);
  const auto value = [&](const Format& f) {
    return fact("mma_" + std::string(f.name) + to)->value;
  };
  if (a.bits > 8 || b.bits > 8 || value(a) != value(b)) return {};
  unit->second = b;
  return unit;
}

}  // namespace plumb::bounds

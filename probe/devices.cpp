#include "probe/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "number/outcome.hpp"
#include "probe/tables.hpp"

namespace plumb::probe {
namespace {

class Drawing {
 public:
  explicit Drawing(unsigned seed) : random_(seed) {}

  int between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  bool coin() { return between(0, 1) == 1; }
  template <class T>
  T one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(between(0, static_cast<int>(all.size()) - 1))];
  }

 private:
  std::mt19937 random_;
};

Order drawn_order(Drawing& draw) {
  using Kind = Order::Kind;
  Order order;
  order.kind = draw.one_of<Kind>(
      {Kind::sequential, Kind::pairwise, Kind::blocked, Kind::split, Kind::interleaved});
  if (order.kind == Kind::blocked) order.block = static_cast<std::size_t>(draw.between(2, 160));
  if (order.kind == Kind::split) order.block = static_cast<std::size_t>(draw.between(2, 12));
  if (order.kind == Kind::interleaved) {
    order.block = static_cast<std::size_t>(draw.between(2, 32));
    order.join = static_cast<Order::Join>(draw.between(0, 2));
  }
  order.swapped = draw.between(0, 3) == 0;
  order.rounding = static_cast<Rounding>(draw.between(0, 3));
  return order;
}

Emulated drawn_unit(Drawing& draw, const Format& input) {
  Mma unit{input, draw.between(2, 32), draw.between(9, 30), 0};
  unit.kept = std::min(23, unit.grid + draw.between(-6, 2));
  Emulated device{.unit = unit};
  if (draw.between(0, 3) == 0) {
    device.unit->promoted_after = unit.terms * draw.one_of<int>({2, 4, 8});
  } else if (draw.between(0, 5) == 0) {
    device.parts = Order{Order::Kind::split, static_cast<std::size_t>(draw.between(2, 4))};
  }
  return device;
}

std::string unit_text(const Mma& unit) {
  return fmt::format("terms {} grid {} kept {}", unit.terms, unit.grid, unit.kept);
}

// The fact of the card; empty where it is silent.
std::string said(const Calibration& found, const std::string& name) {
  const Fact* fact = found.card.fact(name);
  return fact == nullptr ? "" : fact->value;
}

// Is the order that the card names the device's, for all lengths that it speaks of?
bool same_order(const std::string& text, const Order& hidden) {
  const auto order = parse_order(text);
  if (!order || order->up_to == 0) return false;
  for (std::size_t n = 1; n <= order->up_to; ++n) {
    if (!same(tree_of(*order, n), tree_of(hidden, n))) return false;
  }
  return true;
}

std::vector<std::string> other_orders(const std::string& text) {
  const Order order = *parse_order(text);
  std::vector<std::string> others;
  for (Order other : {Order{}, Order{Order::Kind::pairwise}, Order{Order::Kind::blocked, 16}}) {
    other.up_to = order.up_to;
    if (other.kind != order.kind) others.push_back(plumb::text_of(other));
  }
  return others;
}

std::vector<std::string> other_units(const std::string& text) {
  std::istringstream words(text);
  std::string terms, grid, kept;
  int t = 0, g = 0, k = 0;
  words >> terms >> t >> grid >> g >> kept >> k;
  const auto unit = [](int a, int b, int c) {
    return fmt::format("terms {} grid {} kept {}", a, b, c);
  };
  return {unit(t / 2 + 1, g, k), unit(t, g - 1, k), unit(t, g, k - 1)};
}

// A unit of other terms may not fit the interval of promotion.
bool is_card(const Machine& card) {
  try {
    for (const Format& format : all_formats) (void)card.mma(format);
    return true;
  } catch (const Failure&) {
    return false;
  }
}

// What could be said in a fact's place.
std::vector<std::string> others_than(const Fact& fact) {
  if (fact.name == "rounding" && fact.value == "nearest_even") return {"toward_zero", "away"};
  if (fact.name.starts_with("order_") && fact.value != "any") return other_orders(fact.value);
  if (fact.name.starts_with("mma_")) return other_units(fact.value);
  if (fact.name == "promoted_after") return {std::to_string(2 * std::stoi(fact.value))};
  if (fact.name == "subnormals") return {fact.value == "kept" ? "flushed" : "kept"};
  if (fact.name == "fma") return {fact.value == "any" ? "as_written" : "any"};
  return {};
}

HiddenDevice drawn_products(unsigned seed) {
  Drawing draw(seed);
  if (draw.between(0, 9) < 6) {
    const Format input = draw.one_of<Format>({fp32, fp32, tf32, bf16, fp16});
    return {{.order = drawn_order(draw), .fused = draw.coin(), .flushes = draw.coin()}, input};
  }
  const Format input = draw.one_of<Format>({fp16, bf16, tf32, e4m3fn, e5m2});
  return {drawn_unit(draw, input), input};
}

}  // namespace

std::string HiddenDevice::text() const {
  if (device.unit) {
    std::string text = unit_text(*device.unit);
    if (device.unit->promoted_after > 0) {
      text += fmt::format(", promoted after {}", device.unit->promoted_after);
    }
    return device.parts ? text + ", " + plumb::text_of(*device.parts) : text;
  }
  const auto other = [](const Emulated& sums) {
    return fmt::format("{} {}", plumb::text_of(sums.order), name_of(sums.order.rounding));
  };
  return fmt::format("{}, {}, {}, subnormals {}; columns {}; softmax {}",
                     plumb::text_of(device.order), name_of(device.order.rounding),
                     device.fused ? "fused" : "rounded twice", device.flushes ? "flushed" : "kept",
                     other(column_sum), other(softmax));
}

Subject products_of(const HiddenDevice& hidden) { return subject_of(hidden.device, hidden.input); }

Subject all_of(const HiddenDevice& hidden) {
  Subject subject = products_of(hidden);
  offer_emulated(subject, hidden.column_sum, hidden.softmax);
  return subject;
}

HiddenDevice drawn_device(unsigned seed) {
  HiddenDevice hidden = drawn_products(seed);
  Drawing draw(seed ^ 0x5eed5eedU);  // its own, so that the products of a seed stay what they are
  for (Emulated* sums : {&hidden.column_sum, &hidden.softmax}) {
    sums->order = drawn_order(draw);
    if (draw.between(0, 3) > 0) sums->order.rounding = hidden.device.order.rounding;
  }
  return hidden;
}

std::vector<Recovered> held_against(const HiddenDevice& hidden, const Calibration& found) {
  std::vector<Recovered> all;
  const auto add = [&](const std::string& fact, const std::string& is, const std::string& as) {
    all.push_back({fact, is, as, !as.empty() && as != is});
  };
  const Emulated& device = hidden.device;
  add("accumulator", device.unit ? "mma" : "fp32", said(found, "accumulator"));
  if (device.unit) {
    add("mma", unit_text(*device.unit), said(found, "mma_" + std::string(hidden.input.name)));
    const int after = device.unit->promoted_after;
    add("promoted_after", after > 0 ? std::to_string(after) : "", said(found, "promoted_after"));
    if (after == 0) all.pop_back();
    return all;
  }
  add("rounding", std::string(name_of(device.order.rounding)), said(found, "rounding"));
  std::string order = said(found, "order_gemm");
  if (order == "any") order = "";
  all.push_back({"order_gemm", plumb::text_of(device.order), order,
                 !order.empty() && !same_order(order, device.order)});
  add("subnormals", device.flushes ? "flushed" : "kept", said(found, "subnormals"));
  // Products of short numbers, and those that are added as they are, are rounded once in any case.
  const bool either = hidden.input != fp32 || device.order.kind == Order::Kind::pairwise;
  if (!either) add("fma", device.fused ? "as_written" : "any", said(found, "fma"));
  return all;
}

std::vector<Recovered> sums_held_against(const HiddenDevice& hidden, const Calibration& found) {
  std::vector<Recovered> all;
  const std::string rounding = said(found, "rounding");
  for (const auto& [name, sums] :
       {std::pair<std::string, const Emulated&>{"column_sum", hidden.column_sum},
        {"softmax", hidden.softmax}}) {
    const std::string order = said(found, "order_" + name);
    const bool right = order.empty() ||
                       (same_order(order, sums.order) && rounding == name_of(sums.order.rounding));
    all.push_back({"order_" + name,
                   fmt::format("{}, {}", plumb::text_of(sums.order), name_of(sums.order.rounding)),
                   order, !right});
  }
  return all;
}

std::vector<ChangedCard> with_one_fact_changed(const Machine& card) {
  std::vector<ChangedCard> all;
  for (std::size_t i = 0; i < card.facts.size(); ++i) {
    const Fact& fact = card.facts[i];
    for (const std::string& value : others_than(fact)) {
      ChangedCard other{fact.name + " = " + value, card};
      other.card.facts[i].value = value;
      if (is_card(other.card)) all.push_back(std::move(other));
    }
  }
  return all;
}

bool is_noticed(const Subject& subject, const Machine& card, std::size_t longest, unsigned seed) {
  const auto emulation = emulated_by(card, subject.input);
  const std::vector<Emulated> all(emulation ? 1 : 0, emulation.value_or(Emulated{}));
  Validation v = validate(subject, card, all, longest, 0, seed);
  validate_tables(subject, card, longest, seed, v);
  const auto seen = [](const HeldTables& held) {
    return held.outside > 0 || held.equal.value_or(1) < 1;
  };
  return v.outside > 0 || (emulation && v.equal < 1) || std::ranges::any_of(v.tables, seen);
}

}  // namespace plumb::probe

// Are fractions the numbers that per cent and thousandths were, bit by bit, and are older manifests read?
#include <gtest/gtest.h>

#include <cmath>

#include "model/spec/config.hpp"
#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::units_test {
namespace {

TEST(Units, AFractionIsTheNumberThatItsFormerUnitMade) {
  for (const Size& size : sizes()) {
    if (size.unit != Size::Unit::fraction) continue;
    for (int n = 0; n <= 1000; ++n) {
      const auto value = setting_from(size, std::to_string(n));
      if (!value) continue;  // beyond its range
      EXPECT_EQ(fraction(*value), n / static_cast<double>(size.formerly)) << size.name << " " << n;
      EXPECT_EQ(setting_from(size, text_of(size, *value)), value);
      // As whoever reads the text elsewhere would have it.
      EXPECT_EQ(fraction(*value), std::stod(text_of(size, *value)));
    }
  }
}

// The copies that an expert takes at most, as they were counted in per cent.
TEST(Units, ACapacityIsAsManyCopiesAsBefore) {
  Config c = config_of("gpt-moe");
  const Size& capacity = setting_named("capacity");
  for (int percent = 1; percent <= 300; ++percent) {
    c.capacity = setting_from(capacity, std::to_string(percent)).value();
    const int copies = c.tokens() * c.top_k * percent;
    EXPECT_EQ(c.most_copies(0),
              std::min((copies + 100 * c.experts - 1) / (100 * c.experts), c.tokens()));
  }
}

TEST(Units, TextsAreShortAndExact) {
  const Size& dropout = setting_named("dropout");
  EXPECT_EQ(setting_from(dropout, "0.1"), 100'000);
  EXPECT_EQ(setting_from(dropout, "10"), 100'000);
  EXPECT_EQ(text_of(dropout, 100'000), "0.1");
  EXPECT_EQ(text_of(setting_named("capacity"), 1'000'000), "1.0");
  EXPECT_EQ(text_of(setting_named("balance_bias"), 1'000), "0.001");
  EXPECT_EQ(text_of(setting_named("layers"), 4), "4");
  for (const char* text : {"", ".", "0.", ".5", "1.0", "-0.1", "0.1234567", "1e-1", "0.1x", "nan",
                           "100", "99999999999"}) {
    EXPECT_FALSE(setting_from(dropout, text)) << text;
  }
  EXPECT_FALSE(setting_from(setting_named("layers"), "4.0"));
}

// Manifests of before: per cent and thousandths, and flags as 1.
TEST(Units, OlderManifestsSayTheSame) {
  auto settings = settings_of(config_of("llama-moe"));
  settings.merge(std::map<std::string, std::string>{{"dropout", "10"},
                                                    {"label_smoothing", "5"},
                                                    {"weight_decay", "100"},
                                                    {"capacity", "110"},
                                                    {"balance_bias", "1"},
                                                    {"sinks", "1"},
                                                    {"mtp", "1"}});
  const Config c = config_from(settings);
  EXPECT_EQ(fraction(c.dropout), 0.1);
  EXPECT_EQ(fraction(c.label_smoothing), 0.05);
  EXPECT_EQ(fraction(c.weight_decay), 0.1);
  EXPECT_EQ(fraction(c.capacity), 1.1);
  EXPECT_EQ(fraction(c.balance_bias), 0.001);
  EXPECT_EQ(c.sinks + c.mtp, 2);
  const auto now = settings_of(c);
  EXPECT_EQ(now.at("dropout"), "0.1");
  EXPECT_EQ(now.at("capacity"), "1.1");
  EXPECT_EQ(in_present_units(settings), now);
  EXPECT_EQ(settings_of(config_from(now)), now);
  settings["dropout"] = "100";
  EXPECT_THROW((void)config_from(settings), Failure);
}

}  // namespace
}  // namespace plumb::units_test

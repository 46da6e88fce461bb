// Does every card of the program fit the schema that the page explains, and is a wrong one refused in
// one sentence?
#include "bounds/machine_card.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bounds/operation.hpp"
#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::machine_card_test {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::filesystem::path room = PLUMB_SOURCE_DIR "/bounds";

TEST(MachineCard, EveryCardOfTheProgramFitsTheSchema) {
  std::size_t cards = 0;
  for (const auto& entry : std::filesystem::directory_iterator(room / "machines")) {
    const std::string text = text_of(entry.path());
    EXPECT_EQ(wrong_with_card(text), "") << entry.path();
    const Machine machine = machine_from_card(entry.path().stem().string(), text);
    const Machine* known = find_machine(machine.id);
    ASSERT_NE(known, nullptr);
    EXPECT_EQ(machine.title, known->title);
    EXPECT_EQ(machine.facts.size(), known->facts.size());
    ++cards;
  }
  EXPECT_EQ(cards, all_machines().size());
}

// Operations that have several formulas are the ones whose facts the schema knows.
TEST(MachineCard, TheSchemaNamesTheFormulasOfEachOperation) {
  std::map<std::string, std::vector<std::string>> said, known;
  const auto schema = nlohmann::json::parse(text_of(room / "machine-card.schema.json"));
  for (const auto& form : schema["$defs"]["fact"]["anyOf"]) {
    const auto& fact = form["properties"];
    const auto name = fact["name"]["const"].get<std::string>();
    if (name.starts_with("form_")) said[name] = fact["value"]["enum"];
  }
  for (const Operation* operation : all_operations()) {
    if (operation->forms.size() == 0) continue;
    std::vector<std::string>& names = known["form_" + std::string(operation->id)];
    for (const Form& form : operation->forms) names.emplace_back(form.name);
    names.emplace_back("any");
  }
  EXPECT_EQ(said, known);
}

// Operations that say how long their sums are, and products, are those whose orders the schema knows.
TEST(MachineCard, TheSchemaNamesTheOrdersOfOperations) {
  std::set<std::string> said, known;
  const auto schema = nlohmann::json::parse(text_of(room / "machine-card.schema.json"));
  for (const auto& form : schema["$defs"]["fact"]["anyOf"]) {
    const auto name = form["properties"]["name"]["const"].get<std::string>();
    if (name.starts_with("order_")) said.insert(name);
  }
  for (const Operation* operation : all_operations()) {
    const bool has_one = operation->terms != nullptr || operation->traits.one_product;
    if (has_one) known.insert("order_" + std::string(operation->id));
  }
  EXPECT_EQ(said, known);
}

// A fact is a line of the schema and a row of the page.
TEST(MachineCard, ThePageHasARowForEachFact) {
  const std::string page = text_of(PLUMB_SOURCE_DIR "/docs/machine-cards.md");
  const auto schema = nlohmann::json::parse(text_of(room / "machine-card.schema.json"));
  for (const auto& form : schema["$defs"]["fact"]["anyOf"]) {
    const auto& fact = form["properties"];
    const auto name = fact["name"]["const"].get<std::string>();
    const std::string row = "\n| `" + name + "` |";
    bool unit = false;
    if (name.starts_with("mma_")) {
      std::string to;
      for (const char* more : {"_to_fp16", "_scaled"}) to = name.ends_with(more) ? more : to;
      const std::string format = name.substr(4, name.size() - 4 - to.size());
      unit = page.find("\n| `mma_FORMAT" + to + "` |") != page.npos &&
             page.find("`" + format + "`") != page.npos;
    }
    EXPECT_TRUE(unit || page.find(row) != page.npos) << name;
  }
}

std::string card_with(const std::string& fact, const std::string& more = "") {
  return R"({"title": "mine", "facts": [{"name": "accumulator", "value": "fp32",
             "provenance": "assumed", "source": "me"})" +
         fact + "]" + more + "}";
}
std::string fact(const std::string& name, const std::string& value) {
  return R"(, {"name": ")" + name + R"(", "value": ")" + value +
         R"(", "provenance": "measured", "source": "probe"})";
}

TEST(MachineCard, AWrongCardIsOneSentenceThatNamesTheField) {
  const std::string ring = R"("algorithm": "ring", "ranks": 4, "wire": "bf16",
                              "provenance": "assumed", "source": "me")";
  for (const auto& [text, sentence] :
       {std::pair<std::string, std::string>{"", "no JSON of a card"},
        {"[]", "it is []; expected an object"},
        {"{}", "it has no 'title'"},
        {R"({"title": "x", "facts": []})", "facts is []; expected a list of facts"},
        {R"({"title": 3, "facts": [1]})", "expected"},
        {R"({"title": "x", "facts": [1]})", "facts[0] is 1; expected an object"},
        {card_with(R"(, {"name": "order"})"), "facts[1] has no 'value'"},
        {card_with(fact("oder", "any")), "facts[1].name is 'oder'; expected one of accumulator"},
        {card_with(fact("order", "sometimes")),
         "facts[1] (order).value is 'sometimes'; expected any, sequential"},
        {card_with(fact("order", "blocked 0")), "'blocked 0'"},
        {card_with(fact("mma_bf16", "terms 16")), "expected e.g. 'terms 16 grid 25 kept 23'"},
        {card_with(fact("mma_bf16", "terms 999 grid 99 kept 99")), "expected e.g."},
        {card_with(fact("exp_ulp", "-1")), "a number of ulps"},
        {card_with(fact("accumulator", "fp32")), "say 'accumulator' twice"},
        {card_with("", R"(, "collectiv": {})"), "a field 'collectiv'; known: collective, facts"},
        {card_with("", R"(, "collective": {)" + ring + R"(, "rotation": 4})"), "choose 0 to 3"},
        {card_with("", R"(, "collective": {)" + ring + R"(, "rotaton": 4})"), "'rotaton'"},
        {std::string(70000, ' '), "longer than 65536 bytes"},
        {std::string(30000, '['), "no JSON of a card"},
        {R"({"title": "x", "facts": )" + std::string(20000, '[') + std::string(20000, ']') + "}",
         "no JSON of a card"}}) {
    try {
      (void)machine_from_card("mine.json", text);
      FAIL() << "was taken: " << text;
    } catch (const Failure& failure) {
      const std::string said = failure.what();
      EXPECT_NE(said.find(sentence), said.npos) << said;
      EXPECT_TRUE(said.starts_with("machine card 'mine.json': ")) << said;
      EXPECT_EQ(said.find('\n'), said.npos) << said;
    }
  }
}

TEST(MachineCard, ARightOneIsAMachine) {
  const Machine mine = machine_from_card(
      "mine.json", card_with(fact("order", "blocked 64") + fact("rounding", "toward_zero")));
  EXPECT_EQ(mine.id, "mine.json");
  EXPECT_EQ(mine.order()->block, 64U);
}

TEST(MachineCard, ProductsHaveAnOrderOfTheirOwnUpToALength) {
  const Machine mine = machine_from_card(
      "mine.json", card_with(fact("order", "any") + fact("order_gemm", "lanes 8 strided up to 96") +
                             fact("rounding", "nearest_even")));
  EXPECT_FALSE(mine.order());
  EXPECT_EQ(mine.product_order(96)->block, 8U);
  EXPECT_FALSE(mine.product_order(97));
  EXPECT_THROW((void)machine_from_card("mine.json", card_with(fact("order", "pairwise up to 96"))),
               Failure);
  const Machine other = machine_from_card("mine.json", card_with(fact("order", "pairwise")));
  EXPECT_EQ(other.product_order(97)->kind, Order::Kind::pairwise);
}

TEST(MachineCard, SumsOfAnOperationHaveAnOrderOfTheirOwnUpToALength) {
  const Machine mine = machine_from_card(
      "mine.json", card_with(fact("order", "pairwise") + fact("order_softmax", "any") +
                             fact("order_column_sum", "sequential up to 96")));
  EXPECT_FALSE(mine.order_of("softmax", 4));
  EXPECT_EQ(mine.order_of("column_sum", 96)->kind, Order::Kind::sequential);
  EXPECT_FALSE(mine.order_of("column_sum", 97));
  EXPECT_EQ(mine.order_of("log_sum_exp", 4)->kind, Order::Kind::pairwise);
}

// Cards that were measured and are committed beside their rows.
TEST(MachineCard, ThoseOfTheResultsAreCards) {
  std::size_t count = 0;
  const std::filesystem::path results = PLUMB_SOURCE_DIR "/experiments/results";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(results)) {
    if (entry.path().parent_path().filename() != "cards") continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NO_THROW((void)machine_from_card(entry.path().filename().string(), text));
    EXPECT_EQ(text.find("/tmp"), text.npos);
    ++count;
  }
  EXPECT_GE(count, 7U);
}

TEST(MachineCard, IsReadAgainFromItsText) {
  const Machine mine =
      machine_from_card("mine.json", card_with(fact("order_gemm", "split 4 up to 4096")));
  EXPECT_EQ(text_of(machine_from_card("mine.json", text_of(mine))), text_of(mine));
  EXPECT_EQ(wrong_with_card(text_of(*find_machine("h100"))), "");
  const Machine& ring = *find_machine("ieee-ring8");
  const Machine again = machine_from_card("again.json", text_of(ring));
  ASSERT_TRUE(again.collective && ring.collective);
  EXPECT_EQ(again.collective->algorithm, ring.collective->algorithm);
  EXPECT_EQ(again.collective->ranks, ring.collective->ranks);
  EXPECT_EQ(again.collective->rotation, ring.collective->rotation);
  EXPECT_EQ(again.collective->wire, ring.collective->wire);
  EXPECT_EQ(again.collective_source, ring.collective_source);
  EXPECT_EQ(again.collective_provenance, ring.collective_provenance);
}

}  // namespace
}  // namespace plumb::machine_card_test

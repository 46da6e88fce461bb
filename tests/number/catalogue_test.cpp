// Are cards found by their names, and is an unknown name answered?
#include "number/catalogue.hpp"

#include <gtest/gtest.h>

#include "tests/support/rooms.hpp"

namespace plumb::catalogue_test {
namespace {

struct Fruit {
  std::string_view name;
  int pips;
};
constexpr Fruit apple{"apple", 5}, cherry{"cherry", 1};
constexpr const Fruit* all[] = {&apple, &cherry};
constexpr Catalogue<Fruit> fruits("fruit", &Fruit::name, all);

TEST(ACatalogue, FindsCardsByTheirNames) {
  EXPECT_EQ(fruits.find("cherry"), &cherry);
  EXPECT_EQ(&fruits.at("apple"), &apple);
  EXPECT_EQ(fruits.find("cher"), nullptr);
  EXPECT_EQ(fruits.names(), (std::vector<std::string>{"apple", "cherry"})) << "in their order";
}

TEST(ACatalogue, AnswersAnUnknownName) {
  const auto answer = [](std::string_view name) -> std::string {
    try {
      fruits.at(name);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(answer("aple"), "unknown fruit 'aple'; did you mean apple?");
  EXPECT_EQ(answer("plum"), "unknown fruit 'plum'; known: apple, cherry");
}

}  // namespace
}  // namespace plumb::catalogue_test

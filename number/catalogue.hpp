// number/catalogue.hpp: cards of one kind, found by their names. The cards are listed once, in a
// file of lines MACRO(card) that is read twice: to declare them, and to list them.
// TESTED   tests/number/catalogue_test.cpp
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb {

template <class Card>
class Catalogue {
 public:
  // `kind` is said of a name that nobody knows; `name` is the member that names a card.
  constexpr Catalogue(std::string_view kind, std::string_view Card::*name,
                      std::span<const Card* const> cards)
      : kind_(kind), name_(name), cards_(cards) {}

  // In the order of the list.
  constexpr std::span<const Card* const> cards() const { return cards_; }

  // Returns the card of that name, or nullptr.
  const Card* find(std::string_view name) const {
    for (const Card* card : cards_) {
      if (card->*name_ == name) return card;
    }
    return nullptr;
  }

  // Throws Failure on an unknown name, with the one that was meant or with all.
  const Card& at(std::string_view name) const {
    if (const Card* card = find(name)) return *card;
    throw Failure(unknown(kind_, name, names()));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Card* card : cards_) all.emplace_back(card->*name_);
    return all;
  }

 private:
  std::string_view kind_;
  std::string_view Card::*name_;
  std::span<const Card* const> cards_;
};

}  // namespace plumb

#include "injectors/bug.hpp"
#include "number/catalogue.hpp"

namespace plumb::injectors {

#define BUG(name) extern const Bug name;
#include "injectors/bugs.inc"
#undef BUG

namespace {
const Catalogue<Bug>& catalogue() {
  static constexpr const Bug* cards[] = {
#define BUG(name) &name,
#include "injectors/bugs.inc"
#undef BUG
  };
  static constexpr Catalogue<Bug> all("bug", &Bug::id, cards);
  return all;
}
}  // namespace

std::string first_main_grad(const Config& config) {
  const bool on_both_ends = config.tied() || config.mtp > 0;
  return on_both_ends ? "embedding.lookup/main_grad" : "embedding.weight/main_grad";
}

std::span<const Bug* const> all_bugs() { return catalogue().cards(); }
std::string_view name_of(Match match) {
  constexpr std::string_view names[] = {"confirmed", "likely", "guess"};
  return names[static_cast<std::size_t>(match)];
}
const Bug& find_bug(std::string_view id) { return catalogue().at(id); }

}  // namespace plumb::injectors

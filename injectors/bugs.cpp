#include <array>

#include "injectors/bug.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::injectors {

#define BUG(name) extern const Bug name;
#include "injectors/bugs.inc"
#undef BUG

std::span<const Bug* const> all_bugs() {
  static constexpr std::array bugs{
#define BUG(name) &name,
#include "injectors/bugs.inc"
#undef BUG
  };
  return bugs;
}

const Bug& find_bug(std::string_view id) {
  std::vector<std::string> known;
  for (const Bug* bug : all_bugs()) {
    if (bug->id == id) return *bug;
    known.emplace_back(bug->id);
  }
  throw Failure(unknown("bug", id, known));
}

}  // namespace plumb::injectors

#include "experiments/dealing.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "number/philox.hpp"

namespace plumb::experiments {

std::vector<std::vector<std::string>> dealt(
    const std::map<std::string, std::vector<std::string>>& groups, int ranks) {
  std::vector<std::pair<std::string, std::vector<std::string>>> left(groups.begin(), groups.end());
  std::ranges::sort(left, {}, [](const auto& group) {
    return std::tuple(-static_cast<double>(group.second.size()), key_of(0, group.first),
                      group.first);
  });
  std::vector<std::vector<std::string>> own(static_cast<std::size_t>(ranks));
  std::vector<std::size_t> load(own.size());
  for (const auto& [name, keys] : left) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
    load[least] += keys.size() + 1;
    own[least].insert(own[least].end(), keys.begin(), keys.end());
  }
  return own;
}

}  // namespace plumb::experiments

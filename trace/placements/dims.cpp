#include "trace/placements/dims.hpp"

#include <sstream>

namespace plumb::trace {
namespace {

// "cp:zigzag" as a split of a dimension; "dp:replicated" as one of the whole tensor.
Outcome<Split> split_from(const std::string& word, const Mesh& mesh) {
  const std::size_t colon = word.find(':');
  const std::string name = word.substr(0, colon);
  const std::string how = colon == word.npos ? "" : word.substr(colon + 1);
  const auto axis = mesh.find(name);
  if (!axis) return no("no axis '" + name + "' in the mesh (" + mesh.names() + ")");
  Split split{*axis};
  if (how == "replicated") return split;
  split.kind = how == "partial" ? Split::Kind::partial : Split::Kind::shard;
  split.zigzag = how == "zigzag";
  const bool plain = how.empty() || how == "sharded" || how == "natural";
  if (plain || split.zigzag || split.kind == Split::Kind::partial) return split;
  return no("'" + how + "' of axis '" + name +
            "'; expected zigzag, sharded, natural, replicated or partial");
}

// Adds the splits of a list with commas, all of dimension `dim`.
Outcome<Sharding> list_from(const std::string& list, std::size_t dim, const Mesh& mesh) {
  Sharding sharding;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    Outcome<Split> split = split_from(word, mesh);
    if (!split) return split.error();
    sharding.push_back(*split);
    sharding.back().dim = sharding.back().kind == Split::Kind::shard ? dim : 0;
  }
  return sharding;
}

}  // namespace

Outcome<Sharding> sharding_from_dims(const std::string& text, std::size_t dimensions,
                                     const Mesh& mesh) {
  Sharding sharding;
  std::istringstream words(text);
  std::size_t dim = 0;
  bool of_all = false;  // behind #
  for (std::string word; words >> word;) {
    if (word == "#") {
      of_all = true;
      continue;
    }
    const std::size_t open = of_all ? word.npos : word.find('[');
    if (open != word.npos && (word.back() != ']' || word.size() < open + 3)) {
      return no("'" + word + "', whose bracket is empty or has no end (and no blanks in it)");
    }
    const std::string list = of_all              ? word
                             : open == word.npos ? ""
                                                 : word.substr(open + 1, word.size() - open - 2);
    const Outcome<Sharding> more = list_from(list, dim, mesh);
    if (!more) return more.error();
    for (const Split& split : *more) {
      if (of_all && split.kind == Split::Kind::shard) {
        return no("'" + word + "' behind #; expected AXIS:replicated or AXIS:partial");
      }
      sharding.push_back(split);
    }
    if (!of_all) ++dim;
  }
  if (dim == dimensions) return sharding;
  return no("'" + text + "' for a tensor of " + std::to_string(dimensions) + " dimensions");
}

}  // namespace plumb::trace

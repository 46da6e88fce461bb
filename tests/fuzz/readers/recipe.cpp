// A recipe that somebody wrote.
#include "model/spec/recipe.hpp"
#include "tests/fuzz/reader.hpp"

namespace plumb::fuzz::recipe_reader {
namespace {

const Reader recipe("recipe", [](Bytes bytes) {
  (void)model::described(model::recipe_from_json(std::string(bytes), "recipe"));
});

}  // namespace
}  // namespace plumb::fuzz::recipe_reader

// The settings of a run, as the manifest of its trace says them.
#include "model/spec/manifest.hpp"
#include "tests/fuzz/reader.hpp"
#include "trace/store/json.hpp"

namespace plumb::fuzz::settings_reader {
namespace {

void read(Bytes bytes) {
  trace::Manifest manifest;
  const auto said = trace::parsed(std::string(bytes), "manifest");
  for (const auto& [name, value] : said.items()) {
    if (value.is_string()) manifest.settings[name] = value.get<std::string>();
  }
  const model::Training run = model::run_from(manifest);
  model::check_layout(run.layout, run.config);
  model::check_recipe(run.recipe, run.layout, run.config);
  (void)model::run_from(model::manifest_of(run));
}

const Reader settings("settings", read);

}  // namespace
}  // namespace plumb::fuzz::settings_reader

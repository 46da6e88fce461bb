#include <fmt/format.h>

#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/verbs.hpp"
#include "experiments/experiment.hpp"

namespace plumb::cli {
namespace {

void print_json() {
  nlohmann::json all = nlohmann::json::array();
  for (const Experiment* e : all_experiments()) {
    all.push_back({{"name", e->name},
                   {"question", e->question},
                   {"columns", e->columns},
                   {"keys", e->keys},
                   {"trained_states", e->trained_states}});
  }
  print_document("plumb-experiments/1", {{"experiments", all}});
}

}  // namespace

void list_experiments(bool as_json) {
  if (as_json) return print_json();
  std::vector<std::vector<std::string>> rows;
  for (const Experiment* e : all_experiments()) {
    rows.push_back({std::string(e->name), std::string(e->question)});
  }
  fmt::print("{}", in_columns({{}, {}}, rows));
}

}  // namespace plumb::cli

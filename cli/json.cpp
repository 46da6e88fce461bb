#include "cli/json.hpp"

#include <fmt/format.h>

#include "trace/report/report.hpp"

namespace plumb::cli {

using nlohmann::json;

void add_json(CLI::App& verb, bool& asked) {
  verb.add_flag("--json", asked, "print a JSON document instead of text");
}

void print_document(const std::string& schema, json fields) {
  fields["schema"] = schema;
  // Names from files may be no UTF-8, which would end the program.
  fmt::print("{}\n", fields.dump(1, ' ', false, json::error_handler_t::replace));
}

json json_of(const std::vector<Finding>& findings) {
  json all = json::array();
  for (const Finding& f : findings) all.push_back(json::parse(json_line("finding", f)));
  return all;
}

}  // namespace plumb::cli

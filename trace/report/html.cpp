#include "trace/report/html.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "trace/store/json.hpp"

namespace plumb::trace {

std::string_view report_page();  // embedded

namespace {

using nlohmann::json;

json numbers(const std::vector<double>& all) {
  json list = json::array();
  for (const double x : all) list.push_back(number_or_null(x));
  return list;
}

json of_finding(const Finding& f) {
  json j = json::parse(json_line("finding", f));
  if (f.profile.rows == 0) return j;
  j["rows"] = f.profile.rows;
  j["columns"] = f.profile.columns;
  j["tolerated"] = f.profile.tolerated;
  j["along_rows"] = numbers(f.profile.along_rows);
  j["along_columns"] = numbers(f.profile.along_columns);
  return j;
}

json of_step(const StepVerdict& step) {
  const Verdict& v = step.verdict;
  json tensors = json::array(), findings = json::array();
  for (const Line& l : v.lines) {
    tensors.push_back({l.id, l.statistic, number_or_null(l.ratio), number_or_null(l.relative),
                       l.p ? json(*l.p) : json(), number_or_null(l.largest)});
  }
  for (const Finding& f : v.findings) findings.push_back(of_finding(f));
  return {{"step", step.step},        {"headline", headline(v)},  {"exit_code", v.exit_code()},
          {"blamed", v.blamed},       {"blamed_by", v.blamed_by}, {"notes", v.notes},
          {"remarks", remarks_of(v)}, {"tensors", tensors},       {"findings", findings}};
}

// In a page "</" could end the element that the text stands in.
std::string within_a_page(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

}  // namespace

std::string html_report(const std::vector<StepVerdict>& steps) {
  json data{{"schema", "plumb-page/1"}, {"steps", json::array()}};
  for (const StepVerdict& step : steps) data["steps"].push_back(of_step(step));
  const std::string_view page = report_page(), mark = "@DATA@";
  const std::size_t at = page.find(mark);
  return std::string(page.substr(0, at)) + within_a_page(data.dump()) +
         std::string(page.substr(at + mark.size()));
}

}  // namespace plumb::trace

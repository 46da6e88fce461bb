// trace/report/html.hpp: a verdict as one page to look at: no network, no other file.
//
// It has the module tree, a map of layers (or of steps) by tensor, the tensors to filter and sort,
// and of each finding where in the tensor it is wrong. trace/report/page.html is the page; the
// verdict stands in it as JSON.
//
// TESTED   tests/cli/reports_test.cpp, in headless Chromium where that is installed
#pragma once

#include <string>
#include <vector>

#include "trace/report/report.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

std::string html_report(const std::vector<StepVerdict>& steps);

}  // namespace plumb::trace

// trace/report/tables.hpp: a verdict as tables of other programs.
//
//   csv        a row for each tensor: step, id, statistic, ratio, relative difference (also as SQNR,
//              in decibels), largest difference, p, finding
//   junit      JUnit's XML, which CI servers read: a test case for each tensor, a failure for each
//              finding, skipped what was not judged or is undecided
//   markdown   the verdict, its findings and the worst tensors
//
// TESTED   tests/trace/tables_test.cpp, tests/cli/reports_test.cpp
#pragma once

#include <string>
#include <vector>

#include "trace/report/report.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

std::string csv_report(const std::vector<StepVerdict>& steps);
std::string junit_report(const std::vector<StepVerdict>& steps);
std::string markdown_report(const std::vector<StepVerdict>& steps);

}  // namespace plumb::trace

// trace/report/report.hpp: a verdict for people (text) and for programs (JSON lines).
//
// TESTED   tests/cli/verbs_test.cpp
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trace/check.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// One step of a run; 0: the run has one.
struct StepVerdict {
  int step = 0;
  Verdict verdict;
};

// Returns PASS, FAIL or INCONCLUSIVE, in a line without its end.
std::string headline(const Verdict& verdict);
// Returns verdict, blame, the `worst` tensors in as many lines, and what could have been missed.
std::string text_report(const Verdict& verdict, std::size_t worst = 10);
// Returns what a reader should know beyond findings, a sentence each: the power of the twins, what
// was followed, undecided or not judged.
std::vector<std::string> remarks_of(const Verdict& verdict);
// Returns one object a line: a summary, each finding, each judged tensor.
std::string json_lines(const Verdict& verdict);
// Returns the line that says to which step those after it belong; nothing for 0.
std::string step_line(int step);
// Returns the fields that a finding has, as one object without the line's end.
std::string json_line(const char* type, const Finding& finding);
// Returns a ratio for people: three digits, or "exact" where one bit was too much.
std::string ratio_text(double ratio);
// Throws Failure on a suffix that write_report does not know and on a place that cannot be written:
// asked before hours of computing.
// A link is refused, and so is a file that is no report, unless `over_others`.
void check_report(const std::filesystem::path& file, bool over_others = false);
// Writes the form that the suffix asks for: .html, .jsonl, .txt, .md, .csv or .xml (JUnit). Throws
// Failure on another suffix or a file that cannot be written.
// The file is the old one or the new one at any time.
void write_report(const std::vector<StepVerdict>& steps, const std::string& file,
                  bool over_others = false);

}  // namespace plumb::trace

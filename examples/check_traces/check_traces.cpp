// check_traces REFERENCE CANDIDATE: the verdict on two traces, from C++.
//
// `plumb check` does more: it also holds a trace against what its own settings promise.
#include <cstdio>

#include "number/outcome.hpp"
#include "trace/check.hpp"
#include "trace/report/report.hpp"
#include "trace/store/store.hpp"

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "say two folders: check_traces REFERENCE CANDIDATE\n");
    return 2;
  }
  try {
    const plumb::trace::Trace reference = plumb::trace::read_trace(words[1]);
    const plumb::trace::Trace candidate = plumb::trace::read_trace(words[2]);
    const plumb::trace::Verdict verdict = plumb::trace::check(reference, candidate, {});
    std::fputs(plumb::trace::text_report(verdict).c_str(), stdout);
    return verdict.exit_code();
  } catch (const plumb::Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 2;
  }
}

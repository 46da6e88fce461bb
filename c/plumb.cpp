#include "c/plumb.h"

#include <exception>
#include <map>
#include <new>
#include <string>

#include "bounds/check_call.hpp"
#include "bounds/operation.hpp"
#include "c/call.hpp"
#include "c/environment.hpp"
#include "c/result.hpp"
#include "c/signature.hpp"
#include "number/outcome.hpp"

namespace plumb::c {
namespace {

// The sentence of the last failure of this thread.
std::string& last_error() {
  thread_local std::string sentence;
  return sentence;
}

// Runs it, and turns every exception into a sentence.
template <class F>
int guarded(const F& run) noexcept {
  try {
    last_error().clear();
    const DefaultArithmetic scope;
    return run();
  } catch (const std::bad_alloc&) {
    last_error() = "no memory left";  // short: needs none
  } catch (const std::exception& failure) {
    const std::string said = failure.what();
    last_error() = said.substr(0, said.find('\n'));
  } catch (...) {
    last_error() = "failed without saying why; please report it";
  }
  return PLUMB_TROUBLE;
}

int judged(const plumb_call* call, plumb_result* result, bool bounds_only) {
  if (result != nullptr) *result = {};
  const int code = guarded([&]() -> int {
    const Asked asked(call, bounds_only);
    const JudgedTensors found = judge_tensors(asked.options());
    const int verdict = bounds_only ? PLUMB_PASS : found.exit_code();
    if (result != nullptr) tell(found, asked, verdict, *result);
    return verdict;
  });
  if (code == PLUMB_TROUBLE && result != nullptr) {
    guarded([&, why = last_error()]() -> int {
      tell(why, *result);
      last_error() = why;
      return code;
    });
    result->code = code;
  }
  return code;
}

}  // namespace
}  // namespace plumb::c

using namespace plumb;
using namespace plumb::c;

int plumb_judge(const plumb_call* call, plumb_result* result) {
  return judged(call, result, false);
}

int plumb_bound(const plumb_call* call, plumb_result* result) { return judged(call, result, true); }

int plumb_shape(const plumb_call* call, size_t output, size_t* rows, size_t* columns) {
  return guarded([&]() -> int {
    const auto shape = shape_of_output(Asked(call, true).options(), output);
    if (!shape) return PLUMB_NOTHING;
    if (rows != nullptr) *rows = shape->rows;
    if (columns != nullptr) *columns = shape->cols;
    return PLUMB_PASS;
  });
}

void plumb_free(plumb_result* result) {
  if (result != nullptr) free_of(*result);
}

const char* plumb_last_error(void) { return last_error().c_str(); }

unsigned plumb_abi(void) { return PLUMB_ABI; }

const char* plumb_version(void) { return PLUMB_VERSION; }

const char* plumb_operation(size_t number) {
  const auto all = all_operations();
  return number < all.size() ? all[number]->id.data() : nullptr;  // a literal: it has an end
}

const char* plumb_signature(const char* operation) {
  const char* signature = nullptr;
  guarded([&] {
    static const std::map<std::string, std::string, std::less<>> signatures = [] {
      std::map<std::string, std::string, std::less<>> all;
      for (const Operation* each : all_operations()) {
        all.emplace(each->id, signature_of(*each));
      }
      return all;
    }();
    const Operation& known = known_operation(text_or(operation, ""));
    signature = signatures.find(known.id)->second.c_str();
    return PLUMB_PASS;
  });
  return signature;
}

const char* plumb_machine(size_t number) {
  const auto& all = all_machines();
  return number < all.size() ? all[number].id.c_str() : nullptr;
}

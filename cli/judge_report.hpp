// cli/judge_report.hpp: what plumb judge found, for people and as JSON.
//
// TESTED   tests/cli/judge_test.cpp, tests/cli/json_test.cpp
#pragma once

#include <nlohmann/json.hpp>

#include "cli/sees.hpp"
#include "trace/judge/judge.hpp"

namespace plumb::cli {

void tell(const JudgedTensors& judged, const JudgeOptions& asked);
nlohmann::json json_of(const JudgedTensors& judged, const JudgeOptions& asked);

}  // namespace plumb::cli

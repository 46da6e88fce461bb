// probe/outside.hpp: subjects that are not part of the program.
//
//   a shared library   that offers probe/plug_in.h
//   a command          called as COMMAND IN OUT, two files of the safetensors format. IN has a.0, b.0,
//                      a.1, b.1 ...: F32, (m, k) and (k, n). The command writes OUT with c.0, c.1 ...,
//                      (m, n), of any type that judge reads. Its exit code is 0. Another IN has
//                      x.exp, x.log ... x.cast_bf16 ... and x.divide, y.divide, (1, n); OUT then has
//                      f.exp ... (1, n), of the functions that there are. Another has tables (m, n),
//                      x.column_sum.0, x.column_sum.1 ..., x.row_sum.0 ... or x.softmax.0 ...; OUT then
//                      has f.column_sum.0 (n, 1) ..., f.row_sum.0 (m, 1), f.softmax.0 (m, n).
//
// REFUSES  with one sentence: a library that cannot be opened or says another version, a format that
//          does not exist; a command that fails, and results that are missing or of another shape
// TESTED   tests/probe/outside_test.cpp, tests/cli/calibrate_test.cpp
#pragma once

#include <filesystem>
#include <string>

#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

Subject subject_in_library(const std::filesystem::path& file);
// `words`: a command of a shell, to which the two files are added; or, if it stays, one that is started
// once and told them by lines (probe/command.hpp).
Subject subject_of_command(const std::string& words, const Format& input, bool stays = false);

}  // namespace plumb::probe

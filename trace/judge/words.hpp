// trace/judge/words.hpp: what a sentence calls the things that it asks a caller to mend: options of a
// command line, or fields of a call.
//
// TESTED   tests/cli/judge_files_test.cpp, tests/c/calls_test.cpp
#pragma once

#include <string>
#include <string_view>

#include "trace/sees.hpp"

namespace plumb::trace {

struct Words {
  std::string_view attributes, one_attribute, inputs, machine, mode, rows;
  std::string_view format, formats;       // that of the outputs; those of inputs and outputs
  std::string_view nowhere, all_of_them;  // of tensors: none of them is; they are
  std::string_view left_out;              // of an output: why it is not judged
  std::string_view any_name, name_it;     // how a tensor gets a name; the name {0}
};

// Of `plumb judge`.
inline constexpr Words words_of_options{
    .attributes = "--set",
    .one_attribute = "--set ",
    .inputs = "--inputs",
    .machine = "--machine",
    .mode = "--mode",
    .rows = "--rows",
    .format = "--format",
    .formats = "--format and --recipe",
    .nowhere = "no file has",
    .all_of_them = "the files",
    .left_out = "is in no file",
    .any_name = "say which it is with --name",
    .name_it = "say which it is: --name {0}=TENSOR",
};

// Of a call whose tensors are in memory.
inline constexpr Words words_of_a_call{
    .attributes = "the attributes",
    .one_attribute = "attribute ",
    .inputs = "the inputs",
    .machine = "the machine",
    .mode = "the mode",
    .rows = "rows",
    .format = "the call's format",
    .formats = "the call's format and input_format",
    .nowhere = "no tensor is",
    .all_of_them = "the call",
    .left_out = "was not given",
    .any_name = "name it as the one that it is",
    .name_it = "give it, or name it '{0}'",
};

}  // namespace plumb::trace

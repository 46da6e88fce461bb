// cli/stop.hpp: what happens when the program is asked to stop.
#pragma once

#include <filesystem>

#include "cli/sees.hpp"

namespace plumb::cli {

// From now on SIGINT, SIGTERM and SIGHUP remove what the process has not finished, say so in one sentence, and end it
// with 128 + the signal's number. To be called before any thread is started.
void remove_unfinished_when_stopped();

// From now on such a stop is without a word: another process of the job says how it ended.
void say_nothing_when_stopped();

// Names what stopped processes left beside a file or folder that is about to be written.
void name_what_was_left(const std::filesystem::path& beside);

}  // namespace plumb::cli

// trace/store/read_file.hpp: the whole content of a file that somebody names. Never waits: pipes, devices and files of
// the kernel, which say that they are empty and may have no end, are refused before they are opened.
// TESTED   tests/trace/unfinished_test.cpp
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "number/outcome.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Refuses with what is wrong, to stand after the file's name: "is a folder", "may not be read
// (Permission denied)".
Outcome<std::string> read_file(const std::filesystem::path& file, std::uintmax_t longest);

// Throws Failure if a folder on the way to it, or it itself, may not be looked at.
void refuse_unreadable(const std::filesystem::path& path);

}  // namespace plumb::trace

// cli/build.hpp: of what this program was built.
#pragma once

#include <string>
#include <string_view>

#include "cli/sees.hpp"

namespace plumb::cli {

// As git describes it, with -dirty where the tree differed; "unknown" outside a repository.
std::string_view build_commit();
// The processor, as it calls itself.
std::string device_name();
// For --version: version, commit, libraries found, backends that run here.
std::string build_text();

}  // namespace plumb::cli

#include "cli/verbs.hpp"
namespace plumb { void add_bound(CLI::App&, Verb&) {} }

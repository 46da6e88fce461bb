// trace/store/json.hpp: the JSON of a trace. It is untrusted: its fields must be those that were
// asked for; it nests at most 32 deep; no object says a name twice; and its words may be printed, so
// they hold no control characters.
//
// TESTED   tests/trace/store_test.cpp, tests/fuzz/corpus_test.cpp
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "number/outcome.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Throws Failure: "FILE what; the trace is damaged ...".
[[noreturn]] void damaged(const std::filesystem::path& file, const std::string& what);

// "FILE what; plumb reads ...": a sound file of another program.
[[noreturn]] void unsupported(const std::filesystem::path& file, const std::string& what);

// Does the text hold control characters, which a terminal that prints it would obey?
bool steers_a_terminal(const std::string& text);

// Refuses with what is wrong with a text that is no JSON object, to stand after the file's name.
Outcome<nlohmann::json> object_in(const std::string& text);

// Throws Failure unless `text` is a JSON object; `file` is where it stands.
nlohmann::json parsed(const std::string& text, const std::filesystem::path& file);

// Throws Failure unless the file holds one, of at most 256 MB.
nlohmann::json read_json(const std::filesystem::path& file);

// Throws nlohmann::json::exception unless the value is a whole number from 0 to `most`: neither cut
// (4.5) nor wrapped around (2^32 + 4).
std::uint64_t whole_number(const nlohmann::json& value, std::uint64_t most);

// JSON has no infinity and no NaN: they become null.
nlohmann::json number_or_null(double x);

}  // namespace plumb::trace

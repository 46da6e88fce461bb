// tests/support/traces.hpp: traces of version 2 as other programs write them, made without any code of
// the project.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/tensors.hpp"

namespace plumb {

// A tensor of one rank, and what is said of it.
struct Told {
  Written tensor;
  nlohmann::json says = nlohmann::json::object();
};

// A file of tensors whose `metadata` has an object under each name.
inline std::string told_file(const std::vector<Written>& tensors, const nlohmann::json& metadata) {
  nlohmann::json header = nlohmann::json::object();
  std::string values;
  for (const Written& t : tensors) {
    header[t.name] = {{"dtype", t.dtype},
                      {"shape", t.shape},
                      {"data_offsets", {values.size(), values.size() + t.bytes.size()}}};
    values += t.bytes;
  }
  for (const auto& [name, says] : metadata.items()) header["__metadata__"][name] = says.dump();
  std::string text = header.dump();
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');  // as our writers have it
  return with_header(text, values);
}

inline std::string rank_file(const std::vector<Told>& tensors) {
  std::vector<Written> written;
  nlohmann::json metadata = nlohmann::json::object();
  for (const auto& [t, says] : tensors) {
    written.push_back(t);
    metadata[t.name] = says;
  }
  return told_file(written, metadata);
}

inline nlohmann::json manifest2(std::size_t ranks) {
  return {{"schema", "plumb-trace/2"},
          {"producer", {{"name", "other"}, {"version", "1.0"}}},
          {"ranks", ranks},
          {"steps", {1}},
          {"must_agree", {{"model", "mine"}}}};
}

inline std::filesystem::path rank_path(const std::filesystem::path& run, std::size_t rank,
                                       int step = 1) {
  char name[64];
  std::snprintf(name, sizeof name, "step_%06d/rank_%05d.safetensors", step, static_cast<int>(rank));
  return run / name;
}

inline void write_trace2(const std::filesystem::path& run, const nlohmann::json& manifest,
                         const std::vector<std::vector<Told>>& ranks, int step = 1) {
  std::filesystem::create_directories(rank_path(run, 0, step).parent_path());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    write_bytes(rank_path(run, rank, step), rank_file(ranks[rank]));
  }
  write_bytes(run / "manifest.json", manifest.dump(1));
}

}  // namespace plumb

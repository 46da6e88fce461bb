// plumb_trace.hpp: writes traces that `plumb` checks (docs/trace-format.md), from any program in
// C++17. The standard library alone; copy this file where you need it.
//
//   plumb_trace::write_manifest("run", {"my-trainer", 2, {1}, {{"dp", 1}, {"tp", 2}}, {{"model", "x"}}});
//   plumb_trace::RankFile file;
//   file.add("layers.0/out", "F32", {2, 8}, data,
//            plumb_trace::Says().shape({4, 8}).shard("tp", 0).replicate("dp").order(3));
//   file.write("run", 1, rank);
//
// SHAPES   `held` is what this rank has, row after row, little-endian; shape() that of the whole
// ERRORS   std::invalid_argument on a type that safetensors does not know, std::runtime_error where
//          a file cannot be written. A file is there whole, or not at all, also after a crash: it
//          is synced before it gets its name, and the name behind that (where there is POSIX)
// COSTS    a sync a file; the values are copied once; each rank writes its own file, without a word to the others
// TESTED   tests/c/trace_writer_test.cpp
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#define PLUMB_TRACE_POSIX
#endif

namespace plumb_trace {

using Shape = std::vector<std::uint64_t>;
using Texts = std::vector<std::pair<std::string, std::string>>;

inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      out += escaped;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

template <class Items, class Words>
std::string joined(const Items& items, Words&& words) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ", ") + words(item);
  return out;
}

inline std::string list(const Shape& numbers) {
  return "[" + joined(numbers, [](std::uint64_t n) { return std::to_string(n); }) + "]";
}

inline std::string object(const Texts& texts) {
  return "{" +
         joined(texts, [](const auto& t) { return quoted(t.first) + ": " + quoted(t.second); }) +
         "}";
}

inline std::uint64_t width_of(const std::string& type) {
  static const std::vector<std::pair<const char*, std::uint64_t>> widths{
      {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"F8_E8M0", 1}, {"I8", 1},  {"I16", 2}, {"I32", 4},  {"I64", 8},     {"U8", 1},
      {"U16", 2},     {"U32", 4}, {"U64", 8}, {"BOOL", 1}};
  for (const auto& [name, width] : widths) {
    if (type == name) return width;
  }
  throw std::invalid_argument("no type of safetensors is called '" + type + "'");
}

// Brings a file, or the names in a folder, to the disk; nothing where there is no POSIX.
inline void sync(const std::filesystem::path& path) {
#ifdef PLUMB_TRACE_POSIX
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && (fsync(file) == 0 || errno == EINVAL);  // EINVAL: it syncs none
  if (file >= 0) close(file);
  if (!synced) throw std::runtime_error("cannot sync " + path.string());
#else
  (void)path;
#endif
}

inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

inline void write_whole(const std::filesystem::path& file, const std::string& content) {
  const std::filesystem::path partial = file.string() + ".partial";
  std::ofstream out(partial, std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + partial.string());
  sync(partial);
  std::filesystem::rename(partial, file);
  sync(folder_of(file));
}

inline void make_folders(const std::filesystem::path& folder) {
  if (folder.empty() || std::filesystem::is_directory(folder)) return;
  make_folders(folder.parent_path());
  std::filesystem::create_directory(folder);
  sync(folder_of(folder));
}

struct Manifest {
  std::string producer;
  int ranks = 1;
  std::vector<std::uint64_t> steps;
  std::vector<std::pair<std::string, int>> mesh;  // axes and sizes, the last changes fastest
  Texts must_agree, may_differ;
  std::string version;
};

// By one process, before or after the ranks write.
inline void write_manifest(const std::filesystem::path& folder, const Manifest& m) {
  const auto axis = [](const auto& a) {
    return "{\"axis\": " + quoted(a.first) + ", \"size\": " + std::to_string(a.second) + "}";
  };
  std::string producer = "{\"name\": " + quoted(m.producer);
  if (!m.version.empty()) producer += ", \"version\": " + quoted(m.version);
  std::string text = "{\n \"schema\": \"plumb-trace/2\",\n \"producer\": " + producer +
                     "},\n \"ranks\": " + std::to_string(m.ranks) +
                     ",\n \"steps\": " + list(m.steps);
  if (!m.mesh.empty()) text += ",\n \"mesh\": [" + joined(m.mesh, axis) + "]";
  text += ",\n \"must_agree\": " + object(m.must_agree);
  if (!m.may_differ.empty()) text += ",\n \"may_differ\": " + object(m.may_differ);
  make_folders(folder);
  write_whole(folder / "manifest.json", text + "\n}\n");
}

// What is said of a tensor; docs/trace-format.md has all fields.
class Says {
 public:
  // Any field, its value as JSON.
  Says& field(const std::string& name, const std::string& json) {
    fields_ += (fields_.empty() ? "" : ", ") + quoted(name) + ": " + json;
    return *this;
  }
  Says& shape(const Shape& whole) { return field("shape", list(whole)); }
  Says& id(const std::string& text) { return field("id", quoted(text)); }
  Says& format(const std::string& text) { return field("format", quoted(text)); }
  Says& role(const std::string& text) { return field("role", quoted(text)); }
  Says& phase(const std::string& text) { return field("phase", quoted(text)); }
  Says& order(int from_1) { return field("order", std::to_string(from_1)); }
  Says& micro_batch(int from_0) { return field("micro_batch", std::to_string(from_0)); }
  Says& from(const std::vector<std::string>& ids) {
    return field("from", "[" + joined(ids, quoted) + "]");
  }
  // Placements, the first outermost. `how`: further fields, as "\"stride\": 2".
  Says& shard(const std::string& axis, int dim, const std::string& how = "") {
    return placed(axis, "shard",
                  ", \"dim\": " + std::to_string(dim) + (how.empty() ? "" : ", " + how));
  }
  Says& replicate(const std::string& axis) { return placed(axis, "replicate", ""); }
  Says& partial(const std::string& axis) { return placed(axis, "partial", ""); }

  std::string json() const {
    const std::string comma = fields_.empty() || placements_.empty() ? "" : ", ";
    const std::string lies = placements_.empty() ? "" : "\"placements\": [" + placements_ + "]";
    return "{" + fields_ + comma + lies + "}";
  }

 private:
  Says& placed(const std::string& axis, const std::string& kind, const std::string& more) {
    placements_ += (placements_.empty() ? "" : ", ") + ("{\"axis\": " + quoted(axis)) +
                   ", \"kind\": \"" + kind + "\"" + more + "}";
    return *this;
  }

  std::string fields_, placements_;
};

// What one rank has of one step.
class RankFile {
 public:
  void add(const std::string& name, const std::string& type, const Shape& held, const void* values,
           const Says& says = {}) {
    std::uint64_t bytes = width_of(type);
    for (const std::uint64_t n : held) bytes *= n;
    const char* first = static_cast<const char*>(values);
    tensors_.push_back({name, type, held, std::string(first, first + bytes), says.json()});
  }

  void write(const std::filesystem::path& folder, int step, int rank) {
    // The widest first, so that each begins at a multiple of its width.
    std::stable_sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) {
      return width_of(a.type) > width_of(b.type);
    });
    Texts metadata;
    std::string header, data;
    for (const Tensor& t : tensors_) {
      metadata.emplace_back(t.name, t.says);
      header += ", " + quoted(t.name) + ": {\"dtype\": " + quoted(t.type) +
                ", \"shape\": " + list(t.held) +
                ", \"data_offsets\": " + list({data.size(), data.size() + t.bytes.size()}) + "}";
      data += t.bytes;
    }
    header = "{\"__metadata__\": " + object(metadata) + header + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> 8 * i);
    char at[48];
    std::snprintf(at, sizeof at, "step_%06d/rank_%05d.safetensors", step, rank);
    make_folders((folder / at).parent_path());
    write_whole(folder / at, length + header + data);
  }

 private:
  struct Tensor {
    std::string name, type;
    Shape held;
    std::string bytes, says;
  };
  std::vector<Tensor> tensors_;
};

}  // namespace plumb_trace

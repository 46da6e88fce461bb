#include "trace/store/store.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "trace/store/safetensors.hpp"

namespace plumb {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* schema = "plumb-trace/1";
constexpr int most_ranks = 4096;
constexpr std::uintmax_t longest_json = 256'000'000;

std::string numbered(const char* pattern, int n) {
  char name[48];
  std::snprintf(name, sizeof name, pattern, n);
  return name;
}
fs::path step_folder(const fs::path& folder, int step) {
  return folder / numbered("step_%06d", step);
}

json to_json(const Evaluation& how) {
  return {how.parts, std::string(how.wire.name), std::string(how.output.name)};
}

Format format_from(const json& name) {
  const Format* format = find_format(name.get<std::string>());
  if (format == nullptr)
    throw Failure("unknown format '" + name.get<std::string>() + "' in a trace");
  return *format;
}

Evaluation evaluation_from(const json& j) {
  return {j.at(0).get<int>(), format_from(j.at(1)), format_from(j.at(2))};
}

json to_json(const Graph& graph) {
  json nodes = json::array();
  for (const Node& n : graph.nodes) {
    nodes.push_back({{"op", n.op},
                     {"inputs", n.inputs},
                     {"outputs", n.outputs},
                     {"attributes", n.attributes},
                     {"how", to_json(n.how)},
                     {"phase", static_cast<int>(n.phase)}});
  }
  return {{"nodes", nodes}};
}

Graph graph_from(const json& j) {
  Graph graph;
  for (const json& n : j.at("nodes")) {
    const int phase = n.at("phase").get<int>();
    if (phase < 0 || phase > static_cast<int>(Phase::optimizer)) throw Failure("unknown phase");
    Node node{n.at("op"),
              n.at("inputs"),
              n.at("outputs"),
              {},
              evaluation_from(n.at("how")),
              static_cast<Phase>(phase)};
    for (const auto& [name, value] : n.at("attributes").items()) {
      node.attributes[name] = value.get<double>();
    }
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

void write_text(const fs::path& file, const json& content) {
  std::ofstream out(file);
  out << content.dump(1) << "\n";
  out.close();
  if (!out) throw Failure("cannot write " + file.string() + "; is there room on the disk?");
}

json read_json(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error || size > longest_json) {
    throw Failure(file.string() + " is missing, not a file, or too large; trace again");
  }
  std::ifstream in(file);
  json content = json::parse(in, nullptr, false);
  if (!content.is_object()) {
    throw Failure(file.string() + " is not a JSON object; the trace is damaged: trace again");
  }
  return content;
}

void write_parts(const Trace& trace, const fs::path& folder) {
  const fs::path step = step_folder(folder, trace.manifest.step);
  fs::create_directories(step);
  json ran = json::array();
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    write_shards(step / numbered("rank_%05d.safetensors", static_cast<int>(r)),
                 trace.ranks[r].shards);
    json of_rank = json::object();
    for (const auto& [id, how] : trace.ranks[r].ran) of_rank[id] = to_json(how);
    ran.push_back(of_rank);
  }
  write_text(step / "ran.json", {{"ranks", ran}});
  if (trace.graph) write_text(folder / "graph.json", to_json(*trace.graph));
  const Manifest& m = trace.manifest;
  write_text(folder / "manifest.json", {{"schema", schema},
                                        {"producer", m.producer},
                                        {"world_size", m.world_size},
                                        {"step", m.step},
                                        {"settings", m.settings}});
}

Manifest manifest_from(const json& j, const fs::path& folder) {
  if (j.value("schema", "") != schema) {
    throw Failure(folder.string() + " has the schema '" + j.value("schema", "") + "', expected '" +
                  schema + "'; convert it or trace again");
  }
  Manifest m{j.at("producer"), j.at("world_size"), j.at("step"), {}};
  for (const auto& [key, value] : j.at("settings").items()) m.settings[key] = value;
  if (m.world_size < 1 || m.world_size > most_ranks || m.step < 1 || m.step > 999999) {
    throw Failure(folder.string() + " speaks of " + std::to_string(m.world_size) +
                  " ranks and step " + std::to_string(m.step) + "; expected 1 to " +
                  std::to_string(most_ranks) + " ranks and steps from 1");
  }
  return m;
}

Trace read_parts(const fs::path& folder) {
  Trace trace;
  trace.manifest = manifest_from(read_json(folder / "manifest.json"), folder);
  if (fs::exists(folder / "graph.json")) {
    trace.graph = graph_from(read_json(folder / "graph.json"));
  }
  const fs::path step = step_folder(folder, trace.manifest.step);
  const json ran = read_json(step / "ran.json").at("ranks");
  for (int r = 0; r < trace.manifest.world_size; ++r) {
    RankRecord record;
    record.shards = read_shards(step / numbered("rank_%05d.safetensors", r));
    for (const auto& [id, how] : ran.at(static_cast<std::size_t>(r)).items()) {
      record.ran[id] = evaluation_from(how);
    }
    trace.ranks.push_back(std::move(record));
  }
  return trace;
}

}  // namespace

void write_trace(const Trace& trace, const fs::path& folder) {
  if (fs::exists(folder)) {
    throw Failure(folder.string() + " exists already; remove it or choose another name");
  }
  const fs::path partial = folder.string() + ".partial";
  try {
    fs::remove_all(partial);
    fs::create_directories(partial);
    write_parts(trace, partial);
    fs::rename(partial, folder);
  } catch (const fs::filesystem_error& e) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw Failure("cannot write " + folder.string() + " (" + e.code().message() +
                  "); choose a place that can be written");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
}

Trace read_trace(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw Failure(folder.string() + " is not a folder; a trace is one: plumb train ... -o TRACE");
  }
  if (!fs::exists(folder / "manifest.json")) {
    throw Failure(
        folder.string() +
        " has no manifest.json: the trace is incomplete, its writer was stopped; trace again");
  }
  try {
    return read_parts(folder);
  } catch (const json::exception&) {
    throw Failure(folder.string() + " has JSON that does not say what a trace must; trace again");
  }
}

}  // namespace plumb

#include "trace/store/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "number/words.hpp"
#include "trace/check_graph.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/format2.hpp"
#include "trace/store/json.hpp"
#include "trace/store/read_file.hpp"
#include "trace/store/safetensors.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::trace {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* schema_of_traces = "plumb-trace/1";
constexpr std::uint64_t most_ranks = 4096;
constexpr std::uint64_t last_step = 999'999;
constexpr std::uint64_t most_tokens = 1 << 24;

std::string numbered(const char* pattern, int n) {
  char name[48];
  std::snprintf(name, sizeof name, pattern, n);
  return name;
}
fs::path step_folder(const fs::path& folder, int step) {
  return folder / numbered("step_%06d", step);
}

json to_json(const Evaluation& how) {
  json j{how.parts, std::string(how.wire.name), std::string(how.output.name)};
  if (how.tokens.ranks > 1 || how.tokens.groups > 1 || how.by_chance || how.any_rank_order) {
    j.push_back(how.tokens.ranks);
    j.push_back(how.tokens.sequence);
    if (how.tokens.ring) j.push_back("ring");
    if (how.tokens.groups > 1) j.push_back(how.tokens.groups);
    if (how.by_chance) j.push_back("by_chance");
    if (how.any_rank_order) j.push_back("any_rank_order");
  }
  return j;
}

Format format_from(const json& name, const fs::path& file) {
  const auto text = name.get<std::string>();
  const Format* format = find_format(text);
  if (format == nullptr) damaged(file, "names an unknown format '" + text + "'");
  return *format;
}

Evaluation evaluation_from(const json& j, const fs::path& file) {
  Evaluation how{static_cast<int>(whole_number(j.at(0), most_ranks)), format_from(j.at(1), file),
                 format_from(j.at(2), file)};
  if (j.size() > 3) {
    how.tokens = {static_cast<int>(whole_number(j.at(3), most_ranks)),
                  static_cast<int>(whole_number(j.at(4), most_tokens))};
  }
  for (std::size_t i = 5; i < j.size(); ++i) {
    if (j[i].is_number()) {
      how.tokens.groups = static_cast<int>(whole_number(j[i], most_ranks));
    } else {
      bool* says = j[i] == "by_chance"        ? &how.by_chance
                   : j[i] == "any_rank_order" ? &how.any_rank_order
                   : j[i] == "ring"           ? &how.tokens.ring
                                              : nullptr;
      if (says == nullptr) damaged(file, "says of a sum '" + j[i].get<std::string>() + "'");
      *says = true;
    }
  }
  // Each of 2 ranks chunks of a sequence has the same number of rows, one at least.
  const TokenSharding& tokens = how.tokens;
  const bool even = tokens.ranks == 1 || (tokens.ranks > 1 && tokens.sequence > 0 &&
                                          tokens.sequence % (2 * tokens.ranks) == 0);
  if (how.parts < 1 || tokens.groups < 1 || !even) {
    damaged(file, "parts a sum in a way that is none");
  }
  return how;
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

Graph graph_from(const json& j, const fs::path& file) {
  Graph graph;
  for (const json& n : j.at("nodes")) {
    const auto phase = whole_number(n.at("phase"), static_cast<std::uint64_t>(Phase::optimizer));
    Node node{n.at("op"),
              n.at("inputs"),
              n.at("outputs"),
              {},
              evaluation_from(n.at("how"), file),
              static_cast<Phase>(phase)};
    for (const auto& [name, value] : n.at("attributes").items()) {
      node.attributes[name] = value.get<double>();
    }
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

void write_text(const fs::path& file, const json& content) {
  DiskFile out(file);
  out << content.dump(1) << "\n";
  out.finish();
}

// Returns what `read` makes of a file's JSON. A field that is missing or of another kind is a
// Failure that names the file.
template <class Read>
auto read_as(const fs::path& file, Read read) {
  const json content = read_json(file);
  try {
    return read(content, file);
  } catch (const json::exception&) {
    damaged(file, "does not say what such a file must");
  }
}

void write_parts(const Trace& trace, const fs::path& folder) {
  const fs::path step = step_folder(folder, trace.manifest.step);
  make_folder(step);  // not the folder above it, which may just have been removed
  json ran = json::array();
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    DiskFile out(step / numbered("rank_%05d.safetensors", static_cast<int>(r)));
    write_shards(out, trace.ranks[r].shards);
    out.finish();
    json of_rank = json::object();
    for (const auto& [id, how] : trace.ranks[r].ran) of_rank[id] = to_json(how);
    ran.push_back(of_rank);
  }
  write_text(step / "ran.json", {{"ranks", ran}});
  if (trace.graph) write_text(folder / "graph.json", to_json(*trace.graph));
  const Manifest& m = trace.manifest;
  write_text(folder / "manifest.json", {{"schema", schema_of_traces},
                                        {"producer", m.producer},
                                        {"world_size", m.world_size},
                                        {"step", m.step},
                                        {"settings", m.settings}});
}

Manifest manifest_from(const json& j, const fs::path& file) {
  if (j.value("schema", "") != schema_of_traces) {
    throw Failure(file.string() + " has the schema '" + j.value("schema", "") +
                  "', this program reads '" + schema_of_traces + "' and '" + schema_of_format2 +
                  "'; read it with the program that wrote it, or trace again");
  }
  Manifest m{j.at("producer"),
             static_cast<int>(whole_number(j.at("world_size"), most_ranks)),
             static_cast<int>(whole_number(j.at("step"), last_step)),
             {}};
  for (const auto& [key, value] : j.at("settings").items()) m.settings[key] = value;
  if (m.world_size < 1 || m.step < 1) damaged(file, "speaks of rank or step 0");
  return m;
}

std::vector<std::map<std::string, Evaluation>> ran_from(const json& j, const fs::path& file) {
  std::vector<std::map<std::string, Evaluation>> ranks;
  for (const json& rank : j.at("ranks")) {
    ranks.emplace_back();
    for (const auto& [id, how] : rank.items()) ranks.back()[id] = evaluation_from(how, file);
  }
  return ranks;
}

// Refuses a graph that no program can run, and one that reads what the trace does not have. (State
// that no rank has, or what is taken in in its place, is not refused here: a layer that a stage has
// left out is found by the check.)
void check_whole(const Trace& trace, const fs::path& file) {
  const auto leaves = check_graph(*trace.graph);
  if (!leaves) damaged(file, "cannot be run, " + leaves.error().detail);
  for (const std::string& id : *leaves) {
    const auto has = [&](const RankRecord& rank) { return rank.shards.contains(id); };
    const bool may_lack = id.ends_with("@previous") || is_rewritten(id);
    if (std::ranges::none_of(trace.ranks, has) && !may_lack) {
      damaged(file, "reads '" + id + "', which no node makes and no rank has");
    }
  }
}

// The step of a folder that has the name of one; 0: it has another.
int step_of(const fs::path& folder) {
  int step = 0;
  const std::string name = folder.filename().string();
  if (std::sscanf(name.c_str(), "step_%6d", &step) != 1 || step < 1) return 0;
  return step_folder("", step) == name ? step : 0;
}

// Nobody would read what an earlier run, or one of more ranks, left there.
void refuse_more(const fs::path& folder, int step, std::size_t ranks) {
  std::set<std::string> others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int other = step_of(entry.path());
    if (other != 0 && other != step) others.insert(entry.path().filename().string());
  }
  if (!others.empty())
    damaged(folder / *others.begin(),
            "is there, and the manifest's step is " + std::to_string(step));
  const fs::path files = step_folder(folder, step);
  if (const auto more = files_of_more_ranks(files, ranks); !more.empty())
    damaged(files / *more.begin(),
            "is there, and the manifest says that there are " + how_many(ranks, "rank"));
}

Trace read_parts(const fs::path& folder) {
  Trace trace;
  trace.manifest = read_as(folder / "manifest.json", manifest_from);
  if (fs::exists(folder / "graph.json")) {
    trace.graph = read_as(folder / "graph.json", graph_from);
  }
  const fs::path step = step_folder(folder, trace.manifest.step);
  auto ran = read_as(step / "ran.json", ran_from);
  const auto ranks = static_cast<std::size_t>(trace.manifest.world_size);
  if (ran.size() != ranks) {
    damaged(step / "ran.json", "speaks of " + std::to_string(ran.size()) +
                                   " ranks, the manifest of " + std::to_string(ranks));
  }
  refuse_more(folder, trace.manifest.step, ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const fs::path file = step / numbered("rank_%05d.safetensors", static_cast<int>(r));
    trace.ranks.push_back({read_shards(file), std::move(ran[r])});
  }
  if (trace.graph) check_whole(trace, folder / "graph.json");
  return trace;
}

// A run of version 2 has one manifest for all of its steps.
std::optional<json> manifest_of_version2(const fs::path& folder) {
  std::error_code error;
  const fs::path file = folder / "manifest.json";
  if (!fs::is_regular_file(file, error)) return {};
  json manifest = read_json(file);
  if (manifest.value("schema", json()) != schema_of_format2) return {};
  return manifest;
}

// One step of a run of version 2.
struct Step {
  fs::path run;
  json manifest;
  int number;
};

Step step_in(const fs::path& run, json manifest, int step) {
  const std::vector<int> steps = steps_of_format2(manifest, run / "manifest.json");
  if (step == 0 && steps.size() > 1) {
    throw Failure(run.string() + " has several steps; name one, as " +
                  step_folder(run, steps.back()).string());
  }
  if (step != 0 && !std::ranges::binary_search(steps, step)) {
    throw Failure(step_folder(run, step).string() +
                  " is no step that the manifest above it lists; name one of those");
  }
  return {run, std::move(manifest), step == 0 ? steps.front() : step};
}

// Without the slash at its end.
fs::path bare(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

// The step that a folder means, of a run of version 2: of its only one, or by the step's own folder.
std::optional<Step> step_of_version2(const fs::path& folder) {
  if (auto manifest = manifest_of_version2(folder)) return step_in(folder, *manifest, 0);
  const int step = step_of(bare(folder));
  std::error_code error;
  if (step == 0 || fs::exists(folder / "manifest.json", error)) return {};
  const fs::path run = fs::absolute(bare(folder)).parent_path();
  auto manifest = manifest_of_version2(run);
  if (!manifest) return {};
  return step_in(run, *manifest, step);
}

}  // namespace

void check_new(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(bare(folder), error))) {
    throw Failure(folder.string() + " exists already; remove it or choose another name");
  }
  fs::path above = fs::absolute(bare(folder)).parent_path();
  while (!fs::exists(above, error) && above.has_relative_path()) above = above.parent_path();
  if (!fs::is_directory(above, error) || access(above.c_str(), W_OK) != 0) {
    throw Failure("cannot write " + folder.string() + ": " + above.string() +
                  " is no folder that can be written; choose another place");
  }
}

void write_trace(const Trace& trace, const fs::path& folder) {
  check_new(folder);
  try {
    make_folders(bare(folder).parent_path());
    Unfinished unfinished(bare(folder));
    make_folder(unfinished.path());
    write_parts(trace, unfinished.path());
    unfinished.finish();
  } catch (const fs::filesystem_error& error) {
    refuse_unwritable(folder, error);
  }
}

fs::path trace_of_step(const fs::path& run, int step) { return step_folder(run, step); }

std::map<int, fs::path> traces_of(const fs::path& run) {
  std::map<int, fs::path> traces;
  std::error_code error;
  if (const auto manifest = manifest_of_version2(run)) {
    const std::vector<int> steps = steps_of_format2(*manifest, run / "manifest.json");
    for (const int step : steps) traces[step] = step_folder(run, step);
    return steps.size() > 1 ? traces : std::map<int, fs::path>();
  }
  for (const auto& entry : fs::directory_iterator(run, error)) {
    const std::string name = entry.path().filename().string();
    int step = 0;
    if (std::sscanf(name.c_str(), "step_%6d", &step) != 1) continue;
    if (!fs::exists(entry.path() / "manifest.json", error)) continue;
    if (step_folder(run, step) == entry.path()) traces[step] = entry.path();
  }
  return traces;
}

std::string bytes_of(const RankRecord& record) {
  json ran = json::object();
  for (const auto& [id, how] : record.ran) ran[id] = to_json(how);
  std::ostringstream out;
  out << ran.dump() << '\n';
  write_shards(out, record.shards);
  return std::move(out).str();
}

RankRecord record_from(const std::string& bytes) {
  const std::string name = "a rank's record";
  const std::size_t line = std::min(bytes.find('\n'), bytes.size());
  RankRecord record;
  const json ran = parsed(bytes.substr(0, line), name);
  try {
    for (const auto& [id, how] : ran.items()) record.ran[id] = evaluation_from(how, name);
  } catch (const json::exception&) {
    damaged(name, "does not say how operations ran");
  }
  const std::string rest = bytes.substr(std::min(line + 1, bytes.size()));
  std::istringstream in(rest);
  record.shards = read_shards(in, rest.size(), name);
  return record;
}

namespace {

void refuse_no_folder(const fs::path& folder) {
  refuse_unreadable(folder);
  refuse_unreadable(folder / "manifest.json");
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  throw Failure(folder.string() +
                " is not a folder, as a trace is: plumb train -o TRACE writes one, and so do "
                "programs of your own (docs/pytorch.md, docs/trace-format.md)");
}

}  // namespace

Trace read_trace(const fs::path& folder, const Overrides& overrides) {
  refuse_no_folder(folder);
  if (const auto step = step_of_version2(folder)) {
    return read_format2(step->run, step->manifest, step->number, overrides);
  }
  std::error_code error;
  if (!fs::exists(folder / "manifest.json", error)) {
    if (const auto steps = traces_of(folder); !steps.empty()) {
      throw Failure(folder.string() + " has a trace of each of its steps; name one, as " +
                    steps.rbegin()->second.string());
    }
    throw Failure(folder.string() +
                  " has no manifest.json: it is no trace, or an incomplete one whose writer was "
                  "stopped; trace again");
  }
  if (!overrides.empty()) {
    throw Failure(folder.string() +
                  " is a trace of version 1, whose placements nothing overrides; leave --placement "
                  "out, or write version 2");
  }
  return read_parts(folder);
}

AsHeld read_as_held(const fs::path& folder, const Overrides& overrides) {
  refuse_no_folder(folder);
  if (const auto step = step_of_version2(folder)) {
    return read_as_held(step->run, step->manifest, step->number, overrides);
  }
  throw Failure(folder.string() +
                " is no trace of version 2, and of another no placement is looked for; write "
                "version 2");
}

}  // namespace plumb::trace

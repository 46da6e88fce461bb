#include "trace/store/write_format2.hpp"

#include <nlohmann/json.hpp>

#include "trace/decisions.hpp"
#include "trace/merge.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/format2.hpp"
#include "trace/store/safetensors.hpp"
#include "trace/store/store.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::trace {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// "m12/..." -> 12; nothing of ids that have no micro-batch in front.
std::optional<int> micro_batch_of(const std::string& id) {
  const std::size_t slash = id.find('/');
  if (slash == id.npos || slash < 2 || id[0] != 'm') return {};
  const std::string digits = id.substr(1, slash - 1);
  if (digits.size() > 6 || digits.find_first_not_of("0123456789") != digits.npos) return {};
  return std::stoi(digits);
}

std::optional<MadeBy> made_by(const Node& node, std::size_t output) {
  const Evaluation& how = node.how;
  if (how.tokens.ranks > 1 || how.tokens.groups > 1 || how.by_chance) return {};
  MadeBy made{node.op, node.inputs, output, node.attributes, how.parts, {}};
  if (how.parts > 1) made.wire = how.wire;
  return made;
}

json json_of(const MadeBy& made) {
  json j{{"op", made.op}, {"inputs", made.inputs}};
  if (made.output > 0) j["output"] = made.output;
  if (!made.attributes.empty()) j["attributes"] = made.attributes;
  if (made.parts > 1) j["parts"] = made.parts;
  if (made.wire) j["wire"] = std::string(made.wire->name);
  return j;
}

json json_of(const About& about) {
  constexpr const char* roles[] = {"value", "given", "decision"};
  constexpr const char* phases[] = {"forward", "backward", "reduce", "optimizer"};
  json j = json::object();
  if (about.role != Role::value) j["role"] = roles[static_cast<std::size_t>(about.role)];
  if (about.order) j["order"] = *about.order;
  if (about.phase) j["phase"] = phases[static_cast<std::size_t>(*about.phase)];
  if (about.micro_batch) j["micro_batch"] = *about.micro_batch;
  if (about.made_by) j["made_by"] = json_of(*about.made_by);
  if (about.from && !about.made_by) j["from"] = *about.from;
  return j;
}

// The blocks of a shard, as checkpoints say them.
json offsets_of(const Placement& placement) {
  json blocks = json::array();
  for (const auto& [global, local] : placement.pieces) {
    blocks.push_back({{"global", {global.row, global.col}},
                      {"local", {local.row, local.col}},
                      {"size", {global.rows, global.cols}}});
  }
  return blocks;
}

std::string says(const Abouts& abouts, const std::string& id, const Shard& shard) {
  const auto found = abouts.find(std::string(without_recompute(id)));
  json j = json_of(found == abouts.end() ? About() : found->second);
  const Placement& p = shard.placement;
  j["shape"] = {p.rows, p.cols};
  j["format"] = std::string(shard.format.name);
  const bool is_whole = p == whole(shard.rows(), shard.cols());
  if (!is_whole) j["offsets"] = offsets_of(p);
  if (p.parts > 1) {
    j["part"] = p.part;
    j["parts"] = p.parts;
  }
  return j.dump();
}

std::string text_of(const Manifest& manifest, int twin) {
  json agree = manifest.settings, differ = manifest.may_differ;
  if (agree.contains("layout")) {
    differ["layout"] = agree.at("layout");
    agree.erase("layout");
  }
  if (twin > 0) differ["twin"] = std::to_string(twin);
  const json all{{"schema", schema_of_format2},  {"producer", {{"name", manifest.producer}}},
                 {"ranks", manifest.world_size}, {"steps", {manifest.step}},
                 {"must_agree", agree},          {"may_differ", differ}};
  return all.dump(1) + "\n";
}

void write_files(const Trace& trace, const fs::path& folder, int twin) {
  const fs::path step = trace_of_step(folder, trace.manifest.step);
  make_folder(step);
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    char name[48];
    std::snprintf(name, sizeof name, "rank_%05d.safetensors", static_cast<int>(rank));
    DiskFile out(step / name);
    write_shards(out, trace.ranks[rank].shards, [&](const std::string& id, const Shard& shard) {
      return says(trace.about, id, shard);
    });
    out.finish();
  }
  DiskFile manifest(folder / "manifest.json");
  manifest << text_of(trace.manifest, twin);
  manifest.finish();
}

}  // namespace

Abouts said_by(const Graph& graph) {
  Abouts abouts;
  for (const std::string& id : leaves_of(graph)) abouts[id].role = Role::given;
  std::uint64_t order = 0;
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      About& about = abouts[node.outputs[i]];
      if (is_decision(node) && i == 0) about.role = Role::decision;
      about.order = ++order;
      about.phase = node.phase;
      about.micro_batch = micro_batch_of(node.outputs[i]);
      about.from = node.inputs;
      about.made_by = made_by(node, i);
    }
  }
  return abouts;
}

void write_format2(const Trace& trace, const fs::path& folder, int twin) {
  check_new(folder);
  try {
    make_folders(folder.parent_path());
    Unfinished unfinished(folder);
    make_folder(unfinished.path());
    write_files(trace, unfinished.path(), twin);
    unfinished.finish();
  } catch (const fs::filesystem_error& error) {
    refuse_unwritable(folder, error);
  }
}

}  // namespace plumb::trace

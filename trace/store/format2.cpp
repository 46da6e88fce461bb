#include "trace/store/format2.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bounds/json_schema.hpp"
#include "number/words.hpp"
#include "trace/merge.hpp"
#include "trace/placements/sharding.hpp"
#include "trace/store/json.hpp"
#include "trace/store/messages_file.hpp"
#include "trace/store/overriding.hpp"
#include "trace/store/read_file.hpp"
#include "trace/store/spelling.hpp"
#include "trace/store/tensor_file.hpp"

namespace plumb::trace {

// Made by embed() from trace/store/trace.schema.json.
std::string_view trace_schema();

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t most_values = std::size_t(1) << 33;
constexpr std::size_t most_asked = 64;
constexpr std::size_t at_once = std::size_t(1) << 18;  // numbers that are read in one go

std::string numbered(const char* pattern, std::size_t n) {
  char name[48];
  std::snprintf(name, sizeof name, pattern, static_cast<int>(n));
  return name;
}
std::string file_of(std::size_t rank) { return numbered("rank_%05d.safetensors", rank); }

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw Failure(file.string() + " " + what + "; mend it, see docs/trace-format.md");
}

void check_manifest(const json& manifest, const fs::path& file) {
  static const JsonSchema schema(trace_schema());
  if (const std::string wrong = schema.wrong_with(manifest); !wrong.empty()) {
    refuse(file, "is no manifest: " + wrong);
  }
}

Mesh mesh_from(const json& manifest, const fs::path& file) {
  const auto ranks = manifest.at("ranks").get<std::size_t>();
  if (!manifest.contains("mesh")) return {{{"rank", ranks}}};
  Mesh mesh;
  std::size_t size = 1;
  for (const json& axis : manifest.at("mesh")) {
    mesh.axes.push_back({axis.at("axis").get<std::string>(), axis.at("size").get<std::size_t>()});
    if (mesh.find(mesh.axes.back().name) != mesh.axes.size() - 1) {
      refuse(file, "has the axis '" + mesh.axes.back().name + "' twice");
    }
    size = std::min(size * mesh.axes.back().size, most_values);  // does not wrap around
  }
  if (size == ranks) return mesh;
  refuse(file, "has a mesh of " + how_many(size, "rank") + " (" + mesh.names() +
                   "), and says that there are " + std::to_string(ranks));
}

Manifest manifest_from(const json& j, int step) {
  const auto texts = [&](const char* field) {
    return j.value(field, json::object()).get<std::map<std::string, std::string>>();
  };
  const json& producer = j.at("producer");
  Manifest m;
  m.producer = producer.at("name").get<std::string>();
  if (producer.contains("version")) m.producer += " " + producer.at("version").get<std::string>();
  m.world_size = j.at("ranks").get<int>();
  m.step = step;
  m.settings = texts("must_agree");
  m.may_differ = texts("may_differ");
  const json libraries = producer.value("libraries", json::object());
  for (const auto& [name, version] : libraries.items()) {
    m.may_differ.emplace("library " + name, version.get<std::string>());
  }
  if (j.contains("sampled")) m.may_differ.emplace("sampled", j.at("sampled").get<std::string>());
  return m;
}

// Refuses, as reading them would, numbers that FP32 does not have or cannot be rounded to.
void check_numbers(TensorFile& file, const StoredTensor& stored) {
  constexpr Stored wide[] = {Stored::f64, Stored::i32, Stored::i64, Stored::u32, Stored::u64};
  if (std::ranges::find(wide, stored.stored) == std::end(wide)) return;
  std::vector<double> some;
  for (std::size_t first = 0; first < stored.size; first += some.size()) {
    some.resize(std::min(at_once, stored.size - first));
    file.read(stored, first, some, stored.stored == Stored::f64);
    for (const double x : some) {
      if (std::isinf(static_cast<float>(x)) && !std::isinf(x)) {
        refuse(file.path(), "holds " + std::to_string(x) + ", which is beyond FP32's largest");
      }
    }
  }
}

class Reader {
 public:
  Reader(const fs::path& run, const json& manifest, int step, Overrides overrides)
      : overriding_(std::move(overrides)),
        folder_(run / numbered("step_%06d", static_cast<std::size_t>(step))),
        mesh_(mesh_from(manifest, run / "manifest.json")),
        has_mesh_(manifest.contains("mesh")) {
    trace_.manifest = manifest_from(manifest, step);
  }

  AsHeld read_held() {
    AsHeld held{mesh_, {}};
    as_held_ = &held;
    read();
    return held;
  }

  Trace read() {
    std::error_code error;
    refuse_unreadable(folder_);
    if (!fs::is_directory(folder_, error)) {
      refuse(folder_, "is not there, and the manifest lists its step");
    }
    const auto ranks = static_cast<std::size_t>(trace_.manifest.world_size);
    trace_.ranks.resize(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) read_rank(rank);
    look_for_more_files(ranks);
    overriding_.refuse_idle();
    if (trace_.manifest.settings.contains("sketch")) overriding_.refuse_renaming();
    for (const auto& [id, claim] : claims_) look_for_holders(id, claim);
    if (has_messages(folder_, trace_.manifest.world_size)) {
      trace_.messages = std::make_shared<const std::vector<std::vector<Message>>>(
          read_messages(folder_, trace_.manifest.world_size));
    }
    return std::move(trace_);
  }

 private:
  // What the first rank that has a tensor says of it, and who has it.
  struct Claim {
    Described of_first;
    std::size_t first;
    std::vector<std::size_t> holders = {};
    std::string conflict = {};
  };

  void unfit(const std::string& id, const std::string& what, std::optional<std::size_t> rank = {}) {
    Finding f{id, "structure", std::numeric_limits<double>::infinity(), what};
    if (rank) f.rank = static_cast<int>(*rank);
    trace_.unfit.push_back(std::move(f));
  }

  void look_for_more_files(std::size_t ranks) {
    for (const std::string& name : files_of_more_ranks(folder_, ranks)) {
      unfit(name, "is there, and the manifest says that there are " + how_many(ranks, "rank"));
    }
  }

  void read_rank(std::size_t rank) {
    const fs::path path = folder_ / file_of(rank);
    refuse_unreadable(path);
    if (std::error_code error; !fs::exists(fs::symlink_status(path, error))) {
      absent_.insert(rank);
      return unfit(file_of(rank), "is not there: rank " + std::to_string(rank) + " has no file",
                   rank);
    }
    TensorFile file(path);
    mapped_ = std::make_shared<const MappedFile>(path);
    for (const auto& [name, metadata] : file.metadata()) {
      if (!file.tensors().contains(name) && metadata.starts_with('{')) {
        refuse(path, "says how '" + name + "' lies, and holds no tensor of that name");
      }
    }
    for (const auto& [name, stored] : file.tensors()) read_one(file, name, stored, rank);
  }

  void read_one(TensorFile& file, const std::string& name, const StoredTensor& stored,
                std::size_t rank) {
    if (!stored.unreadable.empty()) {
      throw Failure(file.path().string() + ": '" + name + "' " + stored.unreadable);
    }
    const auto said = file.metadata().find(name);
    const Overridden over = overriding_.applied(
        name, said == file.metadata().end() ? json::object() : parsed(said->second, file.path()),
        rank, mesh_);
    const auto refused = [&](const std::string& why) {
      const bool of_mesh = !has_mesh_ && why.find("in the mesh (") != why.npos;
      refuse(over.by.empty() ? file.path() : over.by,
             "says of '" + name + "' " + why + (of_mesh ? ", as the manifest has no 'mesh'" : ""));
    };
    const Outcome<Described> outcome = described(over.says, name, stored.shape, mesh_);
    if (!outcome) refused(outcome.error().detail);
    Described d = *outcome;
    if (!in_range(d.whole)) refused("a whole that is larger than any tensor");
    if (is_whole(stored.stored) && !over.says.contains("role")) d.about.role = Role::decision;
    check_numbers(file, stored);
    const auto [rows, cols] = as_matrix(stored.shape);
    const Shard shard{{},
                      {},
                      d.format.value_or(stored.format()),
                      InFile{rows, cols, {mapped_, stored.at, stored.stored}}};
    if (as_held_ != nullptr) {
      AsHeld::OfTensor& tensor = as_held_->tensors[d.id];
      if (tensor.held.empty()) tensor = {name, d.whole};
      tensor.held.push_back({rank, stored.shape, shard.tensor()});
      return;
    }
    const Outcome<NdPlacement> lies = placement_of(d, stored.shape, rank);
    if (!lies) refused(lies.error().detail);
    if (over.parts.empty()) keep(std::move(d), *lies, shard, rank, refused);
    for (const Overridden::Part& part : over.parts) {
      const Outcome<NdPlacement> mine = part_of(*lies, part.lies);
      if (!mine) refused(mine.error().detail);
      Described one = d;
      one.id = part.id;
      one.about.own_name = name;
      keep(std::move(one), *mine, shard, rank, refused);
    }
  }

  template <class Refused>
  void keep(Described d, const NdPlacement& lies, Shard shard, std::size_t rank,
            const Refused& refused) {
    const Outcome<Placement> flat = flattened(lies);
    if (!flat) refused(flat.error().detail);
    shard.placement = *flat;
    d.about.shape = lies.whole;
    if (!trace_.ranks[rank].shards.emplace(d.id, std::move(shard)).second) {
      refused("the id '" + d.id + "', which another tensor of this file has");
    }
    note_claim(std::move(d), rank);
  }

  static bool in_range(const Extents& shape) {
    std::size_t n = 1;
    for (const std::size_t d : shape) {
      if (d != 0 && n > most_values / d) return false;
      n *= std::max<std::size_t>(d, 1);
    }
    return true;
  }

  Outcome<NdPlacement> placement_of(const Described& d, const Extents& held,
                                    std::size_t rank) const {
    if (!d.told && d.whole != held) {
      return Refusal{Why::unsupported, "a whole of " + text_of_extents(d.whole) +
                                           ", and the file holds " + text_of_extents(held) +
                                           ": add how it lies, as 'placements' or 'offsets'"};
    }
    if (!d.sharding) return NdPlacement{d.whole, held, d.blocks, d.part, d.parts};
    return held_by(rank, held, d.whole, *d.sharding, mesh_);
  }

  void note_claim(Described d, std::size_t rank) {
    const std::string id(without_recompute(d.id));
    trace_.about.emplace(d.id, d.about);
    Claim& claim = claims_.try_emplace(id, Claim{d, rank}).first->second;
    claim.holders.push_back(rank);
    if (!claim.conflict.empty()) return;
    const Described& first = claim.of_first;
    std::string what;
    if (d.sharding != first.sharding) what = "how it lies on the mesh";
    if (d.about.role != first.about.role) what = "its role";
    if (d.whole != first.whole) what = "its dimensions";
    if (d.about.made_by != first.about.made_by) what = "how it is made";
    if (what.empty()) return;
    claim.conflict = "ranks " + std::to_string(claim.first) + " and " + std::to_string(rank) +
                     " do not say the same of " + what;
  }

  // At most one finding a tensor. A manifest may claim thousands of ranks: of those without a file,
  // each a finding already, a few are asked for their share, and the others lack one if one does.
  void look_for_holders(const std::string& id, const Claim& claim) {
    if (!claim.conflict.empty()) return unfit(id, claim.conflict);
    if (!claim.of_first.sharding) return;
    const Sharding& sharding = *claim.of_first.sharding;
    std::vector<std::size_t> lack;
    std::size_t asked = 0;  // of ranks without a file
    for (const std::size_t rank : owed_to(claim.holders, sharding, mesh_, trace_.ranks.size())) {
      if (std::ranges::binary_search(claim.holders, rank)) continue;
      if (absent_.contains(rank) && !lack.empty()) {
        lack.push_back(rank);
        continue;
      }
      if (absent_.contains(rank) && ++asked > most_asked) continue;
      const auto shape = shard_of(rank, claim.of_first.whole, sharding, mesh_);
      const bool empty = shape && std::ranges::find(*shape, 0U) != shape->end();
      if (!empty) lack.push_back(rank);
    }
    if (lack.empty()) return;
    const auto shape = shard_of(lack.front(), claim.of_first.whole, sharding, mesh_);
    unfit(id,
          "rank " + std::to_string(lack.front()) +
              " holds none of it, and its placement gives it " +
              (shape ? text_of_extents(*shape) : "some") +
              (lack.size() == 1 ? "" : " (" + std::to_string(lack.size()) + " ranks lack theirs)"),
          lack.front());
  }

  Overriding overriding_;
  fs::path folder_;
  Mesh mesh_;
  bool has_mesh_;
  Trace trace_;
  std::map<std::string, Claim> claims_;
  std::set<std::size_t> absent_;              // ranks without a file
  std::shared_ptr<const MappedFile> mapped_;  // the file that is being read
  AsHeld* as_held_ = nullptr;                 // where tensors go instead, if that is asked for
};

// Nobody would read a step that the manifest does not list, as of an earlier run in the same folder.
void refuse_unlisted(const std::vector<int>& steps, const fs::path& manifest) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(manifest.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    int step = 0;
    if (std::sscanf(name.c_str(), "step_%6d", &step) != 1 || step < 0) continue;
    if (numbered("step_%06d", static_cast<std::size_t>(step)) != name) continue;
    if (!std::ranges::binary_search(steps, step))
      refuse(entry.path(), "is there, and the manifest does not list its step");
  }
}

}  // namespace

std::set<std::string> files_of_more_ranks(const fs::path& step, std::size_t ranks) {
  std::set<std::string> more;
  for (const auto& entry : fs::directory_iterator(step)) {
    const std::string name = entry.path().filename().string();
    for (const std::string kind : {"rank_", "messages_"}) {
      if (!name.starts_with(kind) || !name.ends_with(".safetensors")) continue;
      const std::string number = name.substr(kind.size(), name.find('.') - kind.size());
      const bool digits =
          number.size() == 5 && number.find_first_not_of("0123456789") == number.npos;
      if (digits && std::stoul(number) >= ranks) more.insert(name);
    }
  }
  return more;
}

std::vector<int> steps_of_format2(const json& manifest, const fs::path& file) {
  check_manifest(manifest, file);
  auto steps = manifest.at("steps").get<std::vector<int>>();
  std::ranges::sort(steps);
  if (std::ranges::adjacent_find(steps) != steps.end()) refuse(file, "lists a step twice");
  refuse_unlisted(steps, file);
  return steps;
}

AsHeld read_as_held(const fs::path& run, const json& manifest, int step, Overrides overrides) {
  return Reader(run, manifest, step, std::move(overrides)).read_held();
}

Trace read_format2(const fs::path& run, const json& manifest, int step, Overrides overrides) {
  return Reader(run, manifest, step, std::move(overrides)).read();
}

}  // namespace plumb::trace

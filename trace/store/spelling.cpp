#include "trace/store/spelling.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "bounds/check_call.hpp"
#include "bounds/json_schema.hpp"
#include "trace/placements/dims.hpp"

namespace plumb::trace {

// Made by embed() from trace/store/tensor.schema.json.
std::string_view tensor_schema();

namespace {

using nlohmann::json;

// The place of a word in a list: of an enumeration whose values stand in that order.
template <std::size_t N>
int place_in(const std::array<const char*, N>& words, const std::string& word) {
  return static_cast<int>(std::ranges::find(words, word) - words.begin());
}

About about_from(const json& says) {
  About about;
  about.role = static_cast<Role>(
      place_in(std::array{"value", "given", "decision"}, says.value("role", "value")));
  if (says.contains("order")) about.order = says.at("order").get<std::uint64_t>();
  if (says.contains("phase")) {
    about.phase =
        static_cast<Phase>(place_in(std::array{"forward", "backward", "reduce", "optimizer"},
                                    says.at("phase").get<std::string>()));
  }
  if (says.contains("micro_batch")) about.micro_batch = says.at("micro_batch").get<int>();
  if (says.contains("from")) about.from = says.at("from").get<std::vector<std::string>>();
  return about;
}

// A call that the catalogue knows, so that whoever replays it finds its form whole.
Outcome<MadeBy> made_by_from(const json& says) {
  MadeBy made{says.at("op").get<std::string>(), says.at("inputs").get<std::vector<std::string>>()};
  made.output = says.value("output", std::size_t(0));
  made.attributes = says.value("attributes", json::object()).get<Attributes>();
  made.parts = says.value("parts", 1);
  if (says.contains("wire")) made.wire = *find_format(says.at("wire").get<std::string>());
  const Operation* operation = find_operation(made.op);
  if (operation == nullptr) {
    return no("that '" + made.op + "' makes it, which is no operation (plumb bound --help)");
  }
  if (const auto all = check_attributes(*operation, made.attributes); !all) return all.error();
  const auto outputs = check_form(*operation, made.inputs.size(), made.attributes);
  if (!outputs) return outputs.error();
  if (made.output < *outputs) return made;
  return no("output " + std::to_string(made.output) + " of " + made.op +
            ", counted from 0, which has " + std::to_string(*outputs));
}

Outcome<std::size_t> axis_of(const std::string& name, const Mesh& mesh) {
  const auto axis = mesh.find(name);
  if (axis) return *axis;
  return no("no axis '" + name + "' in the mesh (" + mesh.names() + ")");
}

Outcome<Sharding> from_placements(const json& list, const Mesh& mesh) {
  Sharding sharding;
  for (const json& entry : list) {
    const auto axis = axis_of(entry.at("axis").get<std::string>(), mesh);
    if (!axis) return axis.error();
    Split split{*axis};
    split.kind = static_cast<Split::Kind>(
        place_in(std::array{"shard", "replicate", "partial"}, entry.at("kind").get<std::string>()));
    if (split.kind == Split::Kind::shard) {
      if (!entry.contains("dim")) return no("a shard on '" + mesh.axes[*axis].name + "' of no dim");
      split.dim = entry.at("dim").get<std::size_t>();
      split.stride = entry.value("stride", std::size_t(1));
      split.groups = entry.value("groups", Extents());
      split.sizes = entry.value("sizes", Extents());
      split.zigzag = entry.value("zigzag", false);
      split.padded = entry.value("padded", std::size_t(0));
    } else if (entry.size() > 2) {
      return no("more than 'axis' and 'kind' on '" + mesh.axes[*axis].name +
                "', which is not sharded");
    }
    sharding.push_back(std::move(split));
  }
  return sharding;
}

// Axes that the specification does not name hold all of it.
Outcome<Sharding> from_partition_spec(const json& spec, const Mesh& mesh) {
  Sharding sharding;
  std::vector<bool> named(mesh.axes.size(), false);
  for (std::size_t dim = 0; dim < spec.size(); ++dim) {
    if (spec[dim].is_null()) continue;
    const json axes = spec[dim].is_array() ? spec[dim] : json::array({spec[dim]});
    for (const json& name : axes) {
      const auto axis = axis_of(name.get<std::string>(), mesh);
      if (!axis) return axis.error();
      named[*axis] = true;
      sharding.push_back({*axis, Split::Kind::shard, dim});
    }
  }
  for (std::size_t axis = 0; axis < named.size(); ++axis) {
    if (!named[axis]) sharding.push_back({axis});
  }
  return sharding;
}

std::vector<NdBlock> from_offsets(const json& list) {
  std::vector<NdBlock> blocks;
  for (const json& block : list) {
    blocks.push_back({block.at("global").get<Extents>(), block.at("local").get<Extents>(),
                      block.at("size").get<Extents>()});
  }
  return blocks;
}

// What is replicated splits nothing: its place in a list means nothing.
Sharding in_one_order(Sharding sharding) {
  const auto replicated = [](const Split& s) { return s.kind == Split::Kind::replicate; };
  const auto first =
      std::stable_partition(sharding.begin(), sharding.end(), std::not_fn(replicated));
  std::sort(first, sharding.end(), [](const Split& a, const Split& b) { return a.axis < b.axis; });
  return sharding;
}

std::string wrong_together(const json& says) {
  const auto has = [&](const char* field) { return says.contains(field); };
  const auto count = std::ranges::count_if(spellings, has);
  if (count > 1) return "its place in more than one way: placements, dims, partition_spec, offsets";
  if (count == 1 && !has("shape"))
    return "how it lies, and not the shape of the whole: add 'shape'";
  const bool on_mesh = count == 1 && !has("offsets");
  if (on_mesh && (has("part") || has("parts"))) {
    return "a part beside axes of the mesh; a sum over an axis is the kind 'partial'";
  }
  if (says.value("part", 0) >= says.value("parts", 1)) {
    return "part " + std::to_string(says.value("part", 0)) + " of " +
           std::to_string(says.value("parts", 1)) + ", counted from 0";
  }
  return "";
}

Outcome<Sharding> sharding_from(const json& says, const Extents& whole, const Mesh& mesh) {
  if (says.contains("placements")) return from_placements(says.at("placements"), mesh);
  if (says.contains("dims")) {
    return sharding_from_dims(says.at("dims").get<std::string>(), whole.size(), mesh);
  }
  return from_partition_spec(says.at("partition_spec"), mesh);
}

}  // namespace

Outcome<Described> described(const json& says, const std::string& name, const Extents& held,
                             const Mesh& mesh) {
  static const JsonSchema schema(tensor_schema());
  if (const std::string wrong = schema.wrong_with(says); !wrong.empty()) return no(wrong);
  if (const std::string wrong = wrong_together(says); !wrong.empty()) return no(wrong);
  Described out;
  out.id = says.value("id", name);
  out.whole = says.value("shape", held);
  out.about = about_from(says);
  if (out.id != name) out.about.own_name = name;
  if (says.contains("made_by")) {
    Outcome<MadeBy> made = made_by_from(says.at("made_by"));
    if (!made) return made.error();
    if (!out.about.from) out.about.from = made->inputs;
    out.about.made_by = std::move(*made);
  }
  if (says.contains("format")) out.format = *find_format(says.at("format").get<std::string>());
  out.part = says.value("part", 0);
  out.parts = says.value("parts", 1);
  const bool anywhere =
      std::ranges::any_of(spellings, [&](const char* s) { return says.contains(s); });
  if (says.contains("offsets")) {
    out.blocks = from_offsets(says.at("offsets"));
  } else if (anywhere) {
    Outcome<Sharding> sharding = sharding_from(says, out.whole, mesh);
    if (!sharding) return sharding.error();
    out.sharding = in_one_order(*sharding);
  } else {
    out.told = false;
    out.blocks = {{Extents(held.size(), 0), Extents(held.size(), 0), held}};
  }
  return out;
}

}  // namespace plumb::trace

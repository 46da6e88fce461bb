#include <fmt/format.h>

#include "cli/colour.hpp"
#include "cli/json.hpp"
#include "cli/verbs.hpp"
#include "number/words.hpp"
#include "trace/placements/suggest.hpp"
#include "trace/selection.hpp"
#include "trace/store/store.hpp"

namespace plumb::cli {
namespace {

using nlohmann::json;

json json_of_split(const Split& split, const Mesh& mesh) {
  json entry{{"axis", mesh.axes[split.axis].name}};
  switch (split.kind) {
    case Split::Kind::replicate:
      entry["kind"] = "replicate";
      return entry;
    case Split::Kind::partial:
      entry["kind"] = "partial";
      return entry;
    case Split::Kind::shard:
      break;
  }
  entry["kind"] = "shard";
  entry["dim"] = split.dim;
  if (split.zigzag) entry["zigzag"] = true;
  if (split.stride > 1) entry["stride"] = split.stride;
  return entry;
}

json json_of_sharding(const trace::Sharding& sharding, const Mesh& mesh) {
  json list = json::array();
  for (const Split& split : sharding) list.push_back(json_of_split(split, mesh));
  return list;
}

struct Suggested {
  std::string id;
  std::string why_not;  // empty: there is one
  json rule = {};       // as a file for --placement has it
};

class Suggesting {
 public:
  Suggesting(AsHeld run, const SuggestFrom& from) : run_(std::move(run)) {
    if (from.reference.empty()) return;
    reference_ = read_trace(from.reference);
    whole_ = merge(reference_);
    known_ = true;
  }

  Suggested look_at(const std::string& id, const AsHeld::OfTensor& tensor) const {
    const auto found = whole_.values.find(id);
    const Tensor* reference = found == whole_.values.end() ? nullptr : found->second.get();
    const Extents whole = shape_of(id, tensor, reference);
    const auto fits = fitting(whole, tensor.held, run_.mesh, reference);
    if (!fits) return {id, "there are " + fits.error().detail};
    if (fits->empty()) {
      return {id, "no placement fits a whole of " + text_of_extents(whole) +
                      (reference == nullptr ? "" : " near the reference's") +
                      "; groups, sizes and offsets are not tried"};
    }
    if (fits->size() > 1) {
      return {id, std::to_string(fits->size()) + " placements fit, as " +
                      json_of_sharding(fits->front(), run_.mesh).dump() +
                      (reference == nullptr ? "; --reference TRACE may tell them apart" : "")};
    }
    return {
        id,
        "",
        {{"match", "^" + expression_of(tensor.name) + "$"},
         {"says", {{"shape", whole}, {"placements", json_of_sharding(fits->front(), run_.mesh)}}}}};
  }

  const AsHeld& run() const { return run_; }

 private:
  // The reference knows the whole; else the trace says it.
  Extents shape_of(const std::string& id, const AsHeld::OfTensor& tensor,
                   const Tensor* reference) const {
    if (!known_ || reference == nullptr) return tensor.whole;
    const auto says = reference_.about.find(id);
    if (says != reference_.about.end()) return says->second.shape;
    return {reference->rows, reference->cols};
  }

  AsHeld run_;
  Trace reference_;
  Merged whole_;
  bool known_ = false;
};

}  // namespace

int suggest_placements(const std::string& folder, const SuggestFrom& from, bool as_json) {
  const Selection select(from.only, "");
  const Suggesting suggesting(
      read_as_held(folder, from.placement.empty() ? Overrides() : Overrides(from.placement)), from);
  json rules = json::array();
  std::size_t looked_at = 0;
  for (const auto& [id, tensor] : suggesting.run().tensors) {
    if (!select(id) || tensor.held.size() < 2) continue;  // of one holder there is nothing to tell
    ++looked_at;
    talk("looking for placements of " + id);
    const Suggested seen = suggesting.look_at(id, tensor);
    if (seen.why_not.empty()) rules.push_back(seen.rule);
    if (as_json) continue;
    say("{}: {}\n", id,
        seen.why_not.empty() ? seen.rule.at("says").at("placements").dump() : seen.why_not);
  }
  talk("");
  if (looked_at == 0) {
    throw Failure("no tensor that is asked for lies on two ranks or more: nothing could be told");
  }
  if (as_json) print_document("plumb-overrides/1", {{"tensors", rules}});
  return rules.size() == looked_at ? 0 : 3;
}

}  // namespace plumb::cli

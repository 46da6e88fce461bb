#include "model/run/reference.hpp"

#include "model/plan/plan.hpp"
#include "model/spec/manifest.hpp"
#include "model/state/state.hpp"

namespace plumb::model {

Trace reference_trace(const Training& run, Values values) {
  Trace trace{manifest_of(run), plan(run), {}};
  RankRecord record;
  std::map<std::string, Format> formats;
  for (const Node& node : trace.graph->nodes) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      formats[node.outputs[i]] = traits_of(node).scales_output ? fp32 : node.how.output;
      formats[rewritten_id(node.outputs[i])] = node.how.output;
      record.ran[node.outputs[i]] = node.how;
    }
  }
  for (const StateEntry& k : state_entries(run.config, run.recipe))
    formats[k.id + "@previous"] = k.format;
  for (const auto& [id, tensor] : values) {
    const auto known = formats.find(id);
    const Format format = known == formats.end() ? fp32 : known->second;
    record.shards[id] = {whole(tensor->rows, tensor->cols), *tensor, format};
  }
  trace.ranks.push_back(std::move(record));
  return trace;
}

}  // namespace plumb::model

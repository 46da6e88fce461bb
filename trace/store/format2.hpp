// trace/store/format2.hpp: a trace of any program: version 2 of the format (docs/trace-format.md).
//
//   RUN/manifest.json                         trace.schema.json
//   RUN/step_000001/rank_00000.safetensors    tensors of any shape and type; what is said of each is
//                                             a JSON object (tensor.schema.json) as a text in
//                                             __metadata__
//
// The mesh and how a tensor is sharded on it say who holds what, so a rank's file, a shard or a
// replica that is not there is a finding (Trace::unfit), as are ranks that say different things.
//
// REFUSES  one sentence, with file and tensor: what is not as the schemas say, a mesh of another
//          number of ranks, shards of another shape than their placement gives, numbers beyond FP32
// TESTED   tests/trace/format2_test.cpp
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "trace/placements/suggest.hpp"
#include "trace/sees.hpp"
#include "trace/store/overrides.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

inline constexpr const char* schema_of_format2 = "plumb-trace/2";

// The steps that a manifest of version 2 lists, in their order. `file`: where it stands.
std::vector<int> steps_of_format2(const nlohmann::json& manifest,
                                  const std::filesystem::path& file);

// Names of files of a step's folder that are those of ranks beyond so many, in their order: that of a folder is anyone's.
std::set<std::string> files_of_more_ranks(const std::filesystem::path& step, std::size_t ranks);

// One of these steps, of whose tensors `overrides` say more. Throws Failure.
Trace read_format2(const std::filesystem::path& run, const nlohmann::json& manifest, int step,
                   Overrides overrides = {});

// The same as its files hold it.
AsHeld read_as_held(const std::filesystem::path& run, const nlohmann::json& manifest, int step,
                    Overrides overrides = {});

}  // namespace plumb::trace

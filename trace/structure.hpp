// trace/structure.hpp: what must hold exactly: ids, shapes, leaves, replicas, what ran.
//
// TESTED   tests/trace/structure_test.cpp
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trace/finding.hpp"
#include "trace/merge.hpp"
#include "trace/pairs.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// The tensors that have another shape in another layout: scales of blocks that begin anew on each
// rank.
std::set<std::string> shaped_by_layout(const Trace& candidate);

// Did the run leave out this step, as it promised to, because its gradients left their range? Then
// values that are not finite are no damage.
bool left_out(const Graph& graph, const Wholes& values);

// Of a tensor that is not finite: has it infinities and no NaN, and is it the same in both runs?
bool is_a_mask(const Finding& not_finite, const Pairs& pairs);

// What is said first of given tensors of two runs that differ.
inline constexpr std::string_view starts_otherwise =
    "the runs start from different values: load the same state and data";

// Findings of statistic "structure". An id on one side only that `allow_unmatched` does not match is
// one. Throws Failure instead where the candidate promises, and where each side has such ids: they
// may be names of the same. `of_reference`: what its producer says of tensors.
std::vector<Finding> structure_findings(const Run& reference, const Trace& candidate,
                                        const Run& merged, const Pairs& pairs,
                                        const std::string& allow_unmatched,
                                        const Abouts& of_reference = {});

// Each tensor on one side only that `allow_unmatched` matches: nobody judges it.
std::vector<NotJudged> allowed_in_one_only(const Run& reference, const Run& merged,
                                           const std::string& allow_unmatched);

}  // namespace plumb::trace

// model/spec/layout.hpp: how a run is spread over ranks, and how it goes through a step.
//
// Grammar: parts, each once, in any order:
// "dp4,ep2,tp2,sp,cp2:ulysses,pp2:3+1,vpp2,zero1:2,recompute:selective,offload,
// overlap:7,padded,runs2,split,predivide4,etp1".
//
// TESTED   tests/model/layout_test.cpp
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/config.hpp"

namespace plumb::model {

// How attention reaches the tokens of other context-parallel ranks: it gathers their keys and
// values, trades its tokens of all heads for all tokens of some (ulysses), or has keys and values
// go round from rank to rank (ring).
enum class Context { allgather, ulysses, ring };

struct Layout {
  int dp = 1;       // micro-batch m goes to data-parallel rank m mod dp
  int tp = 1;       // heads, MLP units and vocabulary in tp contiguous slices
  bool sp = false;  // tokens of norms and residuals in tp contiguous slices
  int pp = 1;       // layers in pp x vpp stages one after another; stage s lives on rank s mod pp
  int vpp = 1;
  std::vector<int> stage_layers =
      {};  // of each stage; empty: as even as it goes, longer ones first
  // The state that data-parallel ranks hold in shares: 1 optimizer state, 2 also summed gradients,
  // 3 also parameters. Each has a contiguous share of every tensor's elements.
  int zero = 0;
  // Among how many neighbouring data-parallel ranks a share is one of; such groups have replicas of
  // each other. 0: among all that have the parameter.
  int sharers = 0;
  // Each of cp ranks has two chunks of every sequence, of 2 cp: c and 2 cp - 1 - c (zigzag).
  int cp = 1;
  Context context = Context::allgather;
  // Experts in ep contiguous groups; data-parallel rank d has the group d / (dp / ep). Its copies
  // of tokens travel to the ranks that have their experts.
  int ep = 1;
  // Experts are whole on each tensor-parallel rank, which sends them the tokens of its slice (with
  // sp); else they are sliced as the MLP is.
  bool whole_experts = false;
  int recompute = 0;       // backward computes that many layers at a time again; 0: nothing
  bool selective = false;  // backward computes attention's probabilities again
  bool offload_activations = false;  // inputs of layers wait on the host for backward
  bool offload_optimizer = false;    // the optimizer's state and its step are on the host
  // Seed of the points at which a rank's transfers happen; 0: where they are issued.
  int overlap = 0;
  // What travels between data-parallel ranks is padded: each gradient in a bucket to a multiple of
  // `alignment` elements, each share to the length of the longest.
  bool padded = false;
  static constexpr std::size_t alignment = 64;
  // A rank's micro-batches go through the schedule in so many runs of it, one after the other.
  int runs = 1;
  // Of the inputs that backward computes layers again from, each tensor-parallel rank keeps a slice.
  bool split = false;
  // Data-parallel ranks divide their parts of a gradient by this power of two before these are
  // summed, and multiply the sum by it: the same bits, as long as nothing gets subnormal.
  int predivide = 1;

  int world_size() const { return dp * tp * pp * cp; }
  int stages() const { return pp * vpp; }
  int expert_copies() const { return dp / ep; }  // data-parallel ranks that have the same experts
  int sharers_of(bool expert) const {
    return sharers > 0 ? sharers : expert ? expert_copies() : dp;
  }
  bool operator==(const Layout&) const = default;
};

// Throws Failure on a part that is not in the grammar.
Layout parse_layout(const std::string& text);
std::string name_of(const Layout& layout);
// Sentences on parts that change nothing: sp with one tp rank and the like.
std::vector<std::string> idle_parts(const Layout& layout);
// Throws Failure unless the layout divides the model (heads, units, vocabulary, tokens, batches,
// layers) and has at most so many ranks.
constexpr int most_ranks = 64, most_planned_ranks = 1 << 20;
void check_layout(const Layout& layout, const Config& config, int most = most_ranks);

// Layers [first, last) of a stage.
struct Stage {
  int first, last;
};
std::vector<Stage> stages_of(const Layout& layout, const Config& config);

}  // namespace plumb::model

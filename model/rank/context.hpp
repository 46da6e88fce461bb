// model/rank/context.hpp: what everything on a rank may know: the run, its parallel decisions, the
// rank's place and groups, and what is under way.
//
// TESTED   tests/model/one_rank_test.cpp, tests/model/layout_test.cpp
#pragma once

#include <string>
#include <vector>

#include "model/joints/joints.hpp"
#include "model/joints/wait.hpp"
#include "model/rank/stale_gradients.hpp"
#include "model/rank/streams.hpp"
#include "model/rank/waits.hpp"
#include "model/sees.hpp"
#include "model/spec/mesh.hpp"
#include "model/spec/ownership.hpp"
#include "model/spec/training.hpp"

namespace plumb::model {

struct RankContext {
  RankContext(const Training& run, const Joints& decisions, Mesh groups, Streams& under_way,
              StaleGradients* of_step_before);

  const Config& c;
  const Recipe& r;
  const Layout& l;
  const Joints& joints;
  Mesh mesh;
  Streams& streams;
  StaleGradients* stale;   // of the step before, and at the end of this step; null: a first step
  Waits* waits = nullptr;  // for neighbours in the pipeline; null: nobody asks
  int step;
  Where where;
  std::vector<Stage> stages;  // all of them; stage s is this rank's if s mod pp is its number

  bool gpt() const { return c.family == Family::gpt; }
  // Does this rank have the first stage, with the embedding? The last, with head and loss?
  bool begins() const { return where.pp == 0; }
  bool ends() const { return where.pp == where.pp_size - 1; }
  bool holds(const Parameter& p) const;
  // How products of a module, or of a parameter, have their operands cast; null: not at all. The
  // second: one product of it.
  const OperandCasts* casts_of(const std::string& name) const;
  const OperandCasts* casts_of(const std::string& name, Product product) const;
  // The ranks that hold the same slice of a parameter, for other micro-batches.
  Communicator& copies_of(const std::string& parameter) const {
    return of_expert(parameter) ? mesh.expert_copies : mesh.dp;
  }
  // Of these, the ranks among which its shares lie under ZeRO, and the number of their group.
  Communicator& sharers_of(const std::string& parameter) const {
    if (l.sharers == 0) return copies_of(parameter);
    return of_expert(parameter) ? mesh.expert_sharers : mesh.sharers;
  }
  int replica_of_shares(const std::string& parameter) const {
    return copies_of(parameter).rank() / l.sharers_of(of_expert(parameter));
  }
  static bool of_expert(const std::string& parameter) {
    return parameter.find(".experts.") != std::string::npos;
  }
  // First index and end of this rank's slice of n.
  std::size_t first(std::size_t n) const { return n * where.tp / where.tp_size; }
  std::size_t last(std::size_t n) const { return n * (where.tp + 1) / where.tp_size; }
  // This place, asking for a module.
  Where at(const std::string& module) const;

  // Waits for the event before the tensor that it concerns is touched, unless the joint decides
  // otherwise. `of`: a parameter, or another name.
  void wait(const Event& event, Wait what, const std::string& of);
};

}  // namespace plumb::model

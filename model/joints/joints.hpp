// model/joints/joints.hpp: every parallel decision of the model, by subject: all.inc.
//
// Who asks or answers decisions of a family includes the header of that family: this one only names
// the subjects, so that it stays as it is when a decision is added.
//
// TESTED   tests/model/joints_test.cpp, tests/experiments/catch_test.cpp
#pragma once

#include <memory>

#include "model/joints/joint.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// The subjects, by the family that has them.
// clang-format off
#define PLUMB_SUBJECTS(S)                                         \
  S(tensors) S(arrivals) S(state) S(data)                         \
  S(embedding) S(dropout) S(linear) S(sequence) S(row_parallel)   \
  S(attention) S(rotation) S(packing)                             \
  S(router) S(experts)                                            \
  S(loss) S(gradients)                                            \
  S(context) S(pipeline) S(recompute) S(zero) S(padding) S(overlap)\
  S(scaling) S(optimizer)
// clang-format on

namespace decisions {
#define SUBJECT(name) struct name;
PLUMB_SUBJECTS(SUBJECT)
#undef SUBJECT
}  // namespace decisions

class Joints {
  struct All;
  std::unique_ptr<All> all_;

 public:
  Joints();  // all with their right answers
  ~Joints();
  Joints(const Joints&) = delete;
  Joints& operator=(const Joints&) = delete;

#define SUBJECT(name) decisions::name& name;
  PLUMB_SUBJECTS(SUBJECT)
#undef SUBJECT

  // Was any replaced joint asked?
  bool reached() const;
};

}  // namespace plumb::model

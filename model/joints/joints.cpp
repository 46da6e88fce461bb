#include "model/joints/joints.hpp"

#include "model/joints/attention.hpp"
#include "model/joints/experts.hpp"
#include "model/joints/gradients.hpp"
#include "model/joints/layers.hpp"
#include "model/joints/layout.hpp"
#include "model/joints/memory.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::model {

struct Joints::All {
#define SUBJECT(name) decisions::name name;
  PLUMB_SUBJECTS(SUBJECT)
#undef SUBJECT
};

Joints::~Joints() = default;

#define SUBJECT(name) , name(all_->name)
Joints::Joints() : all_(std::make_unique<All>()) PLUMB_SUBJECTS(SUBJECT) {}
#undef SUBJECT

bool Joints::reached() const {
#define SUBJECT(name) \
  {                   \
    const auto& subject = name;
#define JOINT(result, name, parameters, ...) \
  if (subject.name.reached()) return true;
#define END(name) }
#include "model/joints/all.inc"
#include "model/joints/end.inc"
  return false;
}

}  // namespace plumb::model

// paper_repro/sees.hpp: the rooms that this one looks into (cmake/picture.cmake). Their names stand
// here as its own; those of number/ are the namespace plumb itself.
#pragma once

namespace plumb::bounds {}
namespace plumb::trace {}
namespace plumb::experiments {}

namespace plumb::paper_repro {
using namespace bounds;
using namespace trace;
using namespace experiments;
}  // namespace plumb::paper_repro

// experiments/sees.hpp: the rooms that this one looks into (cmake/picture.cmake). Their names stand
// here as its own; those of number/ are the namespace plumb itself.
#pragma once

namespace plumb::bounds {}
namespace plumb::world {}
namespace plumb::trace {}
namespace plumb::kernels {}
namespace plumb::probe {}
namespace plumb::model {}
namespace plumb::injectors {}

namespace plumb::experiments {
using namespace bounds;
using namespace world;
using namespace trace;
using namespace kernels;
using namespace probe;
using namespace model;
using namespace injectors;
}  // namespace plumb::experiments

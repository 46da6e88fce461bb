// tests/support/rooms.hpp: tests look into every room.
#pragma once

namespace plumb::bounds {}
namespace plumb::world {}
namespace plumb::trace {}
namespace plumb::kernels {}
namespace plumb::probe {}
namespace plumb::model {}
namespace plumb::injectors {}
namespace plumb::experiments {}
namespace plumb::paper_repro {}
namespace plumb::cli {}

namespace plumb {
using namespace bounds;
using namespace world;
using namespace trace;
using namespace kernels;
using namespace probe;
using namespace model;
using namespace injectors;
using namespace experiments;
using namespace paper_repro;
using namespace cli;
}  // namespace plumb

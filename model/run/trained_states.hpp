// model/run/trained_states.hpp: states of trained models, each made once and kept in a folder.
#pragma once

#include <functional>
#include <string>

#include "model/run/start.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// The state in a folder, made and kept there if there is none; it is read back and verified.
// Another process that makes the same is waited for. Throws Failure on what is there and is damaged.
Trace kept_state(const std::string& folder, const std::function<Trace()>& make);

// The start of such a run on trained weights. `told(what)` says how the training goes; what it
// throws ends it. Another process that trains the same is waited for.
Start trained_start(const Recipe& recipe, const Layout& layout, const Config& config,
                    const std::string& cache, const std::function<void(const std::string&)>& told);

}  // namespace plumb::model

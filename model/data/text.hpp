// model/data/text.hpp: the text that the model trains on unless it is given another.
#pragma once

#include <string_view>

#include "model/sees.hpp"

namespace plumb::model {

std::string_view default_text();  // embedded from devils_dictionary.txt

}  // namespace plumb::model

// model/data/text.hpp: the text that the model trains on unless it is given another.
#pragma once

#include <string_view>

namespace plumb {

std::string_view default_text();  // embedded from devils_dictionary.txt

}  // namespace plumb

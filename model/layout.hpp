// model/layout.hpp: how a run is spread over ranks. Grammar: "dp2,tp2,sp", each part once.
#pragma once

#include <string>

#include "model/config.hpp"

namespace plumb {

struct Layout {
  int dp = 1;       // micro-batch m goes to data-parallel rank m mod dp
  int tp = 1;       // heads, MLP units and vocabulary in tp contiguous slices
  bool sp = false;  // tokens of norms and residuals in tp contiguous slices
  int world_size() const { return dp * tp; }
  bool operator==(const Layout&) const = default;
};

// Throws Failure on a part that is not in the grammar.
Layout parse_layout(const std::string& text);
std::string name_of(const Layout& layout);
// Throws Failure unless the layout divides the model (heads, units, vocabulary, tokens, batches).
void check_layout(const Layout& layout, const Config& config);

}  // namespace plumb

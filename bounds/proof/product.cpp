// number/product.hpp, over the numbers that proofs are made with.
#include "bounds/proof/moment.hpp"
#include "bounds/proof/truth.hpp"
#include "number/tiles.hpp"

namespace plumb {

template void multiply(View<bounds::Moment>, View<bounds::Moment>, bounds::Moment*, std::size_t,
                       bool);
template void multiply(View<bounds::Truth>, View<bounds::Truth>, bounds::Truth*, std::size_t, bool);

}  // namespace plumb

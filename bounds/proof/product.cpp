// number/product.hpp, over the numbers that proofs are made with.
#include "bounds/proof/big_float.hpp"
#include "bounds/proof/error_moments.hpp"
#include "number/tiles.hpp"

namespace plumb {

template void multiply(View<bounds::ErrorMoments>, View<bounds::ErrorMoments>,
                       bounds::ErrorMoments*, std::size_t, bool);
template void multiply(View<bounds::BigFloat>, View<bounds::BigFloat>, bounds::BigFloat*,
                       std::size_t, bool);

}  // namespace plumb

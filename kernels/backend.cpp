#include "kernels/backend.hpp"

#include <array>
#include <string>

#include "bounds/outcome.hpp"

namespace plumb {

extern const Backend reference_backend;
extern const Backend eigen_backend;
extern const Backend onednn_backend;
extern const Backend cublas_backend;

std::span<const Backend* const> all_backends() {
  static constexpr std::array backends{&reference_backend, &eigen_backend, &onednn_backend,
                                       &cublas_backend};
  return backends;
}

const Backend& find_backend(std::string_view name) {
  std::string known;
  for (const Backend* backend : all_backends()) {
    if (backend->name == name && backend->usable_here()) return *backend;
    known += (known.empty() ? "" : ", ") + std::string(backend->name);
  }
  throw Failure("backend '" + std::string(name) +
                "' is unknown or not usable here; known: " + known);
}

}  // namespace plumb

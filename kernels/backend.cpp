#include "kernels/backend.hpp"

#include <array>
#include <string>

#include "number/outcome.hpp"

namespace plumb::kernels {

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
  bool known = false;
  std::string usable;
  for (const Backend* backend : all_backends()) {
    known = known || backend->name == name;
    if (!backend->usable_here()) continue;
    if (backend->name == name) return *backend;
    usable += (usable.empty() ? "" : ", ") + std::string(backend->name);
  }
  throw Failure("backend '" + std::string(name) + "' is " +
                (known ? "not usable on this machine" : "unknown") + "; choose " + usable);
}

}  // namespace plumb::kernels

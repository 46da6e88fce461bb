// What a user says of tensors in place of their trace (a map of names, too), at work on some names.
#include "number/outcome.hpp"
#include "tests/fuzz/reader.hpp"
#include "trace/store/json.hpp"
#include "trace/store/overriding.hpp"
#include "trace/store/spelling.hpp"

namespace plumb::fuzz::overrides_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 2);
  trace::Overriding overriding(trace::Overrides(put("overrides.json", parts[0])));
  const trace::Mesh mesh{{{"pp", 2}, {"tp", 2}}};
  const trace::Extents shape{4, 6};
  const std::string name(parts[1]);
  if (trace::steers_a_terminal(name)) return;  // a trace with such a name is refused
  for (const std::string& of : {name, std::string("decoder.layers.3.qkv.weight")}) {
    const auto over = overriding.applied(of, nlohmann::json::object(), 2, mesh);
    (void)trace::described(over.says, of, shape, mesh);
    for (const auto& part : over.parts)
      (void)trace::part_of({shape, shape, {{{0, 0}, {0, 0}, shape}}}, part.lies);
  }
  overriding.refuse_idle();
}

const Reader overrides("overrides", read);

}  // namespace
}  // namespace plumb::fuzz::overrides_reader

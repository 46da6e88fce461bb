// Labels of a corpus of runs, and a checker's verdicts on them.
#include "experiments/corpus/score.hpp"
#include "tests/fuzz/reader.hpp"
#include "trace/store/json.hpp"

namespace plumb::fuzz::score_reader {
namespace {

void read(Bytes bytes) {
  const auto parts = parts_of(bytes, 2);
  const auto labels =
      experiments::labels_from(trace::parsed(std::string(parts[0]), "labels"), "labels");
  const auto verdicts = experiments::verdicts_from(std::string(parts[1]), labels, "verdicts");
  (void)experiments::score_of(labels, verdicts, 0.01);
}

const Reader score("score", read);

}  // namespace
}  // namespace plumb::fuzz::score_reader

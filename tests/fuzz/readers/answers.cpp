// What a subject has answered, kept in a file that a kill may have cut anywhere.
#include "probe/answers.hpp"

#include "tests/fuzz/reader.hpp"

namespace plumb::fuzz::answers_reader {
namespace {

const Reader answers("answers", [](Bytes bytes) {
  const bool whole = bytes.starts_with("plumb");
  const probe::Answers kept(
      put("answers", whole ? std::string(bytes) : "plumb-answers/1 me\n" + std::string(bytes)),
      "me");
  (void)kept.kept();
});

}  // namespace
}  // namespace plumb::fuzz::answers_reader

// Is the table in the room's README what the committed rows say?
#include <gtest/gtest.h>

#include <fstream>

#include "paper_repro/claim.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {
namespace {

TEST(Claims, StandInTheReadmeAsTheRowsSay) {
  std::ifstream in(std::string(PLUMB_SOURCE_DIR) + "/paper_repro/README.md");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::string begin = "<!-- claims -->\n", end = "<!-- end -->";
  const std::size_t first = text.find(begin), last = text.find(end);
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(last, std::string::npos);
  const std::size_t start = first + begin.size();
  EXPECT_EQ(text.substr(start, last - start), claim_table());
}

}  // namespace
}  // namespace plumb

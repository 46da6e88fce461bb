// Is a file whole at any time, and is what was not finished gone or named?
#include "trace/store/unfinished.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"
#include "trace/store/read_file.hpp"

namespace plumb::unfinished_test {
namespace {

namespace fs = std::filesystem;

class UnfinishedFiles : public testing::Test {
 protected:
  UnfinishedFiles()
      : folder_(fs::temp_directory_path() / ("plumb-unfinished-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~UnfinishedFiles() override { fs::remove_all(folder_); }
  static std::string content_of(const fs::path& file) {
    std::ifstream in(file);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  fs::path folder_;
};

TEST_F(UnfinishedFiles, TakeTheFinalNameOrNone) {
  {
    Unfinished folder(folder_ / "trace");
    fs::create_directory(folder.path());
    std::ofstream(folder.path() / "half") << "a";
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  write_whole(folder_ / "file", "old");
  write_whole(folder_ / "file", "new");
  EXPECT_EQ(content_of(folder_ / "file"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(UnfinishedFiles, ReplaceALinkAndDoNotFollowIt) {
  EXPECT_THROW(write_whole(folder_ / "no-folder/file", "new"), Failure);
  std::ofstream(folder_ / "precious") << "old";
  fs::create_symlink(folder_ / "precious", folder_ / "link");
  write_whole(folder_ / "link", "new");
  EXPECT_EQ(content_of(folder_ / "precious"), "old");
  EXPECT_EQ(content_of(folder_ / "link"), "new");
}

TEST_F(UnfinishedFiles, AreDiscardedWhenTheirMakerIsAskedTo) {
  const Unfinished folder(folder_ / "trace");
  fs::create_directory(folder.path());
  EXPECT_EQ(discard_unfinished().paths, std::vector{folder.path()});
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(UnfinishedFiles, AreNamedWhenTheirMakerIsGone) {
  const pid_t child = fork();
  if (child == 0) {
    new Unfinished(folder_ / "trace");
    fs::create_directory(folder_ / ("trace.partial-" + std::to_string(getpid())));
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  Unfinished ours(folder_ / "other");
  fs::create_directory(ours.path());
  std::ofstream(folder_ / "my.partial-notes") << "mine";
  EXPECT_EQ(left_beside(folder_ / "next"),
            std::vector{folder_ / ("trace.partial-" + std::to_string(child))});
}

TEST_F(UnfinishedFiles, AreReadWholeOrRefusedWithoutWaiting) {
  const auto why = [](const fs::path& file) {
    const auto text = read_file(file, 100);
    return text ? *text : "refused: it " + text.error().detail;
  };
  std::ofstream(folder_ / "file") << "text";
  EXPECT_EQ(why(folder_ / "file"), "text");
  EXPECT_EQ(why(folder_ / "none"), "refused: it does not exist");
  EXPECT_EQ(why(folder_), "refused: it is a folder");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(why(folder_ / "pipe"), "refused: it is a device or a pipe");
  EXPECT_EQ(why("/dev/zero"), "refused: it is a device or a pipe");
  fs::create_symlink("/proc/kmsg", folder_ / "kernel");  // a plain file, it says, and waits
  EXPECT_EQ(why(folder_ / "kernel"), "refused: it is empty");
  std::ofstream(folder_ / "long") << std::string(101, 'a');
  EXPECT_EQ(why(folder_ / "long"), "refused: it is larger than 100 bytes");
}

}  // namespace
}  // namespace plumb::unfinished_test

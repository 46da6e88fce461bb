// Are syncs made and in their order, and is a disk that says no heard?
#include "trace/store/disk.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"
#include "trace/store/unfinished.hpp"

namespace {
int syncs = 0;
}

// In the place of the C library's, for this whole program.
extern "C" int fsync(int file) {
  ++syncs;
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace plumb::disk_test {
namespace {

namespace fs = std::filesystem;

class Disk : public testing::Test {
 protected:
  Disk() : folder_(fs::temp_directory_path() / ("plumb-disk-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Disk() override { fs::remove_all(folder_); }

  // The steps of what is done, as words and names.
  std::string told(const std::function<void()>& done) const {
    constexpr const char* words[] = {"create", "write",  "cut",    "sync",
                                     "folder", "rename", "remove", "names"};
    std::string all;
    const DiskRecording recording([&](const DiskStep& step) {
      all += std::string(all.empty() ? "" : ", ") + words[static_cast<int>(step.kind)] + " " +
             step.path.lexically_relative(folder_).string();
    });
    done();
    return all;
  }
  std::string content(const std::string& name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
};

TEST_F(Disk, SyncsAFileItsNewNameAndEveryFolderOnTheWay) {
  syncs = 0;
  write_whole(folder_ / "file", "text");
  EXPECT_EQ(syncs, 2) << "the file, and the folder with its name";
  syncs = 0;
  make_folders(folder_ / "a/b/c/");
  EXPECT_EQ(syncs, 3);
  make_folders(folder_ / "a/b/c");
  EXPECT_EQ(syncs, 3) << "they were there";
  syncs = 0;
  sync_names(folder_ / "a");
  EXPECT_EQ(syncs, 3) << "a, b and c";
}

TEST_F(Disk, TellsWhatItDoesInItsOrderAndThenDoesNotSync) {
  syncs = 0;
  const std::string partial = "file.partial-" + std::to_string(getpid());
  EXPECT_EQ(told([&] { write_whole(folder_ / "file", "text"); }),
            "create " + partial + ", write " + partial + ", sync " + partial + ", rename " +
                partial + ", names .");
  EXPECT_EQ(told([&] {
              cut_file(folder_ / "file", 2);
              take_away(folder_ / "file");
              take_away(folder_ / "file");
              make_folder(folder_ / "a");
              make_folder(folder_ / "a");
            }),
            "cut file, remove file, folder a");
  EXPECT_EQ(syncs, 0);
}

TEST_F(Disk, WritesAtAnyPlaceBehindAndInPiecesOfAnyLength) {
  const std::string lengthy(200'000, 'x');
  {
    DiskFile out(folder_ / "file");
    out << "0123456789" << lengthy;
    out.seekp(4);
    out << "ab";
    out.finish();
  }
  EXPECT_EQ(content("file"), "0123ab6789" + lengthy);
  DiskFile behind(folder_ / "file", DiskFile::How::append);
  behind << "end";
  behind.finish_unsynced();
  EXPECT_EQ(content("file"), "0123ab6789" + lengthy + "end");
}

TEST_F(Disk, SaysWhyItCannotBeWritten) {
  std::ofstream(folder_ / "there") << "old";
  EXPECT_THROW(DiskFile(folder_ / "there"), fs::filesystem_error);
  EXPECT_THROW(DiskFile(folder_ / "no/folder"), fs::filesystem_error);
  EXPECT_THROW(take_name(folder_ / "none", folder_ / "new"), fs::filesystem_error);
  EXPECT_THROW(make_folders(folder_ / "there/below"), fs::filesystem_error);
  DiskFile full("/dev/full", DiskFile::How::append);
  full << "text";
  EXPECT_THROW(full.finish(), fs::filesystem_error);
  try {
    write_whole(folder_ / "no/folder", "text");
    FAIL();
  } catch (const Failure& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("No such file"), std::string::npos);
  }
}

TEST_F(Disk, IsRecordedByOneAtATime) {
  const DiskRecording first([](const DiskStep&) {});
  EXPECT_THROW(DiskRecording([](const DiskStep&) {}), std::logic_error);
}

}  // namespace
}  // namespace plumb::disk_test

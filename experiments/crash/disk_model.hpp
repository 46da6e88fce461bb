// experiments/crash/disk_model.hpp: a disk on paper, and the states in which a crash may leave it.
//
//   A file is a list of writes and cuts, a folder a list of names that were given, changed and taken
//   away. A sync of a file brings its list so far to the disk, a sync of a folder its own; what was
//   not synced a crash may lose:
//   - of a file: everything; everything behind any write; any one write, whose bytes are then what
//     they were (old ones, or zeros in a file that grew); its bytes behind any boundary of a block,
//     or in the middle of one, while its length is cut or stays (zeros, as of delayed allocation);
//     any one block, zeros or old (of more than nine blocks the first and last three, and about
//     three that are drawn);
//   - of a folder: all behind any change of a name. A name that was changed may so be on the disk
//     before the bytes of the file that it now names;
//   - each file and folder independently of all others, whatever came first.
//   That is weaker than what journals of ext4 and XFS promise, and than what POSIX says of fsync:
//   a file's sync does not bring its name along. (An abstract disk as of [ALICE].)
//
// ASSUMES  A sync tells the truth. A change of a name happens or not. Blocks have 512 bytes, the
//          least that disks write. Names change within one folder (unfinished.hpp does no other).
// REFUSES  std::logic_error on steps outside of the folder, or that a disk would have refused.
// TESTED   tests/experiments/crash_test.cpp
// SOURCES  bounds/SOURCES.md [ALICE]
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/sees.hpp"
#include "trace/store/disk.hpp"

namespace plumb::experiments {

// Files with their bytes, by path from the root; folders, which end with a slash, without.
using Tree = std::map<std::string, std::string>;

class DiskModel {
 public:
  // Paths of steps lie below `root`, which is there and empty.
  explicit DiskModel(std::filesystem::path root);

  // `synced` false: a sync that the disk promised and did not do.
  void apply(const DiskStep& step, bool synced = true);

  // As it would be without a crash.
  Tree now() const;

  // How many states are at most enumerated one by one at one moment, and drawn where there are more.
  struct Effort {
    std::size_t product = 256;
    std::size_t drawn = 32;
    std::uint64_t seed = 1;
    bool torn = true;  // blocks of files, too; else writes are kept or lost as a whole
  };
  // Tells states that a crash now may leave; the same one may be told twice. All combinations of
  // what each file and each folder may lose, where that is at most effort.product. Else: with all
  // others kept, and again with all others lost, each loss of each file and folder; and so many
  // that are drawn, for which `drawn` is true.
  void states(const Effort& effort,
              const std::function<void(const Tree& tree, bool drawn)>& told) const;

 private:
  struct Change {  // of a file: bytes at a place, or a cut
    std::uint64_t at;
    std::string bytes;
    bool is_cut;
  };
  struct Naming {  // of a folder: `name` is now of this node; before it was `was`; -1: none
    std::string name, was;
    int node;
  };
  struct Node {
    bool is_folder;
    std::vector<Change> changes;
    std::vector<Naming> namings;
    std::size_t synced = 0;  // so many of them are on the disk
  };
  using Names = std::map<std::string, int>;

  int find(const std::filesystem::path& path) const;
  int folder_of(const std::filesystem::path& path) const;
  void name(const std::filesystem::path& path, int node);
  static Names names_of(const Node& folder, std::size_t many);
  static std::string content_of(const Node& file, std::size_t many, std::size_t without);
  static std::vector<std::string> contents_of(const Node& file, bool torn);
  void put(Tree& tree, const std::string& path, int folder, const std::vector<std::size_t>& kept,
           const std::vector<std::vector<std::string>>& contents) const;

  std::filesystem::path root_;
  std::vector<Node> nodes_;
};

}  // namespace plumb::experiments

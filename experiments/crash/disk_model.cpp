#include "experiments/crash/disk_model.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

namespace plumb::experiments {
namespace {

namespace fs = std::filesystem;
using Kind = DiskStep::Kind;

constexpr std::size_t block = 512;
constexpr std::size_t most_blocks = 9;  // that are torn one by one
constexpr std::size_t none = ~std::size_t(0);

// Bytes `from` to `to` of a file as they were, or zeros where there were none.
std::string with_lost(std::string bytes, const std::string& was, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < std::min(to, bytes.size()); ++i) {
    bytes[i] = i < was.size() ? was[i] : '\0';
  }
  return bytes;
}

// Where blocks begin that are torn: all of a short file; of a longer one the first, the last and
// some that its length draws.
std::vector<std::size_t> blocks_of(std::size_t size) {
  const std::size_t all = (size + block - 1) / block;
  std::mt19937_64 random(size);
  std::vector<std::size_t> begins;
  for (std::size_t b = 0; b < all; ++b) {
    const bool at_end = b < most_blocks / 3 || b + most_blocks / 3 >= all;
    if (all <= most_blocks || at_end || random() % all < most_blocks / 3) {
      begins.push_back(b * block);
    }
  }
  return begins;
}

// The ways to tear what a file has into blocks that are on the disk and others that are not.
void tear(const std::string& bytes, const std::string& was, std::vector<std::string>& into) {
  for (const std::size_t from : blocks_of(bytes.size())) {
    const std::size_t middle = (from + std::min(from + block, bytes.size())) / 2;
    for (const std::size_t at : {from, middle}) {
      if (at >= was.size()) into.push_back(bytes.substr(0, at));
      into.push_back(with_lost(bytes, was, at, bytes.size()));
    }
    into.push_back(with_lost(bytes, was, from, from + block));
    into.push_back(with_lost(bytes, "", from, from + block));
  }
}

}  // namespace

DiskModel::DiskModel(fs::path root) : root_(std::move(root)) { nodes_.push_back({true, {}, {}}); }

DiskModel::Names DiskModel::names_of(const Node& folder, std::size_t many) {
  Names names;
  for (std::size_t i = 0; i < many; ++i) {
    const Naming& n = folder.namings[i];
    if (!n.was.empty()) names.erase(n.was);
    if (n.node >= 0) {
      names[n.name] = n.node;
    } else {
      names.erase(n.name);
    }
  }
  return names;
}

// The node of a path, or -1.
int DiskModel::find(const fs::path& path) const {
  const fs::path below = path.lexically_normal().lexically_relative(root_.lexically_normal());
  if (below.empty() || *below.begin() == "..") {
    throw std::logic_error(path.string() + " lies outside of the disk");
  }
  int at = 0;
  for (const fs::path& part : below) {
    if (part == "." || part.empty()) continue;
    if (at < 0 || !nodes_[static_cast<std::size_t>(at)].is_folder) return -1;
    const Node& folder = nodes_[static_cast<std::size_t>(at)];
    const Names names = names_of(folder, folder.namings.size());
    const auto found = names.find(part.string());
    at = found == names.end() ? -1 : found->second;
  }
  return at;
}

int DiskModel::folder_of(const fs::path& path) const {
  const int folder = find(path.parent_path());
  if (folder < 0) throw std::logic_error(path.string() + " has no folder");
  return folder;
}

void DiskModel::name(const fs::path& path, int node) {
  const int folder = folder_of(path);
  nodes_[static_cast<std::size_t>(folder)].namings.push_back({path.filename().string(), "", node});
}

void DiskModel::apply(const DiskStep& step, bool synced) {
  if (step.kind == Kind::create || step.kind == Kind::make_folder) {
    if (find(step.path) >= 0) throw std::logic_error(step.path.string() + " is there already");
    name(step.path, static_cast<int>(nodes_.size()));
    nodes_.push_back({step.kind == Kind::make_folder, {}, {}});
    return;
  }
  const int at = find(step.path);
  if (at < 0) throw std::logic_error(step.path.string() + " is not there");
  Node& node = nodes_[static_cast<std::size_t>(at)];
  switch (step.kind) {
    case Kind::write:
      node.changes.push_back({step.at, step.bytes, false});
      break;
    case Kind::cut:
      node.changes.push_back({step.at, "", true});
      break;
    case Kind::sync:
      if (synced) node.synced = node.changes.size();
      break;
    case Kind::sync_folder:
      if (synced) node.synced = node.namings.size();
      break;
    case Kind::remove:
      name(step.path, -1);
      break;
    case Kind::rename: {
      const int folder = folder_of(step.path);
      if (folder_of(step.to) != folder) throw std::logic_error("a name changes its folder");
      nodes_[static_cast<std::size_t>(folder)].namings.push_back(
          {step.to.filename().string(), step.path.filename().string(), at});
      break;
    }
    default:
      throw std::logic_error("no such step");
  }
}

// The first so many changes of a file, but for one.
std::string DiskModel::content_of(const Node& file, std::size_t many, std::size_t without) {
  std::string bytes;
  for (std::size_t i = 0; i < many; ++i) {
    const Change& change = file.changes[i];
    if (change.is_cut && i != without) bytes.resize(change.at);
    if (change.is_cut) continue;
    const std::size_t end = change.at + change.bytes.size();
    if (i == without) continue;
    if (bytes.size() < end) bytes.resize(end);
    bytes.replace(change.at, change.bytes.size(), change.bytes);
  }
  return bytes;
}

// All that may be found of a file: first as it was synced, last as it is.
std::vector<std::string> DiskModel::contents_of(const Node& file, bool torn) {
  const std::size_t all = file.changes.size();
  const std::string was = content_of(file, file.synced, none);
  std::vector<std::string> contents{was};
  if (file.synced == all) return contents;
  for (std::size_t many = file.synced + 1; many < all; ++many) {
    contents.push_back(content_of(file, many, none));
  }
  for (std::size_t lost = file.synced; lost + 1 < all; ++lost) {
    contents.push_back(content_of(file, all, lost));
  }
  const std::string bytes = content_of(file, all, none);
  if (torn) tear(bytes, was, contents);
  contents.push_back(bytes);
  return contents;
}

// Adds to `tree` what lies in a folder; kept[node]: so many of its namings, or which content.
void DiskModel::put(Tree& tree, const std::string& path, int folder,
                    const std::vector<std::size_t>& kept,
                    const std::vector<std::vector<std::string>>& contents) const {
  const auto at = static_cast<std::size_t>(folder);
  for (const auto& [name, node] : names_of(nodes_[at], nodes_[at].synced + kept[at])) {
    const auto n = static_cast<std::size_t>(node);
    if (nodes_[n].is_folder) {
      tree[path + name + "/"];
      put(tree, path + name + "/", node, kept, contents);
    } else {
      tree[path + name] = contents[n][kept[n]];
    }
  }
}

Tree DiskModel::now() const {
  std::vector<std::size_t> kept;
  std::vector<std::vector<std::string>> contents;
  for (const Node& node : nodes_) {
    kept.push_back(node.is_folder ? node.namings.size() - node.synced : 0);
    contents.push_back({content_of(node, node.changes.size(), none)});
  }
  Tree tree;
  put(tree, "", 0, kept, contents);
  return tree;
}

void DiskModel::states(const Effort& effort,
                       const std::function<void(const Tree&, bool)>& told) const {
  std::vector<std::vector<std::string>> contents;
  std::vector<std::size_t> most;  // kept[n] is at most this
  for (const Node& node : nodes_) {
    contents.push_back(node.is_folder ? std::vector<std::string>()
                                      : contents_of(node, effort.torn));
    most.push_back(node.is_folder ? node.namings.size() - node.synced : contents.back().size() - 1);
  }
  const auto tell = [&](const std::vector<std::size_t>& kept, bool drawn) {
    Tree tree;
    put(tree, "", 0, kept, contents);
    told(tree, drawn);
  };
  std::size_t product = 1;
  for (const std::size_t n : most) product = std::min(product * (n + 1), effort.product + 1);
  if (product <= effort.product) {
    for (std::size_t p = 0; p < product; ++p) {
      std::vector<std::size_t> kept;
      std::size_t rest = p;
      for (const std::size_t n : most) {
        kept.push_back(rest % (n + 1));
        rest /= n + 1;
      }
      tell(kept, false);
    }
    return;
  }
  for (std::vector<std::size_t> kept : {most, std::vector<std::size_t>(most.size(), 0)}) {
    for (std::size_t n = 0; n < most.size(); ++n) {
      const std::size_t at_rest = kept[n];
      for (kept[n] = 0; kept[n] <= most[n]; ++kept[n]) tell(kept, false);
      kept[n] = at_rest;
    }
  }
  std::mt19937_64 random(effort.seed);
  for (std::size_t d = 0; d < effort.drawn; ++d) {
    std::vector<std::size_t> kept;
    for (const std::size_t n : most) kept.push_back(random() % (n + 1));
    tell(kept, true);
  }
}

}  // namespace plumb::experiments

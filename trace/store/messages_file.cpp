#include "trace/store/messages_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "number/words.hpp"
#include "trace/store/json.hpp"

namespace plumb::trace {
namespace {

constexpr int most_ranks = 4096;
constexpr std::size_t most_numbers = std::size_t{1} << 40;

std::filesystem::path file_of(const std::filesystem::path& step, int rank) {
  return step / fmt::format("messages_{:05d}.safetensors", rank);
}

std::vector<std::size_t> sizes_in(const nlohmann::json& says, const char* name) {
  std::vector<std::size_t> sizes;
  if (!says.contains(name)) return sizes;
  for (const auto& size : says.at(name)) sizes.push_back(whole_number(size, most_numbers));
  return sizes;
}

const StoredTensor* tensor_of(const TensorFile& file, const std::string& name,
                              const std::vector<std::size_t>& sizes) {
  const auto found = file.tensors().find(name);
  const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  if (found == file.tensors().end() ? all > 0 : found->second.size != all)
    damaged(file.path(),
            fmt::format("does not have the {} of '{}'", how_many(all, "number"), name));
  if (found == file.tensors().end()) return nullptr;
  if (!found->second.unreadable.empty())
    unsupported(file.path(), fmt::format("has '{}', {}", name, found->second.unreadable));
  return &found->second;
}

Message message_of(const std::shared_ptr<TensorFile>& file, const std::string& name,
                   const std::string& text, int rank, int ranks) {
  const nlohmann::json says = parsed(text, file->path());
  Message m;
  m.op = says.at("op").get<std::string>();
  m.reduce = says.value("reduce", "");
  m.at = says.value("at", "");
  if (steers_a_terminal(m.op + m.reduce + m.at))
    damaged(file->path(), "has control characters in '" + name + "'");
  for (const auto& r : says.at("group"))
    m.group.push_back(static_cast<int>(whole_number(r, static_cast<std::uint64_t>(ranks - 1))));
  std::vector<int> sorted = m.group;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end() ||
      std::ranges::find(sorted, rank) == sorted.end())
    damaged(file->path(), fmt::format("says in '{}' that rank {} calls with ranks {}", name, rank,
                                      fmt::join(m.group, ", ")));
  if (says.contains("root")) {
    m.root = static_cast<int>(whole_number(says.at("root"), static_cast<std::uint64_t>(ranks - 1)));
    if (std::ranges::find(sorted, m.root) == sorted.end())
      damaged(file->path(), fmt::format("has a root in '{}' that is not of its group", name));
  }
  m.given = sizes_in(says, "given");
  m.got = sizes_in(says, "got");
  m.file = file;
  m.in = tensor_of(*file, name + "/given", m.given);
  m.out = tensor_of(*file, name + "/got", m.got);
  return m;
}

std::vector<Message> messages_of(const std::filesystem::path& step, int rank, int ranks) {
  const std::filesystem::path path = file_of(step, rank);
  if (!std::filesystem::exists(path))
    throw Failure(fmt::format("{} is not there, and {} others are: each rank records its messages",
                              path.string(), ranks - 1));
  const auto file = std::make_shared<TensorFile>(path);
  std::vector<Message> all;
  try {
    for (std::size_t n = 0; file->metadata().contains(std::to_string(n)); ++n) {
      const std::string name = std::to_string(n);
      all.push_back(message_of(file, name, file->metadata().at(name), rank, ranks));
    }
  } catch (const nlohmann::json::exception& wrong) {
    damaged(path, std::string("says what is no message: ") + wrong.what());
  }
  if (all.size() != file->metadata().size())
    damaged(path, "has messages that are not numbered from 0 on");
  for (const auto& [name, tensor] : file->tensors()) {
    if (!file->metadata().contains(name.substr(0, name.find('/'))))
      damaged(path, "has numbers '" + name + "' of a call of which it says nothing");
  }
  return all;
}

}  // namespace

bool has_messages(const std::filesystem::path& step, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (std::filesystem::exists(file_of(step, rank))) return true;
  }
  return false;
}

std::vector<std::vector<Message>> read_messages(const std::filesystem::path& step, int ranks) {
  if (ranks < 1 || ranks > most_ranks) throw Failure(fmt::format("{} ranks are no run", ranks));
  std::vector<std::vector<Message>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(messages_of(step, rank, ranks));
  return all;
}

}  // namespace plumb::trace

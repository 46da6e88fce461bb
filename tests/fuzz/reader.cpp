#include "tests/fuzz/reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>

#include "number/outcome.hpp"
#include "trace/store/json.hpp"

namespace plumb::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<Reader>& registered() {
  static std::vector<Reader> all;
  return all;
}

// The folder, which goes with the process.
class Place {
 public:
  Place() {
    const fs::path memory = "/dev/shm";
    const bool given = std::getenv("TMPDIR") != nullptr || !fs::is_directory(memory);
    path_ =
        (given ? fs::temp_directory_path() : memory) / ("plumb-fuzz-" + std::to_string(getpid()));
    fs::create_directories(path_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void check_sentence(const std::string& name, const std::string& sentence) {
  if (sentence.empty()) throw std::logic_error(name + " refuses without a word");
  if (!trace::steers_a_terminal(sentence)) return;
  throw std::logic_error(name + " says control characters: " + sentence);
}

}  // namespace

Reader::Reader(std::string name, void (*read)(Bytes)) : name_(std::move(name)), read_(read) {
  registered().push_back(*this);
}

void Reader::operator()(Bytes bytes) const {
  (void)folder();
  forget_most();
  const std::size_t before = heap_now();
  try {
    read_(bytes);
  } catch (const Failure& failure) {
    check_sentence(name_, failure.what());
  }
  const std::size_t took = heap_most() - before;
  if (took <= fixed + each * bytes.size()) return;
  throw std::logic_error(name_ + " takes " + std::to_string(took) + " bytes of memory for " +
                         std::to_string(bytes.size()));
}

std::vector<Reader> all_readers() {
  std::vector<Reader> all = registered();
  std::ranges::sort(all, {}, &Reader::name);
  return all;
}

Reader reader_named(const std::string& name) {
  std::string names;
  for (const Reader& reader : all_readers()) {
    if (reader.name() == name) return reader;
    names += " " + reader.name();
  }
  throw std::invalid_argument("there is no reader '" + name + "'; there are:" + names);
}

std::vector<Bytes> parts_of(Bytes bytes, std::size_t least) {
  std::vector<Bytes> parts;
  for (std::size_t end = 0; end != bytes.npos;
       bytes.remove_prefix(std::min(end + 1, bytes.size()))) {
    end = bytes.find('\x1e');
    parts.push_back(bytes.substr(0, end));
    if (end == bytes.npos) break;
  }
  parts.resize(std::max(parts.size(), least));
  return parts;
}

std::string framed(Bytes part) {
  const std::size_t end = std::min(part.find('\0'), part.size());
  const std::uint64_t length = end;
  std::string file(reinterpret_cast<const char*>(&length), 8);
  file += part.substr(0, end);
  file += part.substr(std::min(end + 1, part.size()));
  return file;
}

const fs::path& folder() {
  static const Place place;
  return place.path();
}

fs::path put(const std::string& name, Bytes bytes) {
  const fs::path file = folder() / name;
  if (bytes.empty()) {
    fs::remove(file);
    return file;
  }
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
  return file;
}

}  // namespace plumb::fuzz

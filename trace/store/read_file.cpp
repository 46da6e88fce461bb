#include "trace/store/read_file.hpp"

#include <cerrno>
#include <fstream>
#include <system_error>

namespace plumb::trace {

namespace fs = std::filesystem;

Outcome<std::string> read_file(const fs::path& file, std::uintmax_t longest) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (error && fs::status_known(status) && !fs::exists(status)) return no("does not exist");
  if (error) return no("may not be read (" + error.message() + ")");
  if (fs::is_directory(status)) return no("is a folder");
  if (!fs::is_regular_file(status)) return no("is a device or a pipe");
  const std::uintmax_t size = fs::file_size(file, error);
  if (error || size == 0) return no("is empty");
  if (size > longest) return no("is larger than " + std::to_string(longest) + " bytes");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) return no("may not be read (" + std::generic_category().message(errno) + ")");
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

void refuse_unreadable(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!error && fs::is_directory(status)) fs::directory_iterator(path, error);
  if (error != std::errc::permission_denied) return;
  throw Failure(path.string() + " may not be read (" + error.message() +
                "); ask its owner for leave, or name another place");
}

}  // namespace plumb::trace

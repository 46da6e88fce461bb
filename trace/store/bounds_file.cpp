#include "trace/store/bounds_file.hpp"

#include <nlohmann/json.hpp>

#include "number/outcome.hpp"

namespace plumb::trace {

using nlohmann::json;

BoundsFile::BoundsFile(const std::filesystem::path& file, const std::vector<Output>& outputs,
                       bool moments, std::span<const std::size_t> rows)
    : path_(file), unfinished_(file) {
  json header = json::object();
  std::uint64_t offset = 0;
  const auto add_tensor = [&](const std::string& name, const char* type, const auto& shape) {
    std::uint64_t bytes = 8;
    for (const std::size_t d : shape) bytes *= d;
    header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {offset, offset + bytes}}};
    next_[name] = offset;
    offset += bytes;
  };
  for (const Output& output : outputs) {
    add_tensor(output.name + ".value", "F64", output.shape);
    add_tensor(output.name + ".bound", "F64", output.shape);
    if (moments) add_tensor(output.name + ".bias", "F64", output.shape);
  }
  if (!rows.empty()) add_tensor("rows", "I64", std::vector<std::size_t>{rows.size()});
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  for (auto& [name, at] : next_) at += 8 + length;
  try {
    out_ = std::make_unique<DiskFile>(unfinished_.path());
  } catch (const std::filesystem::filesystem_error& error) {
    refuse_unwritable(path_, error);
  }
  out_->write(reinterpret_cast<const char*>(&length), 8);
  out_->write(text.data(), static_cast<std::streamsize>(length));
  if (rows.empty()) return;
  const std::vector<std::int64_t> numbers(rows.begin(), rows.end());
  out_->seekp(static_cast<std::streamoff>(next_["rows"]));
  out_->write(reinterpret_cast<const char*>(numbers.data()),
              static_cast<std::streamsize>(numbers.size() * 8));
}

void BoundsFile::add(const std::string& tensor, std::span<const double> numbers) {
  std::uint64_t& at = next_.at(tensor);
  out_->seekp(static_cast<std::streamoff>(at));
  out_->write(reinterpret_cast<const char*>(numbers.data()),
              static_cast<std::streamsize>(numbers.size_bytes()));
  if (!*out_) finish();  // which says why
  at += numbers.size_bytes();
}

void BoundsFile::finish() {
  try {
    out_->finish();
    unfinished_.finish();
  } catch (const std::filesystem::filesystem_error& error) {
    refuse_unwritable(path_, error);
  }
}

}  // namespace plumb::trace

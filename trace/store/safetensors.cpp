#include "trace/store/safetensors.hpp"

#include <bit>
#include <cstring>
#include <fstream>

#include "number/words.hpp"
#include "trace/store/json.hpp"
#include "trace/store/read_file.hpp"
#include "trace/store/safetensors_header.hpp"

namespace plumb::trace {
namespace {

using nlohmann::json;

constexpr std::uint64_t most_of_a_shard = std::uint64_t(1) << 33;
constexpr std::uint64_t most_parts = 4096;  // as many as ranks

// Numbers that BF16 does not have are stored as they are, whatever the shard says of them.
bool two_bytes(const Shard& shard) {
  if (!(shard.format == bf16)) return false;
  std::uint32_t below = 0;  // bits that BF16 has no room for
  for (const float x : shard.values.values) below |= std::bit_cast<std::uint32_t>(x) & 0xffffU;
  return below == 0;
}

json placement_to_json(const Shard& shard) {
  const Placement& p = shard.placement;
  json pieces = json::array();
  for (const Piece& q : p.pieces) {
    pieces.push_back(
        {q.global.row, q.global.col, q.local.row, q.local.col, q.global.rows, q.global.cols});
  }
  return {{"global_shape", {p.rows, p.cols}},
          {"pieces", pieces},
          {"part", p.part},
          {"parts", p.parts},
          {"format", std::string(shard.format.name)}};
}

void write_values(std::ostream& out, const Shard& shard, bool in_two_bytes) {
  if (!in_two_bytes) {
    out.write(reinterpret_cast<const char*>(shard.values.values.data()),
              static_cast<std::streamsize>(4 * shard.values.size()));
    return;
  }
  std::vector<std::uint16_t> packed(shard.values.size());
  for (std::size_t e = 0; e < packed.size(); ++e) {
    packed[e] =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shard.values.values[e]) >> 16);
  }
  out.write(reinterpret_cast<const char*>(packed.data()),
            static_cast<std::streamsize>(2 * packed.size()));
}

class ShardsReader {
 public:
  // `file`: what failures call it.
  ShardsReader(std::istream& in, std::uint64_t size, const std::filesystem::path& file)
      : file_(file), in_(in), size_(size) {}

  std::map<std::string, Shard> shards() {
    const json header = read_header();
    const json metadata = header.value("__metadata__", json::object());
    std::map<std::string, Shard> shards;
    std::uint64_t covered = 0;
    for (const auto& [id, entry] : header.items()) {
      if (id == "__metadata__") continue;
      try {
        shards.emplace(id, read_one(id, entry, metadata, covered));
      } catch (const json::exception&) {
        damaged(file_, "describes '" + id + "' in a way that is not understood");
      }
    }
    if (covered != size_ - start_) damaged(file_, "has bytes that no tensor owns");
    return shards;
  }

 private:
  json read_header() {
    const Outcome<SafetensorsHeader> header = read_safetensors_header(in_, size_);
    if (!header) damaged(file_, header.error().detail);
    start_ = header->values;
    return header->json;
  }

  static std::size_t number(const json& value) { return whole_number(value, most_of_a_shard); }

  // A list of as many numbers as are asked for, and no more.
  static std::vector<std::size_t> numbers(const json& list, std::size_t count) {
    if (!list.is_array() || list.size() != count) {
      throw json::other_error::create(501, "another length", nullptr);
    }
    std::vector<std::size_t> all;
    for (const json& value : list) all.push_back(number(value));
    return all;
  }

  Placement placement(const std::string& id, const json& p) const {
    Placement placement;
    const auto shape = numbers(p.at("global_shape"), 2);
    placement.rows = shape[0];
    placement.cols = shape[1];
    if (placement.cols != 0 && placement.rows > most_of_a_shard / placement.cols) {
      damaged(file_, "says that '" + id + "' is larger than any tensor");
    }
    placement.part = static_cast<int>(whole_number(p.at("part"), most_parts));
    placement.parts = static_cast<int>(whole_number(p.at("parts"), most_parts));
    if (placement.part >= placement.parts) {
      damaged(file_, "says that '" + id + "' is part " + std::to_string(placement.part) + " of " +
                         std::to_string(placement.parts) + ", counting from 0");
    }
    for (const json& piece : p.at("pieces")) {
      const auto n = numbers(piece, 6);
      placement.pieces.push_back({{n[0], n[1], n[4], n[5]}, {n[2], n[3], n[4], n[5]}});
    }
    return placement;
  }

  Shard read_one(const std::string& id, const json& entry, const json& metadata,
                 std::uint64_t& covered) {
    const auto dtype = entry.at("dtype").get<std::string>();
    const json& dimensions = entry.at("shape");
    if (dtype != "F32" && dtype != "BF16") unsupported(file_, "holds '" + id + "' as " + dtype);
    if (dimensions.is_array() && dimensions.size() != 2) {
      unsupported(file_, "holds '" + id + "' with " + how_many(dimensions.size(), "dimension"));
    }
    const auto shape = numbers(entry.at("shape"), 2);
    const auto offsets = numbers(entry.at("data_offsets"), 2);
    const std::size_t rows = shape[0], cols = shape[1];
    const std::uint64_t first = offsets[0], last = offsets[1];
    const std::uint64_t width = dtype == "BF16" ? 2 : 4;
    const std::uint64_t room = size_ - start_;
    // Bounded before it is multiplied: a product that wraps around must not look like a fit.
    const bool fits = first <= last && last <= room && (cols == 0 || rows <= room / cols) &&
                      rows * cols * width == last - first;
    if (!fits) damaged(file_, "says '" + id + "' lies where it does not fit");
    covered += last - first;

    Shard shard;
    shard.values = Tensor(rows, cols);
    shard.format = dtype == "BF16" ? bf16 : fp32;
    shard.placement = whole(rows, cols);
    if (metadata.contains(id)) {
      const json p = parsed(metadata.at(id).get<std::string>(), file_);
      shard.placement = placement(id, p);
      const Format* format = find_format(p.at("format").get<std::string>());
      if (format == nullptr) damaged(file_, "gives '" + id + "' an unknown format");
      shard.format = *format;
    }
    read_values(shard.values, start_ + first, dtype == "BF16");
    return shard;
  }

  void read_values(Tensor& into, std::uint64_t at, bool packed) {
    in_.seekg(static_cast<std::streamoff>(at));
    if (!packed) {
      in_.read(reinterpret_cast<char*>(into.values.data()),
               static_cast<std::streamsize>(into.size() * 4));
    } else {
      std::vector<std::uint16_t> bits(into.size());
      in_.read(reinterpret_cast<char*>(bits.data()), static_cast<std::streamsize>(bits.size() * 2));
      for (std::size_t e = 0; e < bits.size(); ++e) {
        into.values[e] = std::bit_cast<float>(static_cast<std::uint32_t>(bits[e]) << 16);
      }
    }
    if (!in_) damaged(file_, "is cut short");
  }

  std::filesystem::path file_;
  std::istream& in_;
  std::uint64_t size_, start_ = 0;
};

}  // namespace

void write_shards(std::ostream& out, const std::map<std::string, Shard>& shards) {
  write_shards(out, shards, [](const std::string&, const Shard& shard) {
    return placement_to_json(shard).dump();
  });
}

void write_shards(std::ostream& out, const std::map<std::string, Shard>& shards,
                  const SaysOf& says) {
  json header = json::object();
  json metadata = json::object();
  std::uint64_t offset = 0;
  std::vector<bool> in_two_bytes;
  for (const auto& [id, shard] : shards) {
    in_two_bytes.push_back(two_bytes(shard));
    const std::uint64_t end = offset + shard.values.size() * (in_two_bytes.back() ? 2 : 4);
    header[id] = {{"dtype", in_two_bytes.back() ? "BF16" : "F32"},
                  {"shape", {shard.values.rows, shard.values.cols}},
                  {"data_offsets", {offset, end}}};
    metadata[id] = says(id, shard);
    offset = end;
  }
  header["__metadata__"] = metadata;
  std::string text = header.dump();
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');  // values start at a multiple of 64
  const std::uint64_t length = text.size();
  out.write(reinterpret_cast<const char*>(&length), 8);
  out.write(text.data(), static_cast<std::streamsize>(length));
  auto two = in_two_bytes.begin();
  for (const auto& [id, shard] : shards) write_values(out, shard, *two++);
}

void write_shards(const std::filesystem::path& file, const std::map<std::string, Shard>& shards) {
  std::ofstream out(file, std::ios::binary);
  write_shards(out, shards);
  out.close();
  if (!out) throw Failure("cannot write " + file.string() + "; is there room on the disk?");
}

std::map<std::string, Shard> read_shards(const std::filesystem::path& file) {
  // Asked before it is opened: opening a pipe waits for a writer.
  refuse_unreadable(file);
  if (std::error_code error; !std::filesystem::is_regular_file(file, error)) {
    damaged(file, "is missing or not a file");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) damaged(file, "cannot be read");
  return ShardsReader(in, std::filesystem::file_size(file), file).shards();
}

std::map<std::string, Shard> read_shards(std::istream& in, std::uint64_t size,
                                         const std::string& name) {
  return ShardsReader(in, size, name).shards();
}

}  // namespace plumb::trace

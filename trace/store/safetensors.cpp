#include "trace/store/safetensors.hpp"

#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace plumb {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
constexpr std::uint64_t most_values = std::uint64_t(1) << 33;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw Failure(file.filename().string() + " " + what +
                "; the trace is damaged or not one: trace again");
}

bool two_bytes(const Shard& shard) { return shard.format == bf16; }

std::uint64_t bytes_of(const Shard& shard) {
  return shard.values.size() * (two_bytes(shard) ? 2 : 4);
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

void write_values(std::ofstream& out, const Shard& shard) {
  if (!two_bytes(shard)) {
    out.write(reinterpret_cast<const char*>(shard.values.values.data()),
              static_cast<std::streamsize>(bytes_of(shard)));
    return;
  }
  std::vector<std::uint16_t> packed(shard.values.size());
  for (std::size_t e = 0; e < packed.size(); ++e) {
    packed[e] =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shard.values.values[e]) >> 16);
  }
  out.write(reinterpret_cast<const char*>(packed.data()),
            static_cast<std::streamsize>(bytes_of(shard)));
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file), in_(file, std::ios::binary) {
    if (!in_) refuse(file_, "is missing or cannot be read");
    size_ = std::filesystem::file_size(file_);
  }

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
        refuse(file_, "describes '" + id + "' in a way that is not understood");
      }
    }
    if (covered != size_ - start_) refuse(file_, "has bytes that no tensor owns");
    return shards;
  }

 private:
  json read_header() {
    std::uint64_t length = 0;
    if (size_ < 8 || !in_.read(reinterpret_cast<char*>(&length), 8)) refuse(file_, "is cut short");
    if (length > longest_header || length > size_ - 8) {
      refuse(file_, "announces a header of " + std::to_string(length) + " bytes but has " +
                        std::to_string(size_ - 8));
    }
    std::string text(length, '\0');
    if (!in_.read(text.data(), static_cast<std::streamsize>(length))) refuse(file_, "is cut short");
    start_ = 8 + length;
    json header = json::parse(text, nullptr, false);
    if (!header.is_object()) refuse(file_, "has a header that is not JSON");
    return header;
  }

  static std::size_t number(const json& value) {
    const auto n = value.get<std::uint64_t>();
    if (value.is_number_float() || (value.is_number_integer() && value.get<std::int64_t>() < 0) ||
        n > most_values) {
      throw json::other_error::create(501, "number", nullptr);
    }
    return n;
  }

  Placement placement(const json& p) const {
    Placement placement;
    placement.rows = number(p.at("global_shape").at(0));
    placement.cols = number(p.at("global_shape").at(1));
    if (placement.cols != 0 && placement.rows > most_values / placement.cols) {
      throw json::other_error::create(501, "size", nullptr);
    }
    placement.part = static_cast<int>(number(p.at("part")));
    placement.parts = static_cast<int>(number(p.at("parts")));
    for (const json& q : p.at("pieces")) {
      const std::size_t rows = number(q.at(4));
      const std::size_t cols = number(q.at(5));
      placement.pieces.push_back({{number(q.at(0)), number(q.at(1)), rows, cols},
                                  {number(q.at(2)), number(q.at(3)), rows, cols}});
    }
    return placement;
  }

  Shard read_one(const std::string& id, const json& entry, const json& metadata,
                 std::uint64_t& covered) {
    const auto dtype = entry.at("dtype").get<std::string>();
    if (dtype != "F32" && dtype != "BF16") refuse(file_, "holds '" + id + "' as " + dtype);
    const std::size_t rows = number(entry.at("shape").at(0));
    const std::size_t cols = number(entry.at("shape").at(1));
    const std::uint64_t first = number(entry.at("data_offsets").at(0));
    const std::uint64_t last = number(entry.at("data_offsets").at(1));
    const std::uint64_t width = dtype == "BF16" ? 2 : 4;
    const std::uint64_t room = size_ - start_;
    // Bounded before it is multiplied: a product that wraps around must not look like a fit.
    const bool fits = first <= last && last <= room && (cols == 0 || rows <= room / cols) &&
                      rows * cols * width == last - first;
    if (!fits) refuse(file_, "says '" + id + "' lies where it does not fit");
    covered += last - first;

    Shard shard;
    shard.values = Tensor(rows, cols);
    shard.format = dtype == "BF16" ? bf16 : fp32;
    shard.placement = whole(rows, cols);
    if (metadata.contains(id)) {
      const json p = json::parse(metadata.at(id).get<std::string>());
      shard.placement = placement(p);
      const Format* format = find_format(p.at("format").get<std::string>());
      if (format == nullptr) refuse(file_, "gives '" + id + "' an unknown format");
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
    if (!in_) refuse(file_, "is cut short");
  }

  std::filesystem::path file_;
  std::ifstream in_;
  std::uint64_t size_ = 0, start_ = 0;
};

}  // namespace

void write_shards(const std::filesystem::path& file, const std::map<std::string, Shard>& shards) {
  json header = json::object();
  json metadata = json::object();
  std::uint64_t offset = 0;
  for (const auto& [id, shard] : shards) {
    header[id] = {{"dtype", two_bytes(shard) ? "BF16" : "F32"},
                  {"shape", {shard.values.rows, shard.values.cols}},
                  {"data_offsets", {offset, offset + bytes_of(shard)}}};
    metadata[id] = placement_to_json(shard).dump();
    offset += bytes_of(shard);
  }
  header["__metadata__"] = metadata;
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // values start at a multiple of eight
  const std::uint64_t length = text.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), 8);
  out.write(text.data(), static_cast<std::streamsize>(length));
  for (const auto& [id, shard] : shards) write_values(out, shard);
  out.close();
  if (!out) throw Failure("cannot write " + file.string() + "; is there room on the disk?");
}

std::map<std::string, Shard> read_shards(const std::filesystem::path& file) {
  return Reader(file).shards();
}

}  // namespace plumb

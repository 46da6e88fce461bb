#include "trace/store/spreads_file.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "number/outcome.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/json.hpp"
#include "trace/store/read_file.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::trace {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* schema = "plumb-spreads/1";
constexpr std::uintmax_t longest_spreads = 64'000'000;

[[noreturn]] void no_spreads(const fs::path& file, const std::string& what) {
  throw Failure(file.string() + " " + what +
                "; make a file of spreads with: plumb spreads -o FILE");
}

double at_least_zero(const json& value) {
  const double x = value.get<double>();
  if (!(x >= 0) || std::isinf(x)) throw json::other_error::create(501, "no such number", nullptr);
  return x;
}

int count_in(const json& value) { return static_cast<int>(whole_number(value, 1'000'000'000)); }

Learnt learnt_from(const json& tensors) {
  std::map<std::string, Learnt::OfTensor> known;
  for (const auto& [id, means] : tensors.items()) {
    Learnt::OfTensor& tensor = known[id];
    for (std::size_t s = 0; s < tensor.size(); ++s) {
      tensor[s] = {at_least_zero(means.at(s).at(0)), at_least_zero(means.at(s).at(1))};
    }
  }
  return Learnt(std::move(known));
}

}  // namespace

void write_spreads(const StoredSpreads& spreads, const fs::path& file) {
  if (fs::exists(file)) {
    throw Failure(file.string() + " exists already; name a new file, or remove it first");
  }
  json tensors = json::object();
  for (const auto& [id, tensor] : spreads.learnt.tensors()) {
    for (const Learnt::Mean& mean : tensor) tensors[id].push_back({mean.sum, mean.count});
  }
  const json all{{"schema", schema},        {"settings", spreads.of.settings},
                 {"step", spreads.of.step}, {"batches", spreads.batches},
                 {"twins", spreads.twins},  {"tensors", tensors}};
  try {
    make_folders(file.parent_path());
  } catch (const fs::filesystem_error& error) {
    refuse_unwritable(file, error);
  }
  write_whole(file, all.dump(1) + "\n");
}

StoredSpreads read_spreads(const fs::path& file) {
  const Outcome<std::string> text = read_file(file, longest_spreads);
  if (!text) no_spreads(file, text.error().detail);
  const Outcome<json> read = object_in(*text);
  if (!read) no_spreads(file, read.error().detail);
  const json& all = *read;
  if (!all.contains("schema") || all.at("schema") != schema) {
    no_spreads(file, "does not hold " + std::string(schema));
  }
  try {
    StoredSpreads spreads;
    spreads.of.settings = all.at("settings").get<std::map<std::string, std::string>>();
    spreads.of.step = count_in(all.at("step"));
    spreads.batches = count_in(all.at("batches"));
    spreads.twins = count_in(all.at("twins"));
    spreads.learnt = learnt_from(all.at("tensors"));
    return spreads;
  } catch (const json::exception&) {
    no_spreads(file, "is damaged");
  }
}

void refuse_other_run(const StoredSpreads& spreads, const Manifest& candidate) {
  for (const auto& [name, of_spreads] : spreads.of.settings) {
    if (name == "seed" || name == "rate") continue;
    const auto found = candidate.settings.find(name);
    const std::string has = found == candidate.settings.end() ? "nothing" : found->second;
    if (has == of_spreads) continue;
    throw Failure("the spreads are of runs with " + name + " " + of_spreads +
                  ", the candidate has " + has +
                  "; make others with: plumb spreads, or leave --spreads out");
  }
}

}  // namespace plumb::trace

#include "experiments/crash/saved.hpp"

#include <fstream>
#include <sstream>

#include "experiments/table.hpp"
#include "model/data/text.hpp"
#include "model/plan/verify.hpp"
#include "model/run/start.hpp"
#include "model/run/trained_states.hpp"
#include "number/outcome.hpp"
#include "probe/answers.hpp"
#include "trace/store/bounds_file.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/spreads_file.hpp"
#include "trace/store/store.hpp"
#include "trace/store/tensor_file.hpp"

namespace plumb::experiments {
namespace {

namespace fs = std::filesystem;
using Results = std::map<std::string, Found>;

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return std::move(all).str();
}

// Puts in what lies at `path`, if anything does, accepted or refused by `read`.
void look(Results& results, const std::string& name, const fs::path& path,
          const std::function<void()>& read) {
  if (!fs::exists(path)) return;
  Found& found = results[name];
  try {
    read();
  } catch (const Failure& refusal) {
    found.refused = refusal.what();
    return;
  }
  if (!fs::is_directory(path)) {
    found.bytes = bytes_of(path);
    return;
  }
  for (const auto& [file, bytes] : files_below(path)) found.bytes += file + "\n" + bytes;
}

// Two ranks that hold halves of a tensor of three blocks each.
Trace small_trace(int step) {
  Trace trace;
  trace.manifest = {"a crash", 2, step, {{"model", "none"}}};
  for (int rank = 0; rank < 2; ++rank) {
    Shard shard;
    shard.values = Tensor(24, 16);
    for (std::size_t i = 0; i < shard.values.size(); ++i) {
      shard.values.values[i] = static_cast<float>(i + 1) / static_cast<float>(step + rank + 1);
    }
    const auto first = static_cast<std::size_t>(24 * rank);
    shard.placement = row_slice(48, 16, first, first + 24);
    RankRecord record;
    record.shards["layers.0.mlp/out"] = shard;
    trace.ranks.push_back(record);
  }
  return trace;
}

void accept(const fs::path& folder) {
  const Merged merged = merge_verified(read_trace(folder));
  if (!merged.findings.empty()) throw Failure(folder.string() + ": " + merged.findings[0].detail);
}

Saved trace_of_steps() {
  const auto run = [](const fs::path& folder) { return folder / "runs" / "today"; };
  return {"trace",
          [run](const fs::path& folder, const Saved::Kept& kept) {
            for (const int step : {1, 2}) {
              const fs::path place = trace_of_step(run(folder), step);
              if (!fs::exists(place)) write_trace(small_trace(step), place);
              kept("step " + std::to_string(step));
            }
          },
          [run](const fs::path& folder) {
            Results results;
            for (const int step : {1, 2}) {
              const fs::path place = trace_of_step(run(folder), step);
              look(results, "step " + std::to_string(step), place, [&] { accept(place); });
            }
            return results;
          }};
}

Start small_start_of(const std::string& layout) {
  Config config = model::config_of("gpt");
  config.layers = 1;
  config.width = 16;
  config.heads = config.kv_heads = 2;
  config.hidden = 32;
  config.sequence = 8;
  config.sequences = 2;
  config.micro_batches = 1;
  return start_of(config, find_recipe("bf16"), parse_layout(layout), default_text());
}

Saved job() {
  const auto trace = std::make_shared<Trace>(run_candidate(small_start_of("tp2")).trace);
  return {"job",
          [trace](const fs::path& folder, const Saved::Kept& kept) {
            write_trace(*trace, folder / "tp2");
            kept("trace");
          },
          [](const fs::path& folder) {
            Results results;
            look(results, "trace", folder / "tp2", [&] { accept(folder / "tp2"); });
            return results;
          }};
}

Saved state() {
  const auto trace = std::make_shared<Trace>(run_reference(small_start_of("dp1,tp1")));
  const auto at = [](const fs::path& folder) { return folder / "cache" / "trained-gpt"; };
  return {"state",
          [trace, at](const fs::path& folder, const Saved::Kept& kept) {
            (void)kept_state(at(folder).string(), [&] { return *trace; });
            kept("state");
          },
          [at](const fs::path& folder) {
            Results results;
            look(results, "state", at(folder), [&] { accept(at(folder)); });
            return results;
          }};
}

Saved spreads() {
  StoredSpreads all;
  all.of.settings = {{"family", "gpt"}, {"recipe", "bf16"}};
  all.of.step = 1;
  all.batches = 25;
  all.twins = 8;
  std::map<std::string, Learnt::OfTensor> known;
  for (int layer = 0; layer < 8; ++layer) {
    Learnt::OfTensor& tensor = known["layers." + std::to_string(layer) + ".mlp/out"];
    for (std::size_t s = 0; s < tensor.size(); ++s) tensor[s] = {1.0 / (layer + 3.0), 7.0};
  }
  all.learnt = Learnt(known);
  return {"spreads",
          [all](const fs::path& folder, const Saved::Kept& kept) {
            write_spreads(all, folder / "spreads" / "gpt.json");
            kept("spreads");
          },
          [](const fs::path& folder) {
            Results results;
            const fs::path file = folder / "spreads" / "gpt.json";
            look(results, "spreads", file, [&] { (void)read_spreads(file); });
            return results;
          }};
}

Saved bounds_in_pieces() {
  return {"bounds",
          [](const fs::path& folder, const Saved::Kept& kept) {
            BoundsFile file(folder / "bounds.safetensors", {{"y", {4, 64}}}, false, {});
            for (int row = 0; row < 4; ++row) {
              const std::vector<double> numbers(64, 1.0 / (row + 3));
              file.add("y.value", numbers);
              file.add("y.bound", numbers);
            }
            file.finish();
            kept("bounds");
          },
          [](const fs::path& folder) {
            Results results;
            const fs::path file = folder / "bounds.safetensors";
            look(results, "bounds", file, [&] { TensorFile bounds(file); });
            return results;
          }};
}

// The table of its file, which a reader opens as the paper's claims and the resumed run do.
void add_rows(Results& results, const fs::path& file) {
  look(results, "table", file, [&] {
    const Table table = table_of(bytes_of(file), file.string());
    for (const Table::Row& row : table.rows()) results["row " + row[0]].bytes = row[1] + row[2];
  });
  if (results.contains("table") && results["table"].refused.empty()) results.erase("table");
}

Saved rows() {
  return {"rows",
          [](const fs::path& folder, const Saved::Kept& kept) {
            Table table({"run", "layout", "ratio"}, 1);
            table.keep_in(folder / "results" / "rows.csv", std::chrono::seconds(0));
            write_provenance(folder / "results" / "rows.json", {{"commit", "none"}});
            kept("provenance");
            for (int run = 1; run <= 4; ++run) {
              const std::string key = std::to_string(run);
              if (!table.settled({key})) {
                table.add({key, "dp2,tp2," + std::string(150, 's'), cell(1.0 / run)});
              }
              kept("row " + key);
            }
            table.save();
            table.write(folder / "results" / "rows-rates.csv");
            kept("rates");
          },
          [](const fs::path& folder) {
            Results results;
            add_rows(results, folder / "results" / "rows.csv");
            const fs::path json = folder / "results" / "rows.json";
            look(results, "provenance", json, [&] {
              if (provenance_of(bytes_of(json)).empty()) throw Failure("says nothing");
            });
            const fs::path rates = folder / "results" / "rows-rates.csv";
            look(results, "rates", rates, [&] { (void)table_of(bytes_of(rates), "rates"); });
            return results;
          }};
}

std::string answers_to(const Subject& subject) {
  std::string card;
  for (const std::size_t size : {4, 9, 16, 25}) {
    Operands asked{Tensor(1, size), Tensor(size, 32)};
    for (float& x : asked.a.values) x = 1.0F / static_cast<float>(size);
    for (float& x : asked.b.values) x = 0.1F;
    const std::vector<Tensor> products = subject.multiply({asked});
    for (const float x : products[0].values) card += std::to_string(x) + "\n";
  }
  return card;
}

Saved answers() {
  return {"answers",
          [](const fs::path& folder, const Saved::Kept& kept) {
            Answers answers(folder / "card.json.answers", "a device");
            const Subject device = subject_of(Emulated{}, fp32);
            write_whole(folder / "card.json", answers_to(answers.resumed(device)));
            kept("card");
            answers.remove();
          },
          [](const fs::path& folder) {
            Results results;
            look(results, "card", folder / "card.json", [] {});
            return results;
          }};
}

}  // namespace

std::vector<Saved> all_saved() {
  return {trace_of_steps(), job(), state(), spreads(), bounds_in_pieces(), rows(), answers()};
}

std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    files[entry.is_directory() ? name + "/" : name] =
        entry.is_directory() ? "" : bytes_of(entry.path());
  }
  return files;
}

}  // namespace plumb::experiments

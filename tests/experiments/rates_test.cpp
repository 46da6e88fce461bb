// Are the committed rates those of the committed rows?
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "experiments/experiment.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::rates_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// results/<machine>/<name>.csv: a question has rows of one machine.
fs::path committed(const std::string& name) {
  for (const auto& machine : fs::directory_iterator(PLUMB_SOURCE_DIR "/experiments/results")) {
    if (fs::exists(machine.path() / (name + ".csv"))) return machine.path() / (name + ".csv");
  }
  return {};
}

TEST(Rates, AreOfTheCommittedRows) {
  const fs::path folder = fs::temp_directory_path() / ("plumb-rates-" + std::to_string(getpid()));
  fs::create_directories(folder);
  int questions = 0;
  for (const Experiment* card : all_experiments()) {
    if (card->rates == nullptr) continue;
    const std::string name(card->name);
    Table rows(card->columns, card->keys);
    rows.read(text_of(committed(name)), name);
    write_rates(*card, rows, folder);
    const std::string ours = text_of(folder / (name + "-rates.csv"));
    EXPECT_GT(std::count(ours.begin(), ours.end(), '\n'), 1) << name;
    EXPECT_EQ(text_of(committed(name + "-rates")), ours)
        << "copy the rows of " << name << " into a folder and make them anew: plumb experiment "
        << name << " -o FOLDER";
    ++questions;
  }
  fs::remove_all(folder);
  EXPECT_GT(questions, 0);
}

}  // namespace
}  // namespace plumb::rates_test

#include "cli/dealt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "experiments/dealing.hpp"

namespace plumb::cli {
namespace {

constexpr int tag = 1;
constexpr std::chrono::milliseconds between_looks(10);

}  // namespace

// Ranks send each other tensors: a byte travels as a number.
void Dealt::send(const std::string& text, int to) {
  Tensor bytes(1, text.size());
  std::ranges::transform(text, bytes.values.begin(),
                         [](char c) { return static_cast<float>(static_cast<unsigned char>(c)); });
  ranks_.send(to, tag, bytes);
}

std::string Dealt::receive(int from) {
  const Tensor bytes = ranks_.receive(from, tag);
  std::string text(bytes.size(), ' ');
  std::ranges::transform(bytes.values, text.begin(),
                         [](float x) { return static_cast<char>(static_cast<unsigned char>(x)); });
  return text;
}

Dealt::Dealt(Communicator& ranks, Table& rows, const std::vector<Table::Row>& work,
             std::string (*shares)(const Table::Row& key))
    : ranks_(ranks), rows_(rows) {
  if (writes()) {
    for (int r = 1; r < ranks.size(); ++r) at_work_.insert(r);
    for (const int r : at_work_) send(rows.text(), r);
  } else {
    rows.read(receive(0), "what rank 0 has");
  }
  std::map<std::string, std::vector<std::string>> by_what_is_shared;
  for (const Table::Row& key : work) {
    if (rows.settled(key)) continue;
    const std::string name = fmt::format("{}", fmt::join(key, " "));
    by_what_is_shared[shares == nullptr ? name : shares(key)].push_back(name);
  }
  const std::vector<std::vector<std::string>> all =
      experiments::dealt(by_what_is_shared, ranks.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) != ranks.rank()) others_.insert(all[rank].begin(), all[rank].end());
  }
  rows.tell_of_groups([this](const std::vector<Table::Row>& group) {
    if (writes()) return collect();
    Table part = rows_.empty_copy();
    part.add_group(group);
    send(part.text(), 0);
  });
}

void Dealt::collect() {
  if (collects_) return;  // it adds rows itself
  collects_ = true;
  const std::set<int> others = at_work_;
  for (const int r : others) {
    while (at_work_.contains(r) && ranks_.has_arrived(r, tag)) {
      const std::string text = receive(r);
      if (text.empty()) {
        at_work_.erase(r);
        continue;
      }
      Table part = rows_.empty_copy();
      part.read(text, "what rank " + std::to_string(r) + " made");
      rows_.add_group(part.rows());
    }
  }
  collects_ = false;
}

void Dealt::finish() {
  if (!writes()) return send("", 0);
  for (collect(); !at_work_.empty(); collect()) std::this_thread::sleep_for(between_looks);
}

}  // namespace plumb::cli

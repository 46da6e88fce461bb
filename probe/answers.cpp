#include "probe/answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>

#include "number/outcome.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/json.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::probe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kind = "plumb-answers/1 ";

// FNV-1a, of 64 bits.
class Hash {
 public:
  Hash& add(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) state_ = (state_ ^ at[i]) * 0x100000001b3ULL;
    return *this;
  }
  Hash& add(std::string_view text) { return add(text.data(), text.size()); }
  Hash& add(const Tensor& x) {
    const std::uint64_t shape[] = {x.rows, x.cols};
    return add(shape, sizeof shape).add(x.values.data(), x.size() * sizeof(float));
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

void put(std::string& bytes, std::uint64_t x) {
  bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
}

std::string record_of(std::uint64_t question, const std::vector<Tensor>& answer) {
  std::string bytes;
  put(bytes, question);
  put(bytes, answer.size());
  for (const Tensor& x : answer) {
    put(bytes, x.rows);
    put(bytes, x.cols);
    bytes.append(reinterpret_cast<const char*>(x.values.data()), x.size() * sizeof(float));
  }
  put(bytes, Hash().add(bytes).value());
  return bytes;
}

// Reads records from bytes that may end anywhere, and may be anything.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::size_t at() const { return at_; }
  // Does a whole record follow? Then `question` and `answer` are its.
  bool next(std::uint64_t& question, std::vector<Tensor>& answer) {
    const std::size_t first = at_;
    if (take(question, answer) && whole(first)) return true;
    at_ = first;
    return false;
  }

 private:
  bool take(std::uint64_t& x) {
    if (bytes_.size() - at_ < sizeof x) return false;
    std::memcpy(&x, bytes_.data() + at_, sizeof x);
    at_ += sizeof x;
    return true;
  }
  bool take(std::uint64_t& question, std::vector<Tensor>& answer) {
    std::uint64_t count = 0;
    if (!take(question) || !take(count)) return false;
    answer.clear();
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t rows = 0, cols = 0;
      if (!take(rows) || !take(cols)) return false;
      const std::uint64_t most = (bytes_.size() - at_) / sizeof(float);
      if (rows > most || cols > most || (cols > 0 && rows > most / cols)) return false;
      Tensor& x = answer.emplace_back(rows, cols);
      if (x.size() > 0) {
        std::memcpy(x.values.data(), bytes_.data() + at_, x.size() * sizeof(float));
      }
      at_ += x.size() * sizeof(float);
    }
    return true;
  }
  bool whole(std::size_t first) {
    const std::uint64_t is = Hash().add(bytes_.substr(first, at_ - first)).value();
    std::uint64_t said = 0;
    return take(said) && said == is;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

std::vector<Tensor> as_row(const std::vector<float>& values) {
  Tensor row(1, values.size());
  std::ranges::copy(values, row.values.begin());
  return {row};
}

}  // namespace

Answers::Answers(const fs::path& file, const std::string& of)
    : file_(file), lock_(file.string() + ".lock", file.string()) {
  std::string line = of;
  std::ranges::replace(line, '\n', ' ');
  read(line);
}

void Answers::read(const std::string& of) {
  const std::string begins = std::string(kind) + of + '\n';
  if (!fs::exists(fs::symlink_status(file_))) return append(begins);
  std::ifstream in(file_, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  // A kill may have cut off the first line, too.
  if (bytes.size() < begins.size() && begins.starts_with(bytes)) {
    cut_file(file_, 0);
    return append(begins);
  }
  if (!bytes.starts_with(begins)) {
    const std::string line = bytes.substr(0, bytes.find('\n'));
    const bool is_one = line.starts_with(kind) && !trace::steers_a_terminal(line);
    throw Failure(fmt::format(
        "{} has answers of another subject, other options or another build ({}); finish "
        "that calibration as it was begun, or remove the file",
        file_.string(), is_one ? line.substr(kind.size()) : "it is no file of answers"));
  }
  Reader reader(std::string_view(bytes).substr(begins.size()));
  Record record{};
  while (reader.next(record.question, record.answer)) kept_.push_back(std::move(record));
  cut_file(file_, begins.size() + reader.at());
}

void Answers::append(const std::string& bytes) {
  try {
    DiskFile out(file_, DiskFile::How::append);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.finish_unsynced();  // what a crash damages its hash shows, and it is asked again
  } catch (const fs::filesystem_error& error) {
    refuse_unwritable(file_, error);
  }
}

void Answers::expect_first(const std::vector<Tensor>& answer) const {
  const Record& first = kept_[0];
  const std::string was = record_of(first.question, first.answer);
  const bool varies = std::ranges::any_of(kept_, [&](const Record& other) {
    return other.question == first.question && record_of(other.question, other.answer) != was;
  });
  if (varies || record_of(first.question, answer) == was) return;
  throw Failure(fmt::format(
      "the subject's first answer is another one than in {}; remove the file, and begin anew",
      file_.string()));
}

template <class Ask>
std::vector<Tensor> Answers::answer_to(std::uint64_t question, const Ask& ask) {
  if (next_ < kept_.size()) {
    const Record& record = kept_[next_++];
    if (record.question != question) {
      throw Failure(fmt::format(
          "{} has the answer to another question than number {}; remove the file, and begin anew",
          file_.string(), next_));
    }
    // Of one answer alone nobody knows whether it varies.
    if (next_ == 1 && kept_.size() > 1) expect_first(ask());
    return record.answer;
  }
  std::vector<Tensor> answer = ask();
  append(record_of(question, answer));
  return answer;
}

Subject Answers::resumed(const Subject& subject) {
  Subject now = subject;
  now.multiply = [this, ask = subject.multiply](const std::vector<Operands>& asked) {
    Hash question;
    for (const auto& [a, b] : asked) question.add(a).add(b);
    return answer_to(question.value(), [&] { return ask(asked); });
  };
  for (auto& [name, function] : now.functions) {
    function = [this, name = name, ask = function](const std::vector<float>& x,
                                                   const std::vector<float>& y) {
      const auto question = Hash().add(name).add(as_row(x)[0]).add(as_row(y)[0]).value();
      const Tensor row = answer_to(question, [&] { return as_row(ask(x, y)); })[0];
      return std::vector<float>(row.values.begin(), row.values.end());
    };
  }
  for (auto& [name, tables] : now.tables) {
    tables = [this, name = name, ask = tables](const std::vector<Tensor>& asked) {
      Hash question;
      question.add(name);
      for (const Tensor& x : asked) question.add(x);
      return answer_to(question.value(), [&] { return ask(asked); });
    };
  }
  return now;
}

void Answers::remove() { take_away(file_); }

}  // namespace plumb::probe

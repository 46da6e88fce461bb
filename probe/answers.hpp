// probe/answers.hpp: what a subject has answered, kept in a file, so that a calibration that was
// killed is resumed without loss.
//
//   A calibration asks the same questions in the same order whenever it gets the same answers. So a
//   resumed one is told what is kept, asks only what is not, and ends with the same card. Our own
//   arithmetic between the questions is done again.
//
//   The file: a line with what the answers are of; then a record for each question: its hash, the
//   answer, a sum over both. A record that a kill cut off is dropped and asked for again. The first
//   question is asked again in any case: a kernel that was changed since then has to be noticed.
//
// REFUSES  with one sentence, and leaves the file as it is: answers of another subject, other options
//          or another build; a file that is none of these; one that another process writes; a subject
//          that no longer gives the first answer (unless its answers differed before)
// COSTS    the size of the answers: some MB of sums of up to 1024 products, some tens with functions
// TESTED   tests/probe/answers_test.cpp, tests/cli/calibrate_test.cpp (killed at random moments)
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "probe/sees.hpp"
#include "probe/subject.hpp"
#include "trace/store/file_lock.hpp"

namespace plumb::probe {

class Answers {
 public:
  // `of`: subject, options and build, in one line.
  Answers(const std::filesystem::path& file, const std::string& of);
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // How many answers the file had.
  std::size_t kept() const { return kept_.size(); }
  // The subject, asked only for what is not kept. It holds on to these answers, which outlive it.
  Subject resumed(const Subject& subject);
  // When the card is written.
  void remove();

 private:
  struct Record {
    std::uint64_t question;
    std::vector<Tensor> answer;
  };

  void read(const std::string& of);
  void append(const std::string& bytes);
  void expect_first(const std::vector<Tensor>& answer) const;
  template <class Ask>
  std::vector<Tensor> answer_to(std::uint64_t question, const Ask& ask);

  std::filesystem::path file_;
  FileLock lock_;
  std::vector<Record> kept_;
  std::size_t next_ = 0;  // of the kept ones
};

}  // namespace plumb::probe

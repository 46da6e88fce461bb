#include "cli/values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <functional>

#include "number/outcome.hpp"
#include "trace/report/report.hpp"
#include "trace/store/store.hpp"

namespace plumb::cli {
namespace {

template <class T>
CLI::Validator between(T least, T most, const std::string& kind) {
  const auto refusal = [=](std::string& text) {
    T value{};
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
    if (whole && value >= least && value <= most) return std::string();
    return fmt::format("expected a {} from {} to {}, found '{}'", kind, least, most, text);
  };
  return CLI::Validator(refusal, fmt::format("{} to {}", least, most));
}

CLI::Validator accepted_by(const std::function<void(const std::filesystem::path&)>& check) {
  const auto refusal = [=](std::string& text) {
    try {
      check(text);
      return std::string();
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
  };
  return CLI::Validator(refusal, "");
}

CLI::Validator new_file(const std::string& ending, const std::string& of) {
  return accepted_by([=](const std::filesystem::path& file) {
    if (file.extension() != ending) {
      throw Failure("'" + file.string() + "' is no file of " + of + "; name one that ends in " +
                    ending);
    }
    check_new(file);
  });
}

}  // namespace

CLI::Validator whole_numbers(std::uint64_t least, std::uint64_t most) {
  return between(least, most, "whole number");
}
bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}
CLI::Validator numbers_or_traces(std::uint64_t least, std::uint64_t most) {
  const CLI::Validator number = whole_numbers(least, most);
  const auto refusal = [=](std::string& text) {
    const bool like_one = is_number(text) || (text.starts_with('-') && is_number(text.substr(1)));
    return like_one ? number(text) : std::string();
  };
  return CLI::Validator(refusal, fmt::format("{} to {}, or TRACE TRACE ...", least, most));
}
CLI::Validator fractions(const Size& size) {
  const std::string range =
      fmt::format("{} to {}", text_of(size, size.least), text_of(size, size.most));
  const auto to_whole = [&size, range](std::string& text) {
    const bool point = text.find('.') != text.npos || text == "0";
    const auto value = setting_from(size, text);
    if (!point || !value) {
      return fmt::format("expected a fraction with its point from {}, found '{}'{}", range, text,
                         point ? "" : "; ten per cent are 0.1, all is 1.0");
    }
    text = std::to_string(*value);
    return std::string();
  };
  return CLI::Validator(to_whole, range);
}
CLI::Validator numbers(double least, double most) { return between(least, most, "number"); }
CLI::Validator report_files() {
  // Whether another file may be replaced, --force says, which may come later.
  return accepted_by([](const std::filesystem::path& file) { check_report(file, true); });
}
CLI::Validator new_traces() { return accepted_by(check_new); }
CLI::Validator new_curves() { return new_file(".csv", "rows"); }
CLI::Validator new_cards() { return new_file(".json", "a machine card"); }

}  // namespace plumb::cli

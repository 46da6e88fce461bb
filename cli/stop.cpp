#include "cli/stop.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include "cli/verbs.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::cli {
namespace {

std::atomic<bool> silent = false;

[[noreturn]] void stop(int signal) {
  std::string sentence = fmt::format("plumb: stopped ({})", strsignal(signal));
  const Discarded gone = discard_unfinished();  // held: no other thread says how it ended
  for (const auto& path : gone.paths) {
    sentence += fmt::format("; {} was not finished and is removed", path.string());
  }
  if (silent) _exit(128 + signal);
  std::fprintf(stderr, "%s%s\n", isatty(2) != 0 ? "\r\033[K" : "", sentence.c_str());
  _exit(128 + signal);
}

}  // namespace

void remove_unfinished_when_stopped() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&signals, signal);  // of nohup and the like
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // all threads inherit it
  std::thread([signals] {
    int signal = 0;
    if (sigwait(&signals, &signal) == 0) stop(signal);
  }).detach();
}

void say_nothing_when_stopped() { silent = true; }

void name_what_was_left(const std::filesystem::path& beside) {
  for (const auto& left : left_beside(beside)) {
    note(left.string() + " is what a stopped process did not finish; remove it");
  }
}

}  // namespace plumb::cli

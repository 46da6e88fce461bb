// trace/messages.hpp: what ranks sent each other, judged by what they gave: a sum is the sum of what
// went in, a gather has its bits. It needs no reference, no promise and no twins (twins.md J4).
//
// ASSUMES  Every rank recorded every call of its groups; the calls of a group stand in one order on
//          each of its ranks, as collectives have to.
// TESTED   tests/trace/messages_test.cpp, tests/python/messages_test.py
// SOURCES  twins.md J4
#pragma once

#include <string>
#include <vector>

#include "trace/replay.hpp"
#include "trace/sees.hpp"
#include "trace/store/messages_file.hpp"

namespace plumb::trace {

// "messages/all_reduce 3 of ranks 0, 1": the third call of that group.
bool is_message(const std::string& id);

// Of each call of a group the worst error over its tolerance, and what is wrong; a group whose ranks are
// out of step is judged up to there.
Replayed judge_messages(const std::vector<std::vector<Message>>& by_rank);

}  // namespace plumb::trace

#pragma once

#include <functional>
#include <string>
#include <thread>

namespace gpt {

// Starts a thread. Throws Error naming `what` if the system cannot start a thread. The function must not
// throw.
std::thread start_thread(const std::string& what, std::function<void()> function);

// Starts a thread that blocks all signals, so that other threads of the program handle them.
std::thread start_thread_without_signals(const std::string& what, std::function<void()> function);

}  // namespace gpt

#pragma once

#include <functional>
#include <string>
#include <thread>

namespace gpt {

// Starts a thread. Throws Error naming `what` when the system refuses. The function must not throw.
std::thread start_thread(const std::string& what, std::function<void()> function);

// The same for a thread that handles no signals: they go to the other threads of the program.
std::thread start_thread_without_signals(const std::string& what, std::function<void()> function);

}  // namespace gpt

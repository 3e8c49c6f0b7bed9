#pragma once

namespace gpt {

// A mapped file that another program makes shorter, or that its disk can no longer read, gives SIGBUS where it is
// touched. Ends the program with status 1 and a line that names the file, instead of a signal.
void install_lost_page_handler();

}  // namespace gpt

#pragma once

#include <string>

namespace gpt {

// Throws Error unless a new run may begin in `folder` and nothing is lost: not in a model or a run, not where
// a best model or a file of others would be replaced. Begun anew may be what ended before it saved anything;
// `again`: even where it left a best model, for runs that only repeat it. The caller holds the FolderLock.
void require_free_folder(const std::string& folder, bool again);

}  // namespace gpt

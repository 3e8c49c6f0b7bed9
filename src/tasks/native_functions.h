#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

class TaskFile;

// The Python functions that lm-evaluation-harness 0.4.13's tasks HellaSwag and Winogrande name with
// !function, written again here; Python itself is never run.

enum class NativeUse { process_docs, value };

// Throws Error naming the function unless it is one of these. A Python file of that name beside the YAML must
// be the harness's own, byte for byte: another one may mean something else.
void require_native_function(const std::string& name, NativeUse use, const TaskFile& file,
                             const std::string& key);

// A document as a process_docs function leaves it. Throws Error naming a field that is missing or of the
// wrong kind.
nlohmann::ordered_json native_document(const std::string& function, const nlohmann::ordered_json& doc);

// What a doc_to_... function makes of a document; throws as above.
nlohmann::ordered_json native_value(const std::string& function, const nlohmann::ordered_json& doc);

}  // namespace gpt

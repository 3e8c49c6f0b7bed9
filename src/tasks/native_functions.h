#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

class TaskFile;

// Reimplements the Python functions that the tasks HellaSwag and Winogrande of lm-evaluation-harness 0.4.13
// name with !function. Python itself is never run.

enum class NativeUse { process_docs, value };

// Throws Error unless `name` is one of these functions. If there is a Python file with the name of the module
// next to the YAML file, it must be byte-identical to the file of lm-evaluation-harness. A different file may
// define a different function.
void require_native_function(const std::string& name, NativeUse use, const TaskFile& file,
                             const std::string& key);

// Returns the document that a process_docs function makes from `doc`. Throws Error naming a field that is
// missing or has the wrong type.
nlohmann::ordered_json native_document(const std::string& function, const nlohmann::ordered_json& doc);

// Returns the value that a doc_to_... function computes from a document. Throws the errors of
// native_document.
nlohmann::ordered_json native_value(const std::string& function, const nlohmann::ordered_json& doc);

}  // namespace gpt

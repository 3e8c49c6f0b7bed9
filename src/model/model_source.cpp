#include "model/model_source.h"

#include <filesystem>

#include "io/gguf.h"
#include "io/llama2c.h"
#include "model/gguf_config.h"
#include "model/json_value.h"
#include "model/model_files.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  const std::string folder = fs::is_directory(path) ? path : fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::unique_ptr<TensorFiles> one_file(std::unique_ptr<TensorFile> file) {
  std::vector<std::unique_ptr<TensorFile>> files;
  files.push_back(std::move(file));
  return std::make_unique<TensorFiles>(std::move(files));
}

ModelConfig llama2c_config(const Llama2cHeader& h) {
  ModelConfig c;
  read_model_keys(nlohmann::json::parse(R"({"norm": "rms", "position": "rope", "rope_layout": "interleaved",
      "act": "swiglu", "qkv_bias": false, "out_bias": false, "mlp_bias": false, "norm_eps": 1e-5})"),
                  c);
  c.n_embd = h.dim;
  c.d_ff = h.hidden_dim;
  c.n_layer = h.n_layers;
  c.n_head = h.n_heads;
  c.n_kv_head = h.n_kv_heads;
  c.vocab_size = h.vocab_size;
  c.n_ctx = h.seq_len;
  c.tie_embeddings = h.tied;
  if (c.vocab_size > 2) {  // SentencePiece's convention, which run.c relies on
    c.bos_token_id = 1;
    c.eos_token_ids = {2};
  }
  return c;
}

void open_llama2c(ModelSource& source) {
  auto file = std::make_unique<Llama2cFile>(source.path);
  source.config = llama2c_config(file->header());
  source.config_path = source.path;
  source.naming = Naming::llama2c;
  source.tensors = one_file(std::move(file));
}

void open_gguf(ModelSource& source) {
  auto file = std::make_unique<GgufFile>(source.path);
  source.config = gguf_config(*file);
  source.config_path = source.path;
  source.naming = gguf_naming(*file);
  source.gguf = file.get();
  source.tensors = one_file(std::move(file));
}

void open_with_config(ModelSource& source) {
  source.config_path = source.folder + "/config.json";
  if (!fs::exists(source.config_path)) {
    fail("cannot read the model {}: expected a config.json in {}", source.path, source.folder);
  }
  source.config = read_model_config(source.config_path);
  source.tensors = std::make_unique<TensorFiles>(open_tensors(source.path));
}

}  // namespace

ModelSource open_model_source(const std::string& path) {
  ModelSource source;
  source.path = path;
  source.folder = folder_of(path);
  if (path.ends_with(".bin")) {
    open_llama2c(source);
  } else if (path.ends_with(".gguf")) {
    open_gguf(source);
  } else {
    open_with_config(source);
  }
  return source;
}

}  // namespace gpt

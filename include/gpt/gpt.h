#ifndef GPT_GPT_H
#define GPT_GPT_H

/* C interface of libgptcpp, for C99 and all languages that can call C functions. The functions and options
 * correspond to those of the C++ interface; gpt.hpp documents them in detail.
 *
 * Errors. Functions that can fail return a gpt_status; gpt_last_error() then returns the message. Results are
 * returned through the last parameters, which are unchanged on failure. Functions never throw C++ exceptions,
 * and callbacks must not throw either.
 *
 * Lifetimes. The caller owns all handles: free every handle returned by _new, _load, _of or _train with the
 * matching _free function. The order does not matter, because a handle keeps alive the objects that it uses.
 * Freeing NULL has no effect. Pointers returned by a function are valid until the next call with the same
 * handle. Pointers passed to a callback are valid until the callback returns.
 *
 * Threads. Contexts, models and tokenizers are thread-safe. Every other handle must only be used by one
 * thread at a time.
 *
 * Options are a NULL-terminated array of "key=value" strings; a NULL array means no options. Keys and
 * defaults are those of the struct fields in gpt.hpp. To pass a list, repeat its key with each element:
 * "stop=\n", "special_token=<|end|>".
 *
 * Strings are UTF-8. Texts are passed with their size in bytes. Strings without a size parameter, such as
 * paths, names and chat messages, are NUL-terminated. */

#include <stddef.h>
#include <stdint.h>

#define GPT_API_VERSION \
  3 /* grows by 1 with every addition; incompatible changes change the soname, see docs/library.md */

#ifndef GPT_API
#define GPT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes; see gptcpp::Code in gpt.hpp. */
typedef enum gpt_status {
  GPT_OK = 0,
  GPT_INVALID_ARGUMENT = 1,
  GPT_NOT_FOUND = 2,
  GPT_IO = 3,
  GPT_OUT_OF_MEMORY = 4,
  GPT_CANCELLED = 5,
  GPT_UNSUPPORTED = 6,
  GPT_INTERNAL = 7
} gpt_status;

/* Why a text ended; see gptcpp::Finish in gpt.hpp. */
typedef enum gpt_finish {
  GPT_FINISH_NONE = -1, /* in a gpt_event: the request has not ended */
  GPT_FINISH_LENGTH = 0,
  GPT_FINISH_EOS = 1,
  GPT_FINISH_STOP = 2,
  GPT_FINISH_CONTEXT = 3,
  GPT_FINISH_ERROR = 4
} gpt_finish;

typedef struct gpt_context gpt_context;
typedef struct gpt_model gpt_model;
typedef struct gpt_tokenizer gpt_tokenizer;
typedef struct gpt_session gpt_session;
typedef struct gpt_chat gpt_chat;
typedef struct gpt_engine gpt_engine;
typedef struct gpt_trainer gpt_trainer;
typedef const char* const* gpt_options;

/* Receives a log line without the newline. level: 0 for information, 1 for a warning. */
typedef void (*gpt_on_log)(void* user, int level, const char* line, size_t size);
/* Receives a piece of generated text and its token id, or id -1 for text that was held back. Return 0 to end
 * the text. */
typedef int (*gpt_on_piece)(void* user, const char* text, size_t size, int32_t id);
/* Called after each training step with its number and loss. Return 0 to end gpt_trainer_run. */
typedef int (*gpt_on_step)(void* user, int64_t step, double loss);

/* A new token of a request, or the end of the request. Use gpt_event_at to access an array of events.
 * struct_size is the size of one event in bytes in the loaded library. It is larger than sizeof(gpt_event) if
 * a newer library has added fields at the end, and smaller if the library has an earlier GPT_API_VERSION. */
typedef struct gpt_event {
  size_t struct_size;
  int64_t request;
  int32_t id; /* the token, or -1 for text that was held back or if there is no new token */
  gpt_finish finish;
  const char* text; /* not NUL-terminated */
  size_t size;
  const char* error; /* with GPT_FINISH_ERROR: the message, not NUL-terminated */
  size_t error_size;
} gpt_event;

/* Returns a pointer to event i of an array returned by gpt_step. */
static inline const gpt_event* gpt_event_at(const gpt_event* events, size_t i) {
  return (const gpt_event*)(const void*)((const char*)events + i * events->struct_size);
}

GPT_API uint32_t gpt_api_version(void);          /* GPT_API_VERSION of the loaded library */
GPT_API const char* gpt_status_text(gpt_status); /* a short description, for example "not found" */
GPT_API const char* gpt_last_error(void); /* message of the last failed call of this thread; never NULL */

/* Creates a context. Options: threads, instruction_set, memory_limit. log may be NULL. */
GPT_API gpt_status gpt_context_new(gpt_options, gpt_on_log log, void* user, gpt_context** context);
GPT_API void gpt_context_free(gpt_context*);
/* Makes all calls in flight, and every later call until gpt_resume, fail with GPT_CANCELLED. Callable from
 * any thread and from signal handlers. */
GPT_API gpt_status gpt_cancel(const gpt_context*);
GPT_API gpt_status gpt_resume(const gpt_context*);

/* Loads a model. Options: tokenizer, chat_format, and adapter, which can be repeated: "adapter=NAME=PATH" or
 * "adapter=NAME=PATH=SCALE". */
GPT_API gpt_status gpt_model_load(const gpt_context*, const char* path, gpt_options, gpt_model** model);
GPT_API void gpt_model_free(gpt_model*);
/* Returns a property of a model. name: parameters, vocab_size, n_ctx, n_layer, n_head, n_embd, bytes,
 * has_tokenizer (0 or 1) or has_chat_format (0 or 1). */
GPT_API gpt_status gpt_model_fact(const gpt_model*, const char* name, int64_t* value);

GPT_API gpt_status gpt_tokenizer_of(const gpt_model*, gpt_tokenizer** tokenizer);
GPT_API gpt_status gpt_tokenizer_load(const char* path,
                                      gpt_tokenizer** tokenizer); /* "byte": every byte is a token */
/* Trains a tokenizer on a text. Options: vocab_size (all ids, including special tokens), pattern, and
 * special_token, which can be repeated. */
GPT_API gpt_status gpt_tokenizer_train(const gpt_context*, const char* text, size_t size, gpt_options,
                                       gpt_tokenizer** tokenizer);
GPT_API void gpt_tokenizer_free(gpt_tokenizer*);
GPT_API gpt_status gpt_tokenizer_save(const gpt_tokenizer*, const char* path);
/* Encode or decode a text. At most `capacity` ids or bytes are written. *count or *size receives the total
 * number, which can be larger: call again with a larger buffer then. gpt_encode_special encodes the names of
 * special tokens in the text as those tokens; gpt_encode treats them as plain text. */
GPT_API gpt_status gpt_encode(const gpt_tokenizer*, const char* text, size_t size, int32_t* ids,
                              size_t capacity, size_t* count);
GPT_API gpt_status gpt_encode_special(const gpt_tokenizer*, const char* text, size_t size, int32_t* ids,
                                      size_t capacity, size_t* count);
GPT_API gpt_status gpt_decode(const gpt_tokenizer*, const int32_t* ids, size_t count, char* text,
                              size_t capacity, size_t* size);

/* Creates a session. Options: n_ctx; dtype; kv_dtype; in_place; repack (auto, never or always); policy (stop,
 * crop or slide); speculate (off, ngram or draft); draft (a path); draft_tokens; threads. */
GPT_API gpt_status gpt_session_new(const gpt_model*, gpt_options, gpt_session** session);
GPT_API void gpt_session_free(gpt_session*);
GPT_API gpt_status gpt_feed(gpt_session*, const char* text, size_t size);
GPT_API gpt_status gpt_feed_special(gpt_session*, const char* text, size_t size); /* see gpt_encode_special */
GPT_API gpt_status gpt_feed_ids(gpt_session*, const int32_t* ids, size_t count);
/* Continues the text of a session. Options: all fields of GenerateOptions and SamplingParams except logprobs.
 * Three keys can be repeated: "stop=TEXT", "logit_bias=ID=VALUE" and "adapter=NAME". on_piece and finish may
 * be NULL. */
GPT_API gpt_status gpt_generate(gpt_session*, gpt_options, gpt_on_piece on_piece, void* user,
                                gpt_finish* finish);
/* Return the logits of the next token, [vocab_size], and the ids of the session. gpt_truncate keeps the first
 * `count` ids. */
GPT_API gpt_status gpt_logits(gpt_session*, const float** logits, size_t* count);
GPT_API gpt_status gpt_ids(const gpt_session*, const int32_t** ids, size_t* count);
GPT_API gpt_status gpt_truncate(gpt_session*, size_t count);

/* Creates a chat. system: the system message, or NULL for none. The options are those of gpt_session_new. */
GPT_API gpt_status gpt_chat_new(const gpt_model*, const char* system, gpt_options, gpt_chat** chat);
GPT_API void gpt_chat_free(gpt_chat*);
/* Generates the response to a message. Options and callback are those of gpt_generate. */
GPT_API gpt_status gpt_chat_say(gpt_chat*, const char* message, gpt_options, gpt_on_piece on_piece,
                                void* user, gpt_finish* finish);
GPT_API gpt_status gpt_chat_reset(gpt_chat*);

/* Creates an engine. Options: slots, cache_tokens, and those of gpt_session_new. */
GPT_API gpt_status gpt_engine_new(const gpt_model*, gpt_options, gpt_engine** engine);
GPT_API void gpt_engine_free(gpt_engine*);
/* Queues a request and returns its number. Options: those of gpt_generate, and special=true to encode the
 * prompt as gpt_encode_special does. */
GPT_API gpt_status gpt_submit(gpt_engine*, const char* prompt, size_t size, gpt_options, int64_t* request);
/* Ends a request without further events. Fails with GPT_INVALID_ARGUMENT if the request has already ended. */
GPT_API gpt_status gpt_cancel_request(gpt_engine*, int64_t request);
/* Runs one step and returns its events; read them with gpt_event_at. *idle receives 1 if no requests are
 * left, otherwise 0. */
GPT_API gpt_status gpt_step(gpt_engine*, const gpt_event** events, size_t* count, int* idle);

/* Creates a trainer. settings: the flags of `gpt train`, with underscores. text is the training text; it may
 * be NULL if the settings contain data. */
GPT_API gpt_status gpt_trainer_new(const gpt_context*, gpt_options settings, const char* text, size_t size,
                                   gpt_trainer** trainer);
GPT_API void gpt_trainer_free(gpt_trainer*);
/* Runs up to `steps` of the remaining steps. *steps_done receives the number of steps completed. on_step and
 * steps_done may be NULL. */
GPT_API gpt_status gpt_trainer_run(gpt_trainer*, int64_t steps, gpt_on_step on_step, void* user,
                                   int64_t* steps_done);
GPT_API gpt_status gpt_trainer_validation_loss(gpt_trainer*,
                                               double* loss); /* GPT_UNSUPPORTED if no text is held out */
GPT_API gpt_status gpt_trainer_save(const gpt_trainer*, const char* folder);

#ifdef __cplusplus
}
#endif

#endif

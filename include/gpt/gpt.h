#ifndef GPT_GPT_H
#define GPT_GPT_H

/* gpt.cpp for C, and for every language that calls C. What things mean is in gpt.hpp.
 *
 * Every function that can fail returns a gpt_status; gpt_last_error() then has the text. What it gives goes
 * through the last parameters, which are left as they were where it fails. No exception leaves a function,
 * and none may leave a callback.
 *
 * Lifetimes. Handles belong to the caller: each _new, _load, _of, _train needs its _free, in any order, since
 * a handle keeps alive what it needs. Freeing NULL does nothing. Pointers that a function gives are valid
 * until the next call with the same handle; those of a callback until it returns.
 *
 * Threads. As in gpt.hpp: contexts, models and tokenizers by any number of threads, all others by one at a
 * time.
 *
 * Options are "key=value" strings, the last pointer NULL, or no array at all. Keys are the fields of the
 * structs in gpt.hpp, with their defaults; a list is its key given several times: "stop=\n",
 * "special_token=<|end|>".
 *
 * Text is UTF-8 with its size in bytes; paths and names end with 0. */

#include <stddef.h>
#include <stdint.h>

#define GPT_API_VERSION \
  3 /* counts what is added; what is incompatible changes the soname, see docs/library.md */

#ifndef GPT_API
#define GPT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

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

typedef enum gpt_finish {
  GPT_FINISH_NONE = -1,
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

/* level 0: information, 1: a warning. */
typedef void (*gpt_on_log)(void* user, int level, const char* line, size_t size);
/* A piece of text; id -1: what had been held back. 0 ends the text. */
typedef int (*gpt_on_piece)(void* user, const char* text, size_t size, int32_t id);
/* After a step. 0 ends the call. */
typedef int (*gpt_on_step)(void* user, int64_t step, double loss);

/* struct_size: bytes of an event of the library that runs, which may have more fields at the end than this
 * one, and of a library of an earlier GPT_API_VERSION fewer. Events follow each other at this distance;
 * gpt_event_at finds them. */
typedef struct gpt_event {
  size_t struct_size;
  int64_t request;
  int32_t id;
  gpt_finish finish;
  const char* text;
  size_t size;
  const char* error; /* with GPT_FINISH_ERROR, not ended with 0 */
  size_t error_size;
} gpt_event;

/* Event i of an array that gpt_step gives. */
static inline const gpt_event* gpt_event_at(const gpt_event* events, size_t i) {
  return (const gpt_event*)(const void*)((const char*)events + i * events->struct_size);
}

GPT_API uint32_t gpt_api_version(void);          /* of the library that runs */
GPT_API const char* gpt_status_text(gpt_status); /* a few words */
GPT_API const char* gpt_last_error(void);        /* of this thread's last call that failed; never NULL */

/* threads, instruction_set, memory_limit. log: may be NULL. */
GPT_API gpt_status gpt_context_new(gpt_options, gpt_on_log log, void* user, gpt_context** context);
GPT_API void gpt_context_free(gpt_context*);
GPT_API gpt_status gpt_cancel(const gpt_context*); /* from any thread or signal handler */
GPT_API gpt_status gpt_resume(const gpt_context*);

/* tokenizer, chat_format, and "adapter=NAME=PATH" or "adapter=NAME=PATH=SCALE" any number of times. */
GPT_API gpt_status gpt_model_load(const gpt_context*, const char* path, gpt_options, gpt_model** model);
GPT_API void gpt_model_free(gpt_model*);
/* parameters, vocab_size, n_ctx, n_layer, n_head, n_embd, bytes, has_tokenizer, has_chat_format */
GPT_API gpt_status gpt_model_fact(const gpt_model*, const char* name, int64_t* value);

GPT_API gpt_status gpt_tokenizer_of(const gpt_model*, gpt_tokenizer** tokenizer);
GPT_API gpt_status gpt_tokenizer_load(const char* path,
                                      gpt_tokenizer** tokenizer); /* "byte": every byte a token */
/* vocab_size (all ids, special tokens included), pattern, special_token. */
GPT_API gpt_status gpt_tokenizer_train(const gpt_context*, const char* text, size_t size, gpt_options,
                                       gpt_tokenizer** tokenizer);
GPT_API void gpt_tokenizer_free(gpt_tokenizer*);
GPT_API gpt_status gpt_tokenizer_save(const gpt_tokenizer*, const char* path);
/* Write up to `capacity` ids or bytes, and the number that there are, which may be more. With _special the
 * names of special tokens in the text are these tokens. */
GPT_API gpt_status gpt_encode(const gpt_tokenizer*, const char* text, size_t size, int32_t* ids,
                              size_t capacity, size_t* count);
GPT_API gpt_status gpt_encode_special(const gpt_tokenizer*, const char* text, size_t size, int32_t* ids,
                                      size_t capacity, size_t* count);
GPT_API gpt_status gpt_decode(const gpt_tokenizer*, const int32_t* ids, size_t count, char* text,
                              size_t capacity, size_t* size);

/* n_ctx, dtype, kv_dtype, in_place; repack: auto, never or always; policy: stop, crop or slide; speculate:
 * off, ngram or draft; draft: a path; draft_tokens; threads. */
GPT_API gpt_status gpt_session_new(const gpt_model*, gpt_options, gpt_session** session);
GPT_API void gpt_session_free(gpt_session*);
GPT_API gpt_status gpt_feed(gpt_session*, const char* text, size_t size);
GPT_API gpt_status gpt_feed_special(gpt_session*, const char* text, size_t size); /* as gpt_encode_special */
GPT_API gpt_status gpt_feed_ids(gpt_session*, const int32_t* ids, size_t count);
/* All of GenerateOptions but logprobs; "stop=TEXT", "logit_bias=ID=VALUE" and "adapter=NAME" any number of
 * times. on_piece and finish may be NULL. */
GPT_API gpt_status gpt_generate(gpt_session*, gpt_options, gpt_on_piece on_piece, void* user,
                                gpt_finish* finish);
GPT_API gpt_status gpt_logits(gpt_session*, const float** logits, size_t* count);
GPT_API gpt_status gpt_ids(const gpt_session*, const int32_t** ids, size_t* count);
GPT_API gpt_status gpt_truncate(gpt_session*, size_t count);

/* system: may be NULL. Options as of a session, and of gpt_generate. */
GPT_API gpt_status gpt_chat_new(const gpt_model*, const char* system, gpt_options, gpt_chat** chat);
GPT_API void gpt_chat_free(gpt_chat*);
GPT_API gpt_status gpt_chat_say(gpt_chat*, const char* message, gpt_options, gpt_on_piece on_piece,
                                void* user, gpt_finish* finish);
GPT_API gpt_status gpt_chat_reset(gpt_chat*);

/* slots, cache_tokens, and the options of a session. */
GPT_API gpt_status gpt_engine_new(const gpt_model*, gpt_options, gpt_engine** engine);
GPT_API void gpt_engine_free(gpt_engine*);
/* Options as of gpt_generate; special=true: as gpt_encode_special. */
GPT_API gpt_status gpt_submit(gpt_engine*, const char* prompt, size_t size, gpt_options, int64_t* request);
GPT_API gpt_status gpt_cancel_request(gpt_engine*, int64_t request);
/* One step. events: read them with gpt_event_at. idle: whether there is nothing left to do after it. */
GPT_API gpt_status gpt_step(gpt_engine*, const gpt_event** events, size_t* count, int* idle);

/* Settings as of gpt train, with underscores. text: may be NULL where the settings name data. */
GPT_API gpt_status gpt_trainer_new(const gpt_context*, gpt_options settings, const char* text, size_t size,
                                   gpt_trainer** trainer);
GPT_API void gpt_trainer_free(gpt_trainer*);
/* on_step and steps_done may be NULL. */
GPT_API gpt_status gpt_trainer_run(gpt_trainer*, int64_t steps, gpt_on_step on_step, void* user,
                                   int64_t* steps_done);
GPT_API gpt_status gpt_trainer_validation_loss(gpt_trainer*,
                                               double* loss); /* unsupported where nothing is held out */
GPT_API gpt_status gpt_trainer_save(const gpt_trainer*, const char* folder);

#ifdef __cplusplus
}
#endif

#endif

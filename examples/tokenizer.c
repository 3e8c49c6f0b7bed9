/* Converts a text to token ids and back.   tokenizer_c TEXT [TOKENIZER]
 * Without TOKENIZER, trains a tokenizer on the text. */

#include <gpt/gpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Encodes and decodes a text. *same receives 1 if the result equals the text, else 0. The buffers suffice for
 * one token per byte and 16 more. */
static gpt_status round_trip(const gpt_tokenizer* tokenizer, const char* text, int* same) {
  const size_t size = strlen(text), capacity = size + 16;
  int32_t* ids = malloc(capacity * sizeof *ids);
  char* back = malloc(capacity);
  size_t count = 0, back_size = 0, i;
  gpt_status status = ids && back ? GPT_OK : GPT_OUT_OF_MEMORY;
  if (status == GPT_OK) status = gpt_encode(tokenizer, text, size, ids, capacity, &count);
  for (i = 0; i < count && status == GPT_OK; ++i)
    printf("%d ", (int)ids[i]);
  if (status == GPT_OK) status = gpt_decode(tokenizer, ids, count, back, capacity, &back_size);
  *same = status == GPT_OK && back_size == size && memcmp(back, text, size) == 0;
  printf("\n%d bytes, %d tokens, %s text again\n", (int)size, (int)count, *same ? "the same" : "another");
  free(ids);
  free(back);
  return status;
}

int main(int argc, char** argv) {
  const char* const options[] = {"vocab_size=300", NULL};
  gpt_context* context = NULL;
  gpt_tokenizer* tokenizer = NULL;
  gpt_status status;
  int same = 0;
  if (argc < 2) {
    fprintf(stderr, "usage: tokenizer_c TEXT [TOKENIZER]\n");
    return 2;
  }
  status = gpt_context_new(NULL, NULL, NULL, &context);
  if (status == GPT_OK) {
    status = argc > 2 ? gpt_tokenizer_load(argv[2], &tokenizer)
                      : gpt_tokenizer_train(context, argv[1], strlen(argv[1]), options, &tokenizer);
  }
  if (status == GPT_OK) status = round_trip(tokenizer, argv[1], &same);
  if (status != GPT_OK) fprintf(stderr, "%s: %s\n", gpt_status_text(status), gpt_last_error());
  gpt_tokenizer_free(tokenizer);
  gpt_context_free(context);
  return status != GPT_OK ? (int)status : !same;
}

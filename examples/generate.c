/* Continues a text.   generate_c MODEL "Once upon a time" [TOKENS] */

#include <gpt/gpt.h>
#include <stdio.h>
#include <string.h>

static int show(void* user, const char* text, size_t size, int32_t id) {
  (void)user, (void)id;
  fwrite(text, 1, size, stdout);
  return 1; /* continue */
}

int main(int argc, char** argv) {
  gpt_context* context = NULL;
  gpt_model* model = NULL;
  gpt_session* session = NULL;
  char max_tokens[64];
  const char* options[] = {max_tokens, NULL};
  gpt_status status;
  if (argc < 3) {
    fprintf(stderr, "usage: generate_c MODEL PROMPT [TOKENS]\n");
    return 2;
  }
  snprintf(max_tokens, sizeof max_tokens, "max_tokens=%s", argc > 3 ? argv[3] : "100");
  status = gpt_context_new(NULL, NULL, NULL, &context);
  if (status == GPT_OK) status = gpt_model_load(context, argv[1], NULL, &model);
  if (status == GPT_OK) status = gpt_session_new(model, NULL, &session);
  if (status == GPT_OK) status = gpt_feed(session, argv[2], strlen(argv[2]));
  if (status == GPT_OK) {
    fputs(argv[2], stdout);
    status = gpt_generate(session, options, show, NULL, NULL);
    puts("");
  }
  if (status != GPT_OK) fprintf(stderr, "%s: %s\n", gpt_status_text(status), gpt_last_error());
  gpt_session_free(session);
  gpt_model_free(model);
  gpt_context_free(context);
  return (int)status;
}

/* Continues many texts concurrently and prints each token immediately.   stream_many_c MODEL PROMPT... */

#include <gpt/gpt.h>
#include <stdio.h>
#include <string.h>

static gpt_status serve(gpt_engine* engine) {
  int idle = 0;
  while (!idle) {
    const gpt_event* events;
    size_t count, i;
    const gpt_status status = gpt_step(engine, &events, &count, &idle);
    if (status != GPT_OK) return status;
    for (i = 0; i < count; ++i) {
      const gpt_event* event = gpt_event_at(events, i);
      printf("%d: %.*s\n", (int)event->request, (int)event->size, event->text);
      if (event->finish == GPT_FINISH_ERROR) printf("%.*s\n", (int)event->error_size, event->error);
    }
  }
  return GPT_OK;
}

int main(int argc, char** argv) {
  const char* const slots[] = {"slots=4", NULL};
  const char* const options[] = {"max_tokens=10", NULL};
  gpt_context* context = NULL;
  gpt_model* model = NULL;
  gpt_engine* engine = NULL;
  gpt_status status;
  int i;
  if (argc < 3) {
    fprintf(stderr, "usage: stream_many_c MODEL PROMPT...\n");
    return 2;
  }
  status = gpt_context_new(NULL, NULL, NULL, &context);
  if (status == GPT_OK) status = gpt_model_load(context, argv[1], NULL, &model);
  if (status == GPT_OK) status = gpt_engine_new(model, slots, &engine);
  for (i = 2; i < argc && status == GPT_OK; ++i) {
    int64_t request;
    status = gpt_submit(engine, argv[i], strlen(argv[i]), options, &request);
  }
  if (status == GPT_OK) status = serve(engine);
  if (status != GPT_OK) fprintf(stderr, "%s: %s\n", gpt_status_text(status), gpt_last_error());
  gpt_engine_free(engine);
  gpt_model_free(model);
  gpt_context_free(context);
  return (int)status;
}

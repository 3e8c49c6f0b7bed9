/* Trains a small model on a string, in seconds, and saves it.   train_c FOLDER */

#include <gpt/gpt.h>
#include <stdio.h>
#include <string.h>

static int show(void* user, int64_t step, double loss) {
  (void)user;
  if (step % 20 == 0) printf("step %d: loss %g\n", (int)step, loss);
  return 1; /* continue */
}

int main(int argc, char** argv) {
  static const char sentence[] = "The quick brown fox jumps over the lazy dog. ";
  static char text[200 * sizeof sentence];
  const char* const settings[] = {"preset=tiny", "n_layer=2", "n_embd=64", "n_head=4", "n_ctx=64",
                                  "steps=100",   "warmup=10", "lr=3e-3",   NULL};
  gpt_context* context = NULL;
  gpt_trainer* trainer = NULL;
  gpt_status status;
  int i;
  if (argc != 2) {
    fprintf(stderr, "usage: train_c FOLDER\n");
    return 2;
  }
  for (i = 0; i < 200; ++i)
    strcat(text, sentence);
  status = gpt_context_new(NULL, NULL, NULL, &context);
  if (status == GPT_OK) status = gpt_trainer_new(context, settings, text, strlen(text), &trainer);
  if (status == GPT_OK) status = gpt_trainer_run(trainer, 100, show, NULL, NULL);
  if (status == GPT_OK) status = gpt_trainer_save(trainer, argv[1]);
  if (status != GPT_OK) fprintf(stderr, "%s: %s\n", gpt_status_text(status), gpt_last_error());
  gpt_trainer_free(trainer);
  gpt_context_free(context);
  return (int)status;
}

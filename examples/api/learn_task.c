/* learn_task.c: synthetic sequences, and how well a model continues them at each distance from their start. */
#include "example.h"
#include <gyre/gyre_research.h>

enum { LENGTH = 32 };

static void draw(void) {
    /* [gyre_task_vocab gyre_task_sequence] */
    int32_t x[LENGTH + 1];
    float determined[LENGTH + 1];
    uint64_t state = 1; /* the seed */
    gyre_task_sequence(GYRE_TASK_POSGEN_RECURSIVE, LENGTH, 0, &state, x, determined);
    expect(x[0] == gyre_task_vocab(GYRE_TASK_POSGEN_RECURSIVE) - 1); /* the start symbol */
    const int32_t *s = x + 1;
    for (int l = 4; l < LENGTH; l++) /* each symbol is the sum of the four before it, modulo 17 */
        expect(s[l] == (s[l - 1] + s[l - 2] + s[l - 3] + s[l - 4]) % 17 && determined[l + 1] == 1);
    /* [end] */
}

static void measure(const gyre_model *model) {
    /* [gyre_task_measure] */
    gyre_task_options options = GYRE_INIT(gyre_task_options);
    options.task = GYRE_TASK_COPY;
    options.length = LENGTH, options.sequences = 20, options.seed = 1;
    int64_t right[LENGTH], asked[LENGTH];
    check(gyre_task_measure(model, &options, right, asked, NULL, &err));
    for (int i = LENGTH - GYRE_TASK_COPY_SPAN; i < LENGTH; i++) /* the last symbols repeat the first */
        expect(asked[i] == 20 && right[i] <= 20);
    /* [end] */
    expect(asked[0] == 0);
}

int main(void) {
    draw();
    gyre_train_options options = GYRE_INIT(gyre_train_options);
    options.task = GYRE_TASK_COPY;
    options.context = LENGTH, options.batch = 4, options.steps = 3;
    options.model.model_dim = 32, options.model.layers = 1;
    options.model.position.kind = GYRE_KIND_ALIBI;
    options.model.vocab = gyre_task_vocab(GYRE_TASK_COPY);
    gyre_trainer *trainer = NULL;
    check(gyre_trainer_create(&trainer, &options, NULL, NULL, NULL, &err)); /* tasks need no text */
    for (double loss; gyre_trainer_steps(trainer) < 3;)
        check(gyre_trainer_step(trainer, &loss, &err));
    measure(gyre_trainer_get_model(trainer));
    gyre_trainer_free(trainer);
    return 0;
}

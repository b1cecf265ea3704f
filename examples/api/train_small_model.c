/* train_small_model.c: a few steps of training, stopped and resumed to the same bits.
 *   train_small_model FOLDER */
#include "example.h"
#include <gyre/gyre_research.h>

enum { CONTEXT = 32, STEPS = 8 };

static void look(const gyre_trainer *trainer) {
    /* [gyre_trainer_steps gyre_trainer_get_options gyre_trainer_get_model] */
    printf("step %d of %d, %d weights\n", (int)gyre_trainer_steps(trainer), (int)gyre_trainer_get_options(trainer)->steps,
           (int)gyre_model_parameters(gyre_trainer_get_model(trainer))); /* the model may be evaluated between steps */
    /* [end] */
    expect(gyre_trainer_steps(trainer) == STEPS && gyre_trainer_get_options(trainer)->steps == STEPS);

    /* [gyre_train_flops] */
    const gyre_model_config *config = gyre_model_get_config(gyre_trainer_get_model(trainer));
    const gyre_train_options *options = gyre_trainer_get_options(trainer);
    const double tokens = (double)(options->steps * options->batch * options->context);
    printf("%.1e floating-point operations\n", tokens * gyre_train_flops(config, options->context));
    /* [end] */
    const double weights = (double)gyre_model_parameters(gyre_trainer_get_model(trainer));
    const double attention = 12.0 * (double)(config->layers * config->heads * config->head_dim * CONTEXT);
    expect(gyre_train_flops(config, CONTEXT) == 6 * weights + attention);
}

static void name_parts(void) {
    int found = 0;
    /* [gyre_layer_part_variant_at] */
    gyre_layer_part_variant variant;
    for (int i = 0; gyre_layer_part_variant_at(i, &variant); i++)
        if (variant.layer_parts == GYRE_LAYER_PART_POLAR) found++; /* "pope" */
    /* [end] */
    expect(found == 1);
}

/* Steps to the end of the run.  out = the loss of the last. */
static double train(gyre_trainer *trainer) {
    double loss = 0;
    /* [gyre_trainer_step] */
    while (gyre_trainer_steps(trainer) < gyre_trainer_get_options(trainer)->steps)
        check(gyre_trainer_step(trainer, &loss, &err));
    /* [end] */
    return loss;
}

/* A team of one process, which has nothing to send.  In a larger one, gather and sum exchange the items. */
static gyre_status gather(void *ctx, gyre_status status, void *items, int64_t count, size_t bytes, gyre_error *error) {
    (void)ctx, (void)items, (void)count, (void)bytes, (void)error;
    return status;
}

static gyre_status sum(void *ctx, gyre_status status, float *items, int64_t own, int64_t n, gyre_error *error) {
    (void)ctx, (void)error;
    for (int64_t i = n; i < own * n; i++)
        items[i % n] += items[i];
    return status;
}

static void train_in_team(gyre_trainer *trainer, double uninterrupted) {
    /* [gyre_trainer_set_team] */
    gyre_team team = GYRE_INIT(gyre_team);
    team.rank = 0, team.ranks = 1; /* as many as there are processes */
    team.gather = gather, team.sum = sum;
    check(gyre_trainer_set_team(trainer, &team, &err));
    expect(train(trainer) == uninterrupted); /* the same bits for any number of processes */
    /* [end] */
}

static gyre_train_options small(void) {
    /* [gyre_train_options_suggest] */
    gyre_train_options options = GYRE_INIT(gyre_train_options);
    options.context = CONTEXT, options.batch = 4, options.steps = STEPS;
    options.model.model_dim = 32, options.model.layers = 2; /* before the call, which derives head_dim and mlp_dim */
    options.model.position.kind = GYRE_KIND_ROPE;
    options.model.position.trained_length = CONTEXT;
    gyre_train_options_suggest(&options); /* the rest as the bundled models were trained */
    options.retrieval_fraction = 0;       /* after the call, because zero stands for the recipe's 0.8: plain text only */
    options.warmup = 2;
    /* [end] */
    return options;
}

static void plan(const gyre_text *text, const gyre_train_options *options) {
    /* [gyre_train_sequence gyre_train_positions] */
    int32_t ids[CONTEXT + 1];
    float weights[CONTEXT + 1];
    const gyre_train_place place = {.step = 0, .index = 2}; /* sequence 2 of step 0, as the trainer sees it */
    gyre_train_sequence(text, options, place, CONTEXT + 1, ids, weights);
    int64_t positions[CONTEXT];
    gyre_train_positions(options, place, CONTEXT, positions); /* 0, 1, 2, ... without options->positions */
    expect(weights[5] == 1);                                  /* plain text */
    expect(positions[5] == 5);
    /* [end] */
}

static void write_lines(const char *path) {
    FILE *file = fopen(path, "w");
    expect(file != NULL);
    for (int i = 0; i < 40; i++)
        fputs("to be or not to be\n", file);
    expect(fclose(file) == 0);
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: train_small_model FOLDER\n"), 2;
    char path[4096], run[4096], model[4096];
    snprintf(path, sizeof path, "%s/lines.txt", argv[1]);
    snprintf(run, sizeof run, "%s/run", argv[1]);
    snprintf(model, sizeof model, "%s/trained", argv[1]);
    write_lines(path);
    const char *const paths[] = {path};
    gyre_text text;
    check(gyre_text_open(&text, paths, 1, GYRE_TEXT_SPLIT_ALL, CONTEXT + 1, &err));
    const gyre_train_options options = small();
    plan(&text, &options);

    /* [gyre_trainer_create gyre_trainer_save] */
    gyre_trainer *trainer = NULL;
    double loss;
    check(gyre_trainer_create(&trainer, &options, NULL, &text, NULL, &err)); /* NULL: random weights, one thread */
    check(gyre_trainer_step(trainer, &loss, &err));
    check(gyre_trainer_save(trainer, run, &err)); /* now and then: a run that is killed goes on from here */
    /* [end] */
    const double first = loss, uninterrupted = train(trainer);
    expect(uninterrupted < first);

    /* [gyre_trainer_open gyre_trainer_free] */
    gyre_trainer *resumed = NULL;
    check(gyre_trainer_open(&resumed, run, &text, NULL, &err));
    expect(gyre_trainer_steps(resumed) == 1);
    expect(train(resumed) == uninterrupted); /* the same bits as the run that never stopped */
    gyre_trainer_free(resumed);
    /* [end] */
    check(gyre_trainer_open(&resumed, run, &text, NULL, &err));
    train_in_team(resumed, uninterrupted);
    gyre_trainer_free(resumed);
    look(trainer);
    name_parts();

    /* [gyre_trainer_describe gyre_trainer_export] */
    check(gyre_trainer_describe(trainer, "train_small_model FOLDER", &err)); /* stands in training.json */
    check(gyre_trainer_export(trainer, model, GYRE_DTYPE_F16, &err));        /* for gyre_model_open */
    /* [end] */
    gyre_trainer_free(trainer);
    gyre_model *opened = NULL;
    check(gyre_model_open(&opened, model, NULL, &err));
    gyre_model_free(opened);
    gyre_text_free(&text);
    return 0;
}

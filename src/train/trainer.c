/* trainer.c: a training run and its steps. */
#include "train/trainer.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/sized.h"
#include "eval/eval_windows.h"
#include "gyre/gyre_research.h"
#include "model/ops/float_buffer.h"
#include "util/error.h"
#include "util/utf8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Groups of sequences whose gradients are summed separately and then added in order.  Bounds the threads that can help
 * and the memory of the gradients.  Must not depend on the number of threads, so that the bits do not. */
enum { MAX_GROUPS = 8, MICROBATCH_TOKENS = 512, PIECE = 64 };

/* Sequence `from` of the worker's memory takes the positions of a sequence of the run. */
static void draw_positions(const gyre_trainer *t, gyre_train_worker *w, int64_t from, gyre_train_place place) {
    const gyre_train_options *o = &t->options;
    if (w->positions) gyre_train_positions(o, place, o->context, w->positions + from * o->context);
}

static gyre_status create_positions(const gyre_trainer *t, gyre_train_worker *w) {
    if (t->options.positions == GYRE_POSITION_DRAW_NONE) return GYRE_OK;
    w->positions = malloc((size_t)(t->microbatch_size * t->options.context) * sizeof *w->positions);
    if (!w->positions) return GYRE_ENOMEM;
    for (int64_t s = 0; s < t->microbatch_size; s++)
        draw_positions(t, w, s, (gyre_train_place){0, s});
    return GYRE_OK;
}

static gyre_status create_workers(gyre_trainer *t) {
    t->workers = calloc((size_t)t->worker_count, sizeof *t->workers);
    if (!t->workers) return GYRE_ENOMEM;
    for (int64_t i = 0; i < t->worker_count; i++) {
        if (create_positions(t, &t->workers[i])) return GYRE_ENOMEM;
        const gyre_status status = gyre_backprop_create(&t->workers[i].backprop, &t->tables, t->microbatch_size,
                                                        t->options.context, t->workers[i].positions);
        if (status) return status;
        const size_t count = (size_t)(t->microbatch_size * (t->options.context + 1));
        t->workers[i].tokens = malloc(count * sizeof(int32_t));
        t->workers[i].loss_weights = malloc(count * sizeof(float));
        if (!t->workers[i].tokens || !t->workers[i].loss_weights) return GYRE_ENOMEM;
    }
    return GYRE_OK;
}

/* A microbatch is a few whole sequences of one group.  Their number divides that of the group, so that all microbatches
 * have the same shape. */
static void split_batch(gyre_trainer *t) {
    const gyre_train_options *o = &t->options;
    for (t->groups = MAX_GROUPS; o->batch % t->groups; t->groups--) {
    }
    const int64_t in_group = o->batch / t->groups;
    t->microbatch_size = MICROBATCH_TOKENS / o->context < 1 ? 1 : MICROBATCH_TOKENS / o->context;
    if (t->microbatch_size > in_group) t->microbatch_size = in_group;
    while (in_group % t->microbatch_size)
        t->microbatch_size--;
    t->worker_count = t->exec.run ? gyre_exec_concurrency(&t->exec) : 1;
    if (t->worker_count > t->groups) t->worker_count = t->groups;
}

/* The encoding has the positions of the sequences.  Drawn ones are for encodings that read any. */
static gyre_status check_places(const gyre_train_options *o, const gyre_model *model, gyre_error *err) {
    const gyre_positions positions = {0};
    if (o->positions == GYRE_POSITION_DRAW_NONE)
        return gyre_positions_check(model->encoding, &positions, 1, o->context, "options.context", "training", err);
    const gyre_head_part *part = gyre_head_part_of(o->model.layer_parts);
    const int in_all_layers = part && (!part->first_layer || part->first_layer(o->model.layers) == 0);
    if (in_all_layers && part->reads_no_positions)
        return gyre_fail(err, GYRE_EINVAL, "options.positions: %s, but layers of %s read none (training)",
                         gyre_position_draw_name(o->positions), part->variants[0].name);
    if (!gyre_encoding_places(model->encoding))
        return gyre_fail(err, GYRE_EINVAL, "options.positions: %s, but %s reads none (training)",
                         gyre_position_draw_name(o->positions),
                         gyre_kind_name(gyre_encoding_get_config(model->encoding)->kind));
    return gyre_positions_check(model->encoding, &positions, 1, o->position_range, "options.position_range", "training",
                                err);
}

gyre_status gyre_trainer_from_model(gyre_trainer **out, const gyre_train_options *options, gyre_model *model,
                                    const gyre_text *text, const gyre_exec *exec, gyre_error *err) {
    gyre_trainer *t = calloc(1, sizeof *t);
    if (!t) {
        gyre_model_free(model);
        return gyre_fail(err, GYRE_ENOMEM, "trainer: out of memory (training)");
    }
    t->options = *options;
    t->options.model = *gyre_model_get_config(model);
    t->model = model;
    t->text = text;
    if (exec) t->exec = *exec;
    split_batch(t);
    gyre_status status = check_places(&t->options, model, err);
    if (status) {
        gyre_trainer_free(t);
        return status;
    }
    if (!status) status = gyre_layer_tables_create(&t->tables, model, model->encoding, NULL);
    if (!status) status = gyre_optimizer_create(&t->optimizer, model);
    if (!status) status = create_workers(t);
    t->gradients = gyre_alloc_floats(t->groups * model->weight_count);
    t->losses = calloc((size_t)t->groups, sizeof *t->losses);
    if (!status && (!t->gradients || !t->losses)) status = GYRE_ENOMEM;
    if (status) {
        gyre_trainer_free(t);
        return gyre_fail(err, status, "trainer: %s for a context of %lld (training)", gyre_status_text(status),
                         (long long)options->context);
    }
    *out = t;
    return GYRE_OK;
}

/* The weights are copied by name and shape, so a model with another encoding will do if it has the same tables. */
static gyre_status check_start(const gyre_model *start, const gyre_model *model, gyre_error *err) {
    if (!start->weights || start->store)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "start: opened to be read; use gyre_model_open_to_train (training)");
    const int64_t wanted = gyre_tensor_count(&model->layout), given = gyre_tensor_count(&start->layout);
    for (int64_t i = 0; i < wanted && i < given; i++) {
        const gyre_tensor a = gyre_tensor_at(&start->layout, i), b = gyre_tensor_at(&model->layout, i);
        if (strcmp(a.name, b.name) != 0)
            return gyre_fail(err, GYRE_EINVAL, "start: has %s where the options describe %s (training)", a.name, b.name);
        if (a.shape[0] != b.shape[0] || a.shape[1] != b.shape[1])
            return gyre_fail(err, GYRE_EINVAL, "start: %s is %lld x %lld where the options describe %lld x %lld (training)",
                             a.name, (long long)a.shape[0], (long long)a.shape[1], (long long)b.shape[0],
                             (long long)b.shape[1]);
    }
    if (wanted == given) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "start: %lld tensors where the options describe %lld (training)", (long long)given,
                     (long long)wanted);
}

static gyre_status create(gyre_trainer **out, const gyre_train_options *options, const gyre_model *start,
                          const gyre_text *text, const gyre_exec *exec, gyre_error *err) {
    gyre_status status = gyre_train_options_check(options, text, err);
    gyre_model *model = NULL;
    if (!status) status = gyre_model_create(&model, &options->model, options->seed, err);
    if (status) return status;
    if (start) status = check_start(start, model, err);
    if (status) {
        gyre_model_free(model);
        return status;
    }
    if (start) memcpy(model->weights, start->weights, (size_t)model->weight_count * sizeof(float));
    return gyre_trainer_from_model(out, options, model, text, exec, err);
}

gyre_status gyre_trainer_create(gyre_trainer **out, const gyre_train_options *options, const gyre_model *start,
                                const gyre_text *text, const gyre_exec *exec, gyre_error *err) {
    gyre_train_options own;
    const gyre_status status = gyre_sized_read(&own, sizeof own, options, "gyre_train_options", err);
    if (status) return status;
    gyre_train_options_complete(&own);
    return create(out, &own, start, text, exec, err);
}

void gyre_trainer_free(gyre_trainer *t) {
    if (!t) return;
    for (int64_t i = 0; t->workers && i < t->worker_count; i++) {
        gyre_backprop_free(&t->workers[i].backprop);
        free(t->workers[i].tokens);
        free(t->workers[i].loss_weights);
        free(t->workers[i].positions);
    }
    free(t->workers);
    gyre_layer_tables_free(&t->tables);
    gyre_optimizer_free(&t->optimizer);
    free(t->gradients);
    free(t->losses);
    free(t->command);
    gyre_model_free(t->model);
    free(t);
}

gyre_status gyre_trainer_describe(gyre_trainer *trainer, const char *command, gyre_error *err) {
    if (trainer->command || !command) return GYRE_OK;
    trainer->command = strdup(command);
    if (!trainer->command) return gyre_fail(err, GYRE_ENOMEM, "command: out of memory (training)");
    for (char *at = trainer->command; *at;) { /* JSON holds no other bytes */
        const int length = gyre_utf8_decode(at, strlen(at), NULL);
        if (length <= 0) *at = '?';
        at += length > 0 ? length : 1;
    }
    return GYRE_OK;
}

gyre_status gyre_trainer_set_team(gyre_trainer *trainer, const gyre_team *team, gyre_error *err) {
    const gyre_status status = gyre_team_check(team, err);
    if (!status) trainer->team = team;
    return status;
}

int64_t gyre_trainer_steps(const gyre_trainer *trainer) {
    return trainer->step;
}

const gyre_train_options *gyre_trainer_get_options(const gyre_trainer *trainer) {
    return &trainer->options;
}

const gyre_model *gyre_trainer_get_model(const gyre_trainer *trainer) {
    return trainer->model;
}

/* -- a step -- */
static void run_group(gyre_trainer *t, gyre_train_worker *w, int64_t group) {
    const gyre_train_options *o = &t->options;
    const int64_t in_group = o->batch / t->groups, length = o->context + 1;
    float *gradient = t->gradients + group * t->model->weight_count;
    memset(gradient, 0, (size_t)t->model->weight_count * sizeof *gradient);
    t->losses[group] = 0;
    for (int64_t from = 0; from < in_group && !w->status; from += t->microbatch_size) {
        for (int64_t s = 0; s < t->microbatch_size; s++) {
            const gyre_train_place place = {t->step, group * in_group + from + s};
            gyre_train_sequence(t->text, o, place, length, w->tokens + s * length, w->loss_weights + s * length);
            draw_positions(t, w, s, place);
        }
        const gyre_microbatch microbatch = {w->tokens, w->loss_weights, 1 / (double)(o->batch * o->context)};
        w->status = gyre_backprop_run(&w->backprop, &microbatch, &t->losses[group], gradient);
    }
    gyre_backprop_finish(&w->backprop, gradient);
}

/* The first group of a rank of the team. */
static int64_t first_group(const gyre_trainer *t, int64_t rank) {
    return t->team ? (rank * t->groups + t->team->ranks - 1) / t->team->ranks : rank * t->groups;
}

static void run_worker(void *arg, int64_t index) {
    gyre_trainer *t = arg;
    const int64_t rank = t->team ? t->team->rank : 0, end = first_group(t, rank + 1);
    t->workers[index].status = GYRE_OK;
    for (int64_t group = first_group(t, rank) + index; group < end; group += t->worker_count)
        run_group(t, &t->workers[index], group);
}

static gyre_status workers_status(const gyre_trainer *t, gyre_error *err) {
    for (int64_t i = 0; i < t->worker_count; i++)
        if (t->workers[i].status)
            return gyre_fail(err, t->workers[i].status, "step %lld: %s", (long long)t->step,
                             t->workers[i].backprop.error.text);
    return GYRE_OK;
}

/* Every rank gets all losses, and the sum of all gradients.  *gradients = where it is. */
static gyre_status share_step(const gyre_trainer *t, gyre_status status, float **gradients, gyre_error *err) {
    const gyre_team *team = t->team;
    const int64_t rank = team->rank, first = first_group(t, rank), own = first_group(t, rank + 1) - first;
    *gradients = t->gradients + (own ? first : 0) * t->model->weight_count;
    status = team->gather(team->ctx, status, t->losses, t->groups, sizeof *t->losses, err);
    return status ? status : team->sum(team->ctx, status, *gradients, own, t->model->weight_count, err);
}

static double learning_rate_at(const gyre_train_options *o, int64_t step) {
    if (step < o->warmup) return o->learning_rate * (double)(step + 1) / (double)o->warmup;
    const double pi = 3.14159265358979323846;
    const double progress = o->steps > o->warmup ? (double)(step - o->warmup) / (double)(o->steps - o->warmup) : 1;
    return o->learning_rate * (o->final_fraction + (1 - o->final_fraction) * 0.5 * (1 + cos(pi * progress)));
}

/* -- a step whose loss is not finite -- */
/* Reads a sequence of the batch in pieces.  logits: [PIECE][vocab]. */
static gyre_status read_again(const gyre_trainer *t, gyre_context *context, int64_t sequence, float *logits,
                              gyre_error *err) {
    const int64_t length = t->options.context;
    gyre_train_worker *w = &t->workers[0];
    gyre_status status = GYRE_OK;
    gyre_context_reset(context);
    gyre_train_sequence(t->text, &t->options, (gyre_train_place){t->step, sequence}, length + 1, w->tokens, w->loss_weights);
    for (int64_t from = 0, n; from < length && !status; from += n) {
        n = length - from < PIECE ? length - from : PIECE;
        status = gyre_context_forward(context, w->tokens + from, n, n, logits, err);
    }
    return status;
}

/* Reads the batch as a model is read, which names the layer where such numbers begin.  out = EFORMAT; ENOMEM. */
static gyre_status fail_not_finite(const gyre_trainer *t, gyre_error *err) {
    const gyre_train_options *o = &t->options;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error why = {0, ""};
    options.max_tokens = o->context;
    options.exec = t->exec.run ? &t->exec : NULL;
    float *logits = gyre_alloc_floats(PIECE * o->model.vocab);
    gyre_status status = logits ? gyre_context_create(&context, t->model, &options, &why)
                                : gyre_fail(&why, GYRE_ENOMEM, "logits: out of memory (training)");
    int64_t sequences = 0;
    while (!status && sequences < o->batch)
        status = read_again(t, context, sequences++, logits, &why);
    gyre_context_free(context);
    free(logits);
    if (status && status != GYRE_EFORMAT) return gyre_fail(err, status, "%s", why.text);
    return gyre_fail(err, GYRE_EFORMAT, "loss: not finite at step %lld; a lower learning rate may help%s%s",
                     (long long)t->step, status ? ": " : " (training)", why.text);
}

gyre_status gyre_trainer_step(gyre_trainer *t, double *loss, gyre_error *err) {
    if (!loss) return gyre_fail(err, GYRE_EINVAL, "loss: is NULL (training)");
    const gyre_train_options *o = &t->options;
    const gyre_exec *exec = t->exec.run ? &t->exec : NULL;
    if (t->step >= o->steps) return gyre_fail(err, GYRE_EINVAL, "step: all %lld are done (training)", (long long)o->steps);
    gyre_parallel(exec, run_worker, t, t->worker_count);
    double sum = 0, norm = 0;
    float *gradients = t->gradients;
    gyre_status status = workers_status(t, err);
    if (t->team) status = share_step(t, status, &gradients, err);
    if (status) return status;
    for (int64_t g = 0; g < t->groups; g++)
        sum += t->losses[g];
    const gyre_adamw_args update = {.weights = t->model->weights,
                                    .gradients = gradients,
                                    .groups = t->team ? 1 : t->groups,
                                    .step = t->step + 1,
                                    .learning_rate = learning_rate_at(o, t->step),
                                    .weight_decay = o->weight_decay,
                                    .clip = o->clip};
    if (!isfinite(sum)) return fail_not_finite(t, err);
    gyre_optimizer_step(&t->optimizer, &update, exec, &norm);
    if (!isfinite(norm))
        return gyre_fail(err, GYRE_EFORMAT, "gradient: not finite at step %lld; a lower learning rate may help (training)",
                         (long long)t->step);
    gyre_layer_tables_refresh(&t->tables, exec);
    t->step++;
    *loss = sum / (double)(o->batch * o->context);
    return GYRE_OK;
}

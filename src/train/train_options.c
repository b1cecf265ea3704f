/* train_options.c: defaults and checks of the options of a run, and the count of its floating-point operations. */
#include "gyre/gyre_research.h"
#include "train/trainer.h"

#include "core/positions.h"
#include "core/sized.h"
#include "util/error.h"

static gyre_status out_of_range(gyre_error *err, const char *what, double value, const char *range) {
    return gyre_fail(err, GYRE_EINVAL, "%s: %g is not %s (training options)", what, value, range);
}

static gyre_status check_text(const gyre_train_options *o, const gyre_text *text, gyre_error *err) {
    if (o->retrieval_fraction > 0 && o->model.vocab < 256)
        return gyre_fail(err, GYRE_EINVAL, "mix: passkeys and copies are bytes, the vocabulary is %lld (training options)",
                         (long long)o->model.vocab);
    if (!text) return gyre_fail(err, GYRE_EINVAL, "text: missing (training)");
    if (text->count < o->context + 1)
        return gyre_fail(err, GYRE_EINVAL, "text: %lld tokens, a sequence of %lld needs %lld (training)",
                         (long long)text->count, (long long)o->context, (long long)o->context + 1);
    for (int64_t i = 0; i < text->count; i++)
        if (text->ids[i] < 0 || text->ids[i] >= o->model.vocab)
            return gyre_fail(err, GYRE_EINVAL, "token %lld: %d is outside the vocabulary of %lld (training)", (long long)i,
                             text->ids[i], (long long)o->model.vocab);
    return GYRE_OK;
}

static gyre_status check_task(const gyre_train_options *o, gyre_error *err) {
    const int64_t vocab = gyre_task_vocab(o->task);
    if (!vocab) return out_of_range(err, "task", (double)o->task, "one of gyre_task");
    if (o->model.vocab < vocab)
        return gyre_fail(err, GYRE_EINVAL, "vocabulary: %lld symbols, the task has %lld (training options)",
                         (long long)o->model.vocab, (long long)vocab);
    return GYRE_OK;
}

static gyre_status check_positions(const gyre_train_options *o, gyre_error *err) {
    const char *name = gyre_position_draw_name(o->positions);
    const int64_t range = o->positions == GYRE_POSITION_DRAW_NONE ? o->context : o->position_range;
    if (!name) return out_of_range(err, "positions", (double)o->positions, "one of gyre_position_draw");
    if (range >= o->context && range <= GYRE_MAX_POSITION) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL,
                     "positions: %s of a range of %lld, which is not in %lld, the context, .. 2^31 "
                     "(training options)",
                     name, (long long)range, (long long)o->context);
}

void gyre_train_options_complete(gyre_train_options *o) {
    gyre_model_config_complete(&o->model);
    if (!o->context) o->context = 256;
    if (!o->batch) o->batch = 8;
    if (!o->steps) o->steps = 4883;
    if (o->learning_rate == 0.0) o->learning_rate = 4e-3;
}

void gyre_train_options_suggest(gyre_train_options *options) {
    gyre_train_options own;
    if (gyre_sized_read(&own, sizeof own, options, "gyre_train_options", NULL)) return;
    if (!own.warmup) own.warmup = 100;
    if (own.final_fraction == 0.0) own.final_fraction = 0.1;
    if (own.weight_decay == 0.0) own.weight_decay = 0.1;
    if (own.clip == 0.0) own.clip = 1.0;
    if (own.retrieval_fraction == 0.0) own.retrieval_fraction = 0.8;
    if (!own.seed) own.seed = 1;
    gyre_train_options_complete(&own);
    gyre_sized_write(options, &own);
}

gyre_status gyre_train_options_check(const gyre_train_options *o, const gyre_text *text, gyre_error *err) {
    if (o->context < 16) return out_of_range(err, "context", (double)o->context, "at least 16");
    if (o->batch < 1) return out_of_range(err, "batch", (double)o->batch, "at least 1");
    if (o->batch > ((int64_t)1 << 31) / o->context)
        return out_of_range(err, "batch", (double)o->batch, "below 2^31 / context");
    if (o->steps < 1) return out_of_range(err, "steps", (double)o->steps, "at least 1");
    if (o->warmup < 0) return out_of_range(err, "warmup", (double)o->warmup, "at least 0");
    if (!(o->learning_rate > 0 && o->learning_rate < 1))
        return out_of_range(err, "learning rate", o->learning_rate, "in (0, 1)");
    if (!(o->final_fraction >= 0 && o->final_fraction <= 1))
        return out_of_range(err, "final share", o->final_fraction, "in 0 .. 1");
    if (!(o->weight_decay >= 0 && o->weight_decay < 10))
        return out_of_range(err, "weight decay", o->weight_decay, "in 0 .. 10");
    if (!(o->clip >= 0)) return out_of_range(err, "clip", o->clip, "at least 0");
    if (!(o->retrieval_fraction >= 0 && o->retrieval_fraction <= 1))
        return out_of_range(err, "mix", o->retrieval_fraction, "in 0 .. 1");
    const gyre_status status = check_positions(o, err);
    if (status) return status;
    return o->task == GYRE_TASK_TEXT ? check_text(o, text, err) : check_task(o, err);
}

double gyre_train_flops(const gyre_model_config *model, int64_t context) {
    return 6 * (double)gyre_weight_layout_of(model, NULL).weight_count +
           6 * (double)(model->layers * model->heads * (model->head_dim + gyre_rotated_head_dim(model))) * (double)context;
}

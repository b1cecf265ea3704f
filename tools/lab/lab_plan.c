/* lab_plan.c: what the lab trains and measures. */
#include "tools/cli/cli_error.h"
#include "tools/lab/lab.h"
#include <stdlib.h>
#include <string.h>

/* A row under a method, and the weights of its fine-tuned row; NULL = it has none. */
typedef struct method_row {
    const char *text, *tuned;
} method_row;
/* Static methods at each ratio, methods that follow the length, and transformers' dynamic with the scale of the longest
 * context and of each.  Methods that agree at the longest context share fine-tuned weights: a static method at the largest
 * ratio, the same method following the length, and ntk-past with ntk. */
static const method_row METHODS[LAB_TUNED_METHODS] = {{"none", "none"},
                                                      {"linear:16", "linear:16"},
                                                      {"linear", "linear:16"},
                                                      {"ntk:2", "ntk:2"},
                                                      {"ntk:4", "ntk:4"},
                                                      {"ntk:8", "ntk:8"},
                                                      {"ntk:16", "ntk:16"},
                                                      {"ntk", "ntk:16"},
                                                      {"dynamic:16", NULL},
                                                      {"dynamic", NULL},
                                                      {"ntk-past:16", "ntk:16"},
                                                      {"by-parts:16", "by-parts:16"},
                                                      {"by-parts", "by-parts:16"},
                                                      {"yarn:16", "yarn:16"},
                                                      {"yarn", "yarn:16"}};
/* Methods that follow the context, and the best one fine-tuned. */
static const method_row QUICK_METHODS[] = {{"none", NULL}, {"linear", NULL}, {"ntk", NULL}, {"yarn", "yarn:16"}};

/* The methods that articles compare, by perplexity against context. */
static const method_row SHOWN_METHODS[] = {{"none", NULL},      {"linear", NULL}, {"ntk:2", NULL}, {"ntk:4", NULL},
                                           {"ntk:8", NULL},     {"ntk:16", NULL}, {"ntk", NULL},   {"dynamic", NULL},
                                           {"ntk-mixed", NULL}, {"yarn", NULL}};

/* The rows of --preset questions.  Plain rope is not among them, so that no method is measured. */
#define QUESTION_ROWS                                                                                                       \
    "nope,rope-dim-2,rope-dim-4,rope-dim-8,rope-dim-16,rope-dim-32,rope-dim-64,rope-before,sinusoidal,sinusoidal-product,"  \
    "sinusoidal-concat,t5,t5-shared"
#define BUNDLED_ROWS "nope,learned,sinusoidal,rope,alibi"

/* Sizes of a run; zeros = those that the bundled models were trained with. */
typedef struct run_size {
    int64_t model_dim, heads, layers, mlp_dim, batch, steps, context, warmup;
} run_size;

/* What a preset means. */
typedef struct preset_plan {
    const char *name;
    run_size run;
    int64_t seeds, regions, trials;
    int contexts, measures, methods_first, details;
    int dropped; /* rows of the model whose rotation is dropped */
    int methods_count;
    const method_row *methods;
    const char *methods_caption;
    const char *encodings;
    double mix; /* unless the user gives one */
} preset_plan;

#define ALL_COLUMNS  LAB_CONTEXTS, LAB_MEASURES
#define ALL_ROWS     LAB_TUNED_METHODS, METHODS
#define QUICK_ROWS   sizeof QUICK_METHODS / sizeof *QUICK_METHODS, QUICK_METHODS
#define SHOWN_ROWS   sizeof SHOWN_METHODS / sizeof *SHOWN_METHODS, SHOWN_METHODS
#define EVERY_METHOD "The RoPE model under every method, as it is and after a short fine-tuning at the longest context"
#define PAST_LENGTH  "The RoPE model past its trained length: perplexity per byte and passkeys found, by context in bytes"
/* quick takes less than ten minutes on two cores.  small takes less than half of that: half the width and context, and as
 * many bytes.  full takes as long as the models need, with the suggested sizes.  smoke only checks that all parts work.
 * questions is as small, with the rows of docs/questions.md: one head, as wide as the widest rotation, and as the model,
 * which rope-before needs.  The bundled models are only measured. */
/* clang-format off */
static const preset_plan PRESETS[] = {
    [LAB_QUICK] =
        {"quick", {64, 4, 4, 176, 16, 2000, 128, 0}, 1, 8, 100, ALL_COLUMNS, 0, 1, LAB_DROPPED,
         ALL_ROWS, EVERY_METHOD, BUNDLED_ROWS, 0.8},
    [LAB_FULL] = {"full", {0}, 3, 8, 100, ALL_COLUMNS, 0, 1, LAB_DROPPED, ALL_ROWS, EVERY_METHOD, BUNDLED_ROWS, 0.8},
    [LAB_SMOKE] =
        {"smoke", {64, 4, 1, 176, 16, 40, 32, 4}, 1, 2, 8, ALL_COLUMNS, 0, 1, LAB_DROPPED,
         ALL_ROWS, EVERY_METHOD, BUNDLED_ROWS, 0.8},
    [LAB_QUESTIONS] =
        {"questions", {64, 1, 2, 128, 16, 1000, 64, 0}, 2, 8, 100, ALL_COLUMNS, 0, 1, LAB_DROPPED,
         ALL_ROWS, EVERY_METHOD, QUESTION_ROWS, 0},
    [LAB_SMALL] =
        {"small", {32, 2, 4, 88, 16, 4000, 64, 0}, 1, 8, 100, ALL_COLUMNS, 0, 1, LAB_DROPPED,
         ALL_ROWS, EVERY_METHOD, BUNDLED_ROWS, 0.8},
    [LAB_BUNDLED] = {"bundled", {0}, 1, 8, 100, ALL_COLUMNS, 0, 1, 0, ALL_ROWS, EVERY_METHOD, BUNDLED_ROWS, 0.8},
    [LAB_BUNDLED_QUICK] =
        {"bundled-quick", {0}, 1, 8, 100, LAB_CONTEXTS - 1, LAB_COPIES, 1, 0, 0,
         QUICK_ROWS, PAST_LENGTH, BUNDLED_ROWS, 0.8},
    [LAB_METHODS_ALONE] =
        {"methods", {0}, 1, 8, 24, LAB_CONTEXTS, LAB_COPIES, 1, 0, 0, SHOWN_ROWS, PAST_LENGTH, "rope", 0.8},
};
/* clang-format on */

/* DroPE as it is published, and with the log-n temperature, as another answer to softmaxes that flatten with the length. */
static void list_dropped(lab_plan *p, int count) {
    static const struct { const char *name, *method; } rows[LAB_DROPPED] = {{"drope", "none"}, {"drope+logn", "none+logn"}};
    for (int i = 0; i < LAB_DROPPED; i++) {
        if (method_parse(rows[i].method, &p->dropped[i], NULL)) abort(); /* the table above is wrong */
        snprintf(p->dropped[i].label, sizeof p->dropped[i].label, "%s", rows[i].name);
    }
    p->tuned_rows = p->tuned_methods + count;
}

static void list_methods(lab_plan *p, const method_row *rows, int count) {
    for (int i = 0, weights = 0; i < LAB_TUNED_METHODS; i++) {
        const int made_here = METHODS[i].tuned && strcmp(METHODS[i].text, METHODS[i].tuned) == 0;
        if (made_here && method_parse(METHODS[i].text, &p->tuned[weights++], NULL)) abort(); /* the table above is wrong */
    }
    for (int i = 0; i < count; i++) {
        if (method_parse(rows[i].text, &p->methods[p->methods_count++], NULL)) abort();
        if (!rows[i].tuned) continue;
        for (int t = 0; t < LAB_TUNED; t++)
            if (strcmp(rows[i].tuned, p->tuned[t].label) == 0) p->tuned_of[p->tuned_methods] = t;
        p->tuned_method[p->tuned_methods++] = p->methods_count - 1;
    }
    p->own_methods = p->methods_count;
}

static void size_run(const run_size *size, gyre_train_options *r) {
    *r = (gyre_train_options)GYRE_INIT(gyre_train_options);
    gyre_train_options_suggest(r); /* the options that the bundled models were trained with */
    if (!size->model_dim) return;
    r->model.model_dim = size->model_dim;
    r->model.heads = r->model.kv_heads = size->heads;
    r->model.head_dim = size->model_dim / size->heads;
    r->model.layers = size->layers;
    r->model.mlp_dim = size->mlp_dim;
    r->batch = size->batch;
    r->steps = size->steps;
    r->context = size->context;
    if (size->warmup) r->warmup = size->warmup;
}

/* Five percent of the steps, with two sequences per step, so that two cores are used.  DroPE recalibrates at the trained
 * length, with shorter sequences and as many more of them. */
static void size_tuning(lab_plan *p) {
    p->tune = p->run;
    p->tune.context = 2 * p->region_bytes;
    p->tune.batch = 2;
    p->tune.steps = p->run.steps / 20;
    p->tune.warmup = p->tune.steps / 10;
    p->tune.learning_rate = p->run.learning_rate / 4;
    p->recalibrate = p->tune;
    p->recalibrate.context = p->run.context;
    p->recalibrate.batch = p->tune.batch * p->tune.context / p->run.context;
}

static void list_encodings(lab_plan *plan, const char *names) {
    variant rows[MAX_VARIANTS];
    int count = 0;
    if (variants_parse(names, rows, &count, NULL)) abort(); /* a wrong list */
    lab_plan_encodings(plan, rows, count);
}

void lab_plan_make(lab_plan *plan, lab_preset preset, double mix) {
    const preset_plan *of = &PRESETS[preset];
    memset(plan, 0, sizeof *plan);
    plan->preset = of->name;
    plan->seeds = of->seeds;
    plan->regions = of->regions;
    plan->trials = of->trials;
    plan->contexts_count = of->contexts;
    plan->measures = of->measures;
    plan->methods_first = of->methods_first;
    plan->details = of->details;
    plan->methods_caption = of->methods_caption;
    size_run(&of->run, &plan->run);
    plan->run.retrieval_fraction = mix < 0 ? of->mix : mix;
    plan->trained = plan->run.context;
    for (int i = 0; i < plan->contexts_count; i++)
        plan->contexts[i] = plan->trained << i;
    plan->region_bytes = (plan->trained << (LAB_CONTEXTS - 1)) / 2;
    plan->longest = plan->contexts[plan->contexts_count - 1];
    size_tuning(plan);
    plan->betas = (method_betas){(double)plan->trained / 16, 1};
    list_methods(plan, of->methods, of->methods_count);
    list_dropped(plan, of->dropped);
    list_encodings(plan, of->encodings);
}

void lab_plan_encodings(lab_plan *plan, const variant *encodings, int count) {
    plan->encodings_count = count;
    plan->rope = plan->alibi = -1;
    for (int i = 0; i < count; i++) {
        plan->encodings[i] = encodings[i];
        if (strcmp(encodings[i].name, "rope") == 0) plan->rope = i;
        if (strcmp(encodings[i].name, "alibi") == 0) plan->alibi = i;
    }
}

/* Before any other method for slopes, the model as it is. */
static gyre_status add_stretched(lab_plan *plan, const char *text, gyre_error *err) {
    gyre_config slopes = GYRE_INIT(gyre_config), stretched;
    method m;
    if (plan->stretched_count == LAB_STRETCHED)
        return gyre_fail(err, GYRE_EINVAL, "%s: at most %d may be added", text, LAB_ADDED_METHODS);
    gyre_status status = method_parse(text, &m, err);
    slopes.kind = gyre_kind_find("alibi");
    slopes.heads = 1;
    if (!status) status = method_config(&m, &slopes, plan->trained, plan->longest, NULL, &stretched, err);
    if (!status && stretched.score.slope_scaling == GYRE_SLOPE_SCALING_NONE)
        status = gyre_fail(err, GYRE_EINVAL, "method %s: stretches no slopes (alibi)", m.label);
    if (status) return status;
    if (plan->stretched_count == 0) plan->stretched[plan->stretched_count++] = plan->methods[0];
    plan->stretched[plan->stretched_count++] = m;
    return GYRE_OK;
}

gyre_status lab_plan_add_method(lab_plan *plan, const char *text, gyre_error *err) {
    static const char of_alibi[] = "alibi-";
    if (strncmp(text, of_alibi, strlen(of_alibi)) == 0) return add_stretched(plan, text + strlen(of_alibi), err);
    if (plan->methods_count == LAB_METHODS)
        return gyre_fail(err, GYRE_EINVAL, "%s: at most %d may be added", text, LAB_ADDED_METHODS);
    const gyre_status status = method_parse(text, &plan->methods[plan->methods_count], err);
    plan->methods_count += !status;
    return status;
}

int lab_is_bundled(const variant *encoding) {
    variant rows[MAX_VARIANTS];
    int count = 0;
    if (variants_parse(BUNDLED_ROWS, rows, &count, NULL)) abort(); /* a wrong list */
    for (int i = 0; i < count; i++)
        if (strcmp(encoding->name, rows[i].name) == 0) return 1;
    return 0;
}

/* A region is the second half of a window of 16 times the trained length, the longest context.  A shorter context covers the
 * same bytes with more windows, and the second half of each is scored:
 *
 *     longest context    |. . . . . . . . # # # # # # # #|
 *     half of it                 |. . . . # # # #|
 *                                        |. . . . # # # #|
 *
 * So the cells of a table row differ by context only. */
int64_t lab_plan_windows(const lab_plan *plan, int c, int64_t tokens, int64_t *starts) {
    const int64_t longest = 2 * plan->region_bytes, context = plan->contexts[c], in_region = longest / context;
    for (int64_t r = 0; starts && r < plan->regions; r++) {
        const int64_t from = r * (tokens - 1 - longest) / (plan->regions > 1 ? plan->regions - 1 : 1);
        for (int64_t w = 0; w < in_region; w++)
            *starts++ = from + (longest - context) / 2 + w * (context / 2);
    }
    return plan->regions * in_region;
}

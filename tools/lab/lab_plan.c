/* lab_plan.c: what the lab trains and measures. */
#include "tools/cli/cli_error.h"
#include "tools/lab/lab.h"
#include <stdlib.h>
#include <string.h>

/* Static methods at each ratio, methods that follow the length, and transformers' dynamic.  Methods that agree at the
 * longest context share fine-tuned weights: a static method at the largest ratio, the same method following the length,
 * dynamic with ntk, and ntk-past with it too. */
static const struct {
    const char *text, *tuned;
} METHODS[LAB_TUNED_METHODS] = {
    {"none", "none"},       {"linear:16", "linear:16"}, {"linear", "linear:16"},        {"ntk:2", "ntk:2"},
    {"ntk:4", "ntk:4"},     {"ntk:8", "ntk:8"},         {"ntk:16", "ntk:16"},           {"ntk", "ntk:16"},
    {"dynamic", "ntk:16"},  {"ntk-past:16", "ntk:16"},  {"by-parts:16", "by-parts:16"}, {"by-parts", "by-parts:16"},
    {"yarn:16", "yarn:16"}, {"yarn", "yarn:16"}};

enum { FULL_SEEDS = 3, QUESTION_SEEDS = 2 };
/* The rows of --preset questions.  Plain rope is not among them, so that no method is measured. */
#define QUESTION_ROWS                                                                                                       \
    "nope,rope-dim-2,rope-dim-4,rope-dim-8,rope-dim-16,rope-dim-32,rope-dim-64,rope-before,sinusoidal,sinusoidal-product,"  \
    "sinusoidal-concat,t5,t5-shared"
static const gyre_kind BUNDLED_KINDS[] = {GYRE_KIND_NOPE, GYRE_KIND_LEARNED, GYRE_KIND_SINUSOIDAL, GYRE_KIND_ROPE,
                                          GYRE_KIND_ALIBI};
enum { BUNDLED = sizeof BUNDLED_KINDS / sizeof *BUNDLED_KINDS };

/* DroPE as it is published, and with the log-n temperature, as another answer to softmaxes that flatten with the length. */
static void list_dropped(lab_plan *p, lab_preset preset) {
    static const struct { const char *name, *method; } rows[LAB_DROPPED] = {{"drope", "none"}, {"drope+logn", "none+logn"}};
    for (int i = 0; i < LAB_DROPPED; i++) {
        if (method_parse(rows[i].method, &p->dropped[i], NULL)) abort(); /* the table above is wrong */
        snprintf(p->dropped[i].label, sizeof p->dropped[i].label, "%s", rows[i].name);
    }
    p->tuned_rows = p->tuned_methods + (preset < LAB_BUNDLED ? LAB_DROPPED : 0);
}

/* out = 1 if the quick plan has this row: methods that follow the context, and of the fine-tuned rows the best one. */
static int is_quick(const char *text, int tuned) {
    static const char *const rows[] = {"yarn", "none", "linear", "ntk"};
    for (int i = 0; i < (tuned ? 1 : 4); i++)
        if (strcmp(rows[i], text) == 0) return 1;
    return 0;
}

static void list_methods(lab_plan *p) {
    for (int i = 0, weights = 0; i < LAB_TUNED_METHODS; i++) {
        const int made_here = strcmp(METHODS[i].text, METHODS[i].tuned) == 0;
        if (made_here && method_parse(METHODS[i].text, &p->tuned[weights++], NULL)) abort(); /* the table above is wrong */
    }
    for (int i = 0; i < LAB_TUNED_METHODS; i++) {
        if (p->is_quick && !is_quick(METHODS[i].text, 0)) continue;
        if (method_parse(METHODS[i].text, &p->methods[p->methods_count++], NULL)) abort();
        if (p->is_quick && !is_quick(METHODS[i].text, 1)) continue;
        for (int t = 0; t < LAB_TUNED; t++)
            if (strcmp(METHODS[i].tuned, p->tuned[t].label) == 0) p->tuned_of[p->tuned_methods] = t;
        p->tuned_method[p->tuned_methods++] = p->methods_count - 1;
    }
    p->own_methods = p->methods_count;
}

/* quick takes less than ten minutes on two cores.  small takes less than half of that: half the width and context, and as
 * many bytes.  full takes as long as the models need, with the suggested sizes.  smoke only checks that all parts work.
 * questions is as small, with the rows of docs/questions.md: one head, as wide as the widest rotation, and as the model,
 * which rope-before needs. */
typedef struct run_size {
    int64_t model_dim, heads, layers, mlp_dim, batch, steps, context;
} run_size;
static const run_size SIZES[LAB_BUNDLED] = {[LAB_QUICK] = {64, 4, 4, 176, 16, 2000, 128},
                                            [LAB_SMOKE] = {64, 4, 1, 176, 16, 40, 32},
                                            [LAB_QUESTIONS] = {64, 1, 2, 128, 16, 1000, 64},
                                            [LAB_SMALL] = {32, 2, 4, 88, 16, 4000, 64}};

static void size_run(const run_size *size, gyre_train_options *r) {
    r->model.model_dim = size->model_dim;
    r->model.heads = r->model.kv_heads = size->heads;
    r->model.head_dim = size->model_dim / size->heads;
    r->model.layers = size->layers;
    r->model.mlp_dim = size->mlp_dim;
    r->batch = size->batch;
    r->steps = size->steps;
    r->context = size->context;
}

static void size_runs(lab_plan *p, lab_preset preset) {
    gyre_train_options *r = &p->run;
    *r = (gyre_train_options)GYRE_INIT(gyre_train_options);
    gyre_train_options_suggest(r); /* the options that the bundled models were trained with */
    p->regions = LAB_REGIONS;
    p->trials = 100;
    p->seeds = preset == LAB_FULL ? FULL_SEEDS : 1;
    if (preset < LAB_BUNDLED && SIZES[preset].model_dim) size_run(&SIZES[preset], r);
    if (preset == LAB_QUESTIONS) p->seeds = QUESTION_SEEDS;
    if (preset == LAB_SMOKE) {
        r->warmup = 4;
        p->regions = 2;
        p->trials = 8;
    }
    p->trained = r->context;
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

void lab_plan_make(lab_plan *plan, lab_preset preset, double mix) {
    static const char *const NAMES[] = {"quick", "full", "smoke", "questions", "small", "bundled", "bundled-quick"};
    memset(plan, 0, sizeof *plan);
    plan->is_quick = preset == LAB_BUNDLED_QUICK;
    plan->preset = NAMES[preset];
    size_runs(plan, preset);
    plan->run.retrieval_fraction = mix;
    plan->contexts_count = LAB_CONTEXTS - plan->is_quick;
    for (int i = 0; i < plan->contexts_count; i++)
        plan->contexts[i] = plan->trained << i;
    plan->region_bytes = (plan->trained << (LAB_CONTEXTS - 1)) / 2;
    plan->longest = plan->contexts[plan->contexts_count - 1];
    plan->measures = plan->is_quick ? LAB_COPIES : LAB_MEASURES;
    size_tuning(plan);
    plan->betas = (method_betas){(double)plan->trained / 16, 1};
    list_methods(plan);
    list_dropped(plan, preset);
    variant bundled[BUNDLED];
    for (int i = 0; i < BUNDLED; i++)
        bundled[i] = variant_at((int)BUNDLED_KINDS[i] - GYRE_KIND_NOPE);
    lab_plan_encodings(plan, bundled, BUNDLED);
    if (preset != LAB_QUESTIONS) return;
    variant rows[MAX_VARIANTS];
    int count = 0;
    if (variants_parse(QUESTION_ROWS, rows, &count, NULL)) abort(); /* the list is wrong */
    lab_plan_encodings(plan, rows, count);
}

void lab_plan_encodings(lab_plan *plan, const variant *encodings, int count) {
    plan->encodings_count = count;
    plan->rope = plan->alibi = -1;
    for (int i = 0; i < count; i++) {
        plan->encodings[i] = encodings[i];
        if (strcmp(encodings[i].name, gyre_kind_name(GYRE_KIND_ROPE)) == 0) plan->rope = i;
        if (strcmp(encodings[i].name, gyre_kind_name(GYRE_KIND_ALIBI)) == 0) plan->alibi = i;
    }
}

/* Before any other method for slopes, the model as it is. */
static gyre_status add_stretched(lab_plan *plan, const char *text, gyre_error *err) {
    gyre_config slopes = GYRE_INIT(gyre_config), stretched;
    method m;
    if (plan->stretched_count == LAB_STRETCHED)
        return gyre_fail(err, GYRE_EINVAL, "%s: at most %d may be added", text, LAB_ADDED_METHODS);
    gyre_status status = method_parse(text, &m, err);
    slopes.kind = GYRE_KIND_ALIBI;
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
    for (int i = 0; i < BUNDLED; i++)
        if (strcmp(encoding->name, gyre_kind_name(BUNDLED_KINDS[i])) == 0) return 1;
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

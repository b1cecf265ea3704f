/* lab_task.c: plans, trains and measures the tasks of gyre lab. */
#include "tools/lab/lab_task.h"
#include "tools/cli/plain_stream.h"
#include "tools/team/team.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKET = 8, POSGEN_LONGEST = 256, COPY_LONGEST = 512 };

/* -- the plan -- */
static int is_copy(const char *task) {
    return strcmp(task, "copy") == 0;
}

/* quick trains until the trained length is learnt; full four times as long.  The sizes are the paper's if they cost little:
 * two layers, heads of 64 channels, 64 tokens. */
static void size_runs(lab_plan *p, const char *task, lab_preset preset) {
    gyre_train_options *r = &p->run;
    *r = (gyre_train_options)GYRE_INIT(gyre_train_options);
    gyre_train_options_suggest(r);
    r->retrieval_fraction = 0;
    r->model.layers = 2;
    r->model.model_dim = 128;
    r->model.heads = r->model.kv_heads = 2;
    r->model.head_dim = 64;
    r->model.mlp_dim = 352;
    r->context = 64;
    r->batch = 32;
    r->steps = is_copy(task) ? 1000 : 500;
    r->learning_rate = 2e-3;
    if (preset == LAB_FULL) r->steps *= 4;
    if (preset == LAB_SMOKE) {
        r->model.model_dim = r->model.mlp_dim = 32;
        r->model.heads = r->model.kv_heads = 1;
        r->model.head_dim = 32;
        r->batch = 4;
        r->steps = 10;
    }
    r->warmup = r->steps / 20;
}

void lab_task_plan(lab_plan *plan, const char *task, lab_preset preset) {
    static const char *const ENCODINGS = "nope,learned,sinusoidal,rope,alibi,rope+resonance";
    variant encodings[MAX_VARIANTS];
    int count = 0;
    lab_plan_make(plan, preset, 0);
    size_runs(plan, task, preset);
    plan->trained = plan->run.context;
    plan->longest = is_copy(task) ? COPY_LONGEST : POSGEN_LONGEST;
    plan->tune = plan->run;
    plan->betas = (method_betas){2, 1}; /* as in the paper's code; no pair makes 32 revolutions in 64 positions */
    if (variants_parse(ENCODINGS, encodings, &count, NULL)) abort(); /* the list above is wrong */
    lab_plan_encodings(plan, encodings, count);
}

/* One point for every eight positions. */
static void plan_posgen(task_lab *t) {
    static const task_rule RULES[TASK_RULES] = {{GYRE_TASK_POSGEN_RECURSIVE, "recursive", "recursive"},
                                                {GYRE_TASK_POSGEN_COT, "cot", "chain of thought"},
                                                {GYRE_TASK_POSGEN_SEMI, "semi", "semi-recursive"}};
    const lab_plan *p = &t->lab->plan;
    t->title = "PosGen";
    t->axis = "position";
    t->scale = GYRE_REPORT_SCALE_LINEAR;
    t->rules = TASK_RULES;
    memcpy(t->rule, RULES, sizeof RULES);
    t->points = (int)(p->longest / BUCKET);
    for (int i = 0; i < t->points; i++) {
        t->length[i] = p->longest;
        t->at[i] = (double)i * BUCKET + BUCKET / 2.0;
        t->inside[i] = (int64_t)i * BUCKET < p->trained;
    }
}

/* Sequences of 16, 24, 32, 48, ... tokens whose last eight tokens copy the first. */
static void plan_copy(task_lab *t) {
    const lab_plan *p = &t->lab->plan;
    t->title = "Copying";
    t->axis = "distance (tokens)";
    t->scale = GYRE_REPORT_SCALE_LOG2;
    t->rules = t->columns = 1;
    t->rule[0] = (task_rule){GYRE_TASK_COPY, "copy", "copy"};
    for (int64_t length = 2 * GYRE_TASK_COPY_SPAN; length <= p->longest; length += t->points % 2 ? length / 2 : length / 3) {
        t->length[t->points] = length;
        t->at[t->points] = (double)(length - GYRE_TASK_COPY_SPAN);
        t->inside[t->points++] = length <= p->trained;
    }
}

static const char *const METHODS[] = {"none+resonance", "none+logn",      "linear", "ntk",        "by-parts",
                                      "yarn",           "yarn+resonance", "rerope", "self-extend"};

static gyre_status make_plan(task_lab *t, gyre_error *err) {
    const lab_plan *p = &t->lab->plan;
    const int smoke = strcmp(p->preset, "smoke") == 0, full = strcmp(p->preset, "full") == 0;
    t->sequences = smoke ? 10 : full ? 1000 : 200;
    if (is_copy(t->lab->task))
        plan_copy(t);
    else
        plan_posgen(t);
    for (int i = 0; i < p->encodings_count; i++) {
        task_row *row = &t->rows[t->rows_count++];
        snprintf(row->name, sizeof row->name, "%s", p->encodings[i].name);
        row->method = -1;
    }
    for (size_t m = 0; p->rope >= 0 && m < sizeof METHODS / sizeof *METHODS; m++) {
        task_row *row = &t->rows[t->rows_count++];
        const gyre_status status = method_parse(METHODS[m], &t->methods[t->methods_count], err);
        if (status) return status;
        snprintf(row->name, sizeof row->name, "%s", METHODS[m]);
        row->method = t->methods_count++;
    }
    return GYRE_OK;
}

/* -- measuring -- */
typedef struct task_measurement {
    const gyre_model *model;
    const char *name; /* of the weights */
    const method *method;
    int rule;
} task_measurement;

/* Measures sequences of one length and adds the answers to their points. */
static gyre_status measure_length(task_lab *t, const task_measurement *s, int64_t length, task_result *out,
                                  gyre_error *err) {
    const gyre_config *position = &gyre_model_get_config(s->model)->position;
    gyre_task_options o = GYRE_INIT(gyre_task_options);
    gyre_encoding *encoding = NULL;
    int64_t *right = cli_alloc(2 * length, sizeof *right), *asked = right + length;
    o.task = t->rule[s->rule].task;
    o.length = length;
    o.sequences = t->sequences;
    o.seed = (uint64_t)length; /* every row gets the same sequences */
    o.watcher = (gyre_watcher){team_progress_step, NULL, &t->lab->progress};
    o.team = team_get();
    gyre_status status =
        method_encoding(s->method, position, t->lab->plan.trained, length, &t->lab->plan.betas, &encoding, err);
    o.encoding = encoding;
    if (!status)
        status =
            method_name_failure(gyre_task_measure(s->model, &o, right, asked, &t->lab->exec, err), s->name, length, err);
    for (int64_t i = 0; !status && i < length; i++) {
        int p = (int)(i / BUCKET);
        for (int c = 0; c < t->points && t->columns; c++)
            if (t->length[c] == length) p = c;
        out->right[p] += right[i];
        out->asked[p] += asked[i];
    }
    gyre_encoding_free(encoding);
    free(right);
    return status;
}

/* If an encoding ends before a length, points past the trained length have no answer. */
static gyre_status measure(task_lab *t, const task_measurement *s, task_result *out, gyre_error *err) {
    memset(out, 0, sizeof *out);
    for (int p = 0; p < t->points; p++) {
        if (p && t->length[p] == t->length[p - 1]) continue;
        if (cli_interrupted())
            return gyre_fail(err, GYRE_EIO, "stopped: the same command continues from here (%s)", t->lab->work);
        gyre_status status = measure_length(t, s, t->length[p], out, err);
        if (status == GYRE_ERANGE) status = t->columns ? GYRE_OK : measure_length(t, s, t->lab->plan.trained, out, err);
        if (status) return status;
    }
    return GYRE_OK;
}

static gyre_status measure_row(task_lab *t, const task_measurement *s, task_row *row, int64_t seed, gyre_error *err) {
    task_result *out = &row->results[seed][s->rule];
    char key[200];
    const int n = snprintf(key, sizeof key, "%s %s %lld %lld", s->name, s->method->label, (long long)t->lab->plan.longest,
                           (long long)t->sequences);
    if (n < 0 || n >= (int)sizeof key) return gyre_fail(err, GYRE_EINVAL, "name: too long (%s)", s->name);
    if (task_memo_find(t, key, out)) return GYRE_OK;
    cli_progress_label(&t->lab->progress, "%s, %s", t->rule[s->rule].description, row->name);
    const gyre_status status = measure(t, s, out, err);
    return status ? status : task_memo_add(t, key, out, err);
}

/* -- the work -- */
static gyre_status model_of(task_lab *t, int rule, int encoding, int64_t seed, gyre_model **out,
                            char name[METHOD_LABEL + 32], gyre_error *err) {
    const lab_plan *p = &t->lab->plan;
    gyre_train_options o = p->run;
    o.task = t->rule[rule].task;
    o.model.vocab = gyre_task_vocab(o.task);
    o.seed = (uint64_t)seed + 1;
    snprintf(name, METHOD_LABEL + 32, "%s-%s-s%lld", t->rule[rule].name, p->encodings[encoding].name, (long long)seed + 1);
    for (char *c = name; *c; c++)
        if (*c == '+') *c = '-';
    const gyre_status status = lab_position_config(t->lab, &p->encodings[encoding], &o.model, err);
    return status ? status : lab_train_model(t->lab, name, &o, NULL, out, err);
}

static gyre_status work_on(task_lab *t, int rule, int encoding, int64_t seed, gyre_error *err) {
    gyre_model *model = NULL;
    method none;
    char name[METHOD_LABEL + 32];
    gyre_status status = method_parse("none", &none, err);
    if (!status) status = model_of(t, rule, encoding, seed, &model, name, err);
    for (int r = 0; r < t->rows_count && !status; r++) {
        task_row *row = &t->rows[r];
        if (row->method < 0 ? r != encoding : encoding != t->lab->plan.rope) continue;
        const task_measurement s = {model, name, row->method < 0 ? &none : &t->methods[row->method], rule};
        status = measure_row(t, &s, row, seed, err);
    }
    gyre_model_free(model);
    return status;
}

static int64_t all_tokens(const task_lab *t) {
    const gyre_train_options *o = &t->lab->plan.run;
    int64_t row = 0;
    for (int p = 0; p < t->points; p++)
        if (!p || t->length[p] != t->length[p - 1]) row += t->length[p] * t->sequences;
    return t->lab->plan.seeds * t->rules *
           (t->lab->plan.encodings_count * o->steps * o->batch * o->context * lab_cost_trained(t->lab, o) +
            t->rows_count * row);
}

static gyre_status work(task_lab *t, gyre_error *err) {
    gyre_status status = GYRE_OK;
    cli_progress_begin(&t->lab->progress, "gyre lab", NULL, all_tokens(t));
    for (int64_t seed = 0; seed < t->lab->plan.seeds; seed++)
        for (int rule = 0; rule < t->rules; rule++)
            for (int e = 0; e < t->lab->plan.encodings_count && !status; e++)
                status = work_on(t, rule, e, seed, err);
    cli_progress_end(&t->lab->progress);
    return status;
}

int lab_task_run(lab *l) {
    gyre_error err = {0};
    const double started = cli_seconds();
    task_lab *t = cli_alloc(1, sizeof *t);
    t->lab = l;
    gyre_status status = make_plan(t, &err);
    if (!status && team_leads()) status = lab_check_report(l, &err);
    if (!status) status = lab_work_open(l, &err);
    if (!status) status = lab_memo_open(l, "results.jsonl", &err);
    if (!status) status = work(t, &err);
    if (!status) status = journal_finish(&l->memo, &err);
    l->seconds = cli_seconds() - started;
    int exit_status = 0;
    if (!status) {
        exit_status = l->common.json ? task_print_json(t, cli_stdout()) : task_print(t, cli_stdout());
        if (team_leads()) status = task_write_report(t, &err);
        if (!status && !exit_status && !l->common.json) fprintf(cli_stdout(), "report: %s\n", plain_line(l->run.report));
    }
    journal_close(&l->memo);
    free(t);
    return status ? cli_fail_error(&err) : exit_status;
}

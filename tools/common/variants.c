/* variants.c: the table of encodings that can be trained. */
#include "tools/common/variants.h"
#include "tools/cli/cli_error.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters of variants that are trained under a scaling. */
typedef struct variant_params {
    double factor;
    method_betas betas;
} variant_params;

static void kerple_power(gyre_config *c, const variant_params *s) {
    (void)s;
    c->score.decay = GYRE_DECAY_POWER;
}
static void bert_key_query(gyre_config *c, const variant_params *s) {
    (void)s;
    c->score.terms = GYRE_TERM_QUERY | GYRE_TERM_KEY;
}
static void xpos(gyre_config *c, const variant_params *s) {
    (void)s;
    c->rope.xpos_base = 512;
}
static void resonance(gyre_config *c, const variant_params *s) {
    (void)s;
    c->rope.resonance = 1;
}
/* The pairs that make no whole turn within the trained length.  rope.dim and rope.base are set by then. */
static void clip(gyre_config *c, gyre_clip mode) {
    const method m = {.clip = mode, .keeps_model_scaling = 1, .label = "clipped"};
    gyre_config clipped;
    if (method_config(&m, c, c->trained_length, c->trained_length, NULL, &clipped, NULL) == GYRE_OK)
        c->rope.clip = clipped.rope.clip;
}
static void clipped(gyre_config *c, const variant_params *s) {
    (void)s;
    clip(c, GYRE_CLIP_SOFT);
}
static void clipped_hard(gyre_config *c, const variant_params *s) {
    (void)s;
    clip(c, GYRE_CLIP_HARD);
}
static void yarn(gyre_config *c, const variant_params *s) {
    c->rope.scaling = GYRE_SCALING_YARN;
    c->rope.factor = s->factor;
    c->rope.beta_fast = s->betas.fast;
    c->rope.beta_slow = s->betas.slow;
}
static void yarn_resonance(gyre_config *c, const variant_params *s) {
    yarn(c, s);
    resonance(c, s);
}

static const struct {
    variant v;
    void (*modify)(gyre_config *config, const variant_params *s); /* NULL = the kind as it is */
    int64_t layer_parts;
} modified_kinds[] = {{{"kerple-power", GYRE_KIND_KERPLE}, kerple_power, 0},
                      {{"bert-key-query", GYRE_KIND_BERT}, bert_key_query, 0},
                      {{"xpos", GYRE_KIND_ROPE}, xpos, 0},
                      {{"rope+resonance", GYRE_KIND_ROPE}, resonance, 0},
                      {{"rope+clipped", GYRE_KIND_ROPE}, clipped, 0},
                      {{"rope+clipped-hard", GYRE_KIND_ROPE}, clipped_hard, 0},
                      {{"rope+yarn", GYRE_KIND_ROPE}, yarn, 0},
                      {{"rope+yarn+resonance", GYRE_KIND_ROPE}, yarn_resonance, 0},
                      {{"forgetting", GYRE_KIND_NOPE}, NULL, GYRE_LAYER_PART_FORGET_GATES},
                      {{"pope", GYRE_KIND_ROPE}, NULL, GYRE_LAYER_PART_POLAR},
                      {{"trained-frequencies", GYRE_KIND_ROPE}, NULL, GYRE_LAYER_PART_FREQUENCIES},
                      {{"fope", GYRE_KIND_ROPE}, NULL, GYRE_LAYER_PART_FOURIER},
                      {{"fope-paper", GYRE_KIND_ROPE}, NULL, GYRE_LAYER_PART_FOURIER | GYRE_LAYER_PART_FOURIER_STILL},
                      {{"contextual", GYRE_KIND_NOPE}, NULL, GYRE_LAYER_PART_CONTEXTUAL}};
enum { MODIFIED_KINDS = sizeof modified_kinds / sizeof *modified_kinds };

/* Variants that "all" leaves out: those that answer questions of learners (docs/questions.md) rather than serve models, and
 * adapted biases, which send every pair of a query and a key through a network. */
static const struct {
    variant v;
    int64_t rope_dim; /* 0 = all */
    int64_t position_form, shared_tables, rotates_input, layer_parts;
} named_variants[] = {{.v = {"rope-dim-2", GYRE_KIND_ROPE}, .rope_dim = 2},
                      {.v = {"rope-dim-4", GYRE_KIND_ROPE}, .rope_dim = 4},
                      {.v = {"rope-dim-8", GYRE_KIND_ROPE}, .rope_dim = 8},
                      {.v = {"rope-dim-16", GYRE_KIND_ROPE}, .rope_dim = 16},
                      {.v = {"rope-dim-32", GYRE_KIND_ROPE}, .rope_dim = 32},
                      {.v = {"rope-dim-64", GYRE_KIND_ROPE}, .rope_dim = 64},
                      {.v = {"rope-before", GYRE_KIND_ROPE}, .rotates_input = 1},
                      {.v = {"sinusoidal-product", GYRE_KIND_SINUSOIDAL}, .position_form = GYRE_POSITION_FORM_PRODUCT},
                      {.v = {"sinusoidal-concat", GYRE_KIND_SINUSOIDAL}, .position_form = GYRE_POSITION_FORM_CONCATENATED},
                      {.v = {"t5-shared", GYRE_KIND_T5}, .shared_tables = 1},
                      {.v = {"shaw-shared", GYRE_KIND_SHAW}, .shared_tables = 1},
                      {.v = {"dape-alibi", GYRE_KIND_ALIBI}, .layer_parts = GYRE_LAYER_PART_ADAPTIVE},
                      {.v = {"dape-kerple", GYRE_KIND_KERPLE}, .layer_parts = GYRE_LAYER_PART_ADAPTIVE},
                      {.v = {"dape-fire", GYRE_KIND_FIRE}, .layer_parts = GYRE_LAYER_PART_ADAPTIVE}};
enum { NAMED_VARIANTS = sizeof named_variants / sizeof *named_variants };

static int kinds_count(void) {
    int n = 0;
    while (n + MODIFIED_KINDS < MAX_VARIANTS && gyre_kind_name((gyre_kind)(GYRE_KIND_NOPE + n)))
        n++;
    return n;
}

int variants_count(void) {
    return kinds_count() + MODIFIED_KINDS;
}

variant variant_at(int index) {
    const int kinds = kinds_count();
    const gyre_kind kind = (gyre_kind)(GYRE_KIND_NOPE + index);
    return index < kinds ? (variant){gyre_kind_name(kind), kind} : modified_kinds[index - kinds].v;
}

void variants_list(char out[VARIANT_LIST]) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < variants_count() && used < VARIANT_LIST; i++)
        used += (size_t)snprintf(out + used, VARIANT_LIST - used, "%s%s", i ? ", " : "", variant_at(i).name);
    for (int i = 0; i < NAMED_VARIANTS && used < VARIANT_LIST; i++)
        used += (size_t)snprintf(out + used, VARIANT_LIST - used, ", %s", named_variants[i].v.name);
}

gyre_status variant_find(const char *name, size_t length, variant *out, gyre_error *err) {
    for (int i = 0; i < variants_count() + NAMED_VARIANTS; i++) {
        const int other = i - variants_count();
        const variant v = other < 0 ? variant_at(i) : named_variants[other].v;
        if (strlen(v.name) != length || strncmp(v.name, name, length) != 0) continue;
        *out = v;
        return GYRE_OK;
    }
    char given[33];
    gyre_plain_snprintf(given, length < sizeof given ? length + 1 : sizeof given, "%s", name);
    return gyre_fail(err, GYRE_EUNSUPPORTED, "\"%s\"", given);
}

void variants_refuse(const char *option, gyre_status status, const gyre_error *err) {
    char known[VARIANT_LIST]; /* more than an error holds */
    variants_list(known);
    if (status == GYRE_EUNSUPPORTED) cli_usage_error("%s: %s: none of %s", option, err->text, known);
    cli_usage_error("%s: %s", option, err->text);
}

static gyre_status parse_names(const char *list, variant found[MAX_VARIANTS], int *count, gyre_error *err) {
    for (const char *c = list; c;) {
        const size_t length = strcspn(c, ",");
        variant v;
        const gyre_status status = variant_find(c, length, &v, err);
        if (status) return status;
        for (int i = 0; i < *count; i++)
            if (strcmp(found[i].name, v.name) == 0) return gyre_fail(err, GYRE_EINVAL, "%s: stands twice", v.name);
        found[(*count)++] = v;
        c = c[length] ? c + length + 1 : NULL;
    }
    return GYRE_OK;
}

gyre_status variants_parse(const char *list, variant out[MAX_VARIANTS], int *count, gyre_error *err) {
    variant found[MAX_VARIANTS];
    int n = 0;
    if (strcmp(list, "all") == 0) {
        for (; n < variants_count(); n++)
            found[n] = variant_at(n);
    } else {
        const gyre_status status = parse_names(list, found, &n, err);
        if (status) return status;
    }
    memcpy(out, found, (size_t)n * sizeof *out);
    *count = n;
    return GYRE_OK;
}

gyre_status variant_config(const variant *v, int64_t trained, int64_t longest, const method_betas *betas,
                           gyre_config *config) {
    const variant_params s = {(double)longest / (double)trained, *betas};
    config->kind = v->kind;
    config->trained_length = trained;
    if (v->kind == GYRE_KIND_LEARNED && !config->input.positions) config->input.positions = trained;
    for (int i = 0; i < MODIFIED_KINDS; i++)
        if (strcmp(modified_kinds[i].v.name, v->name) == 0 && modified_kinds[i].modify) modified_kinds[i].modify(config, &s);
    for (int i = 0; i < NAMED_VARIANTS; i++)
        if (strcmp(named_variants[i].v.name, v->name) == 0 && named_variants[i].rope_dim)
            config->rope.dim = named_variants[i].rope_dim;
    if (config->kind == GYRE_KIND_ROPE && config->rope.dim > config->head_dim) return GYRE_EINVAL;
    const int scaled = config->kind == GYRE_KIND_ROPE && config->rope.scaling != GYRE_SCALING_NONE;
    if (scaled && longest <= trained) return GYRE_EINVAL; /* a factor of 1 does not scale */
    return gyre_config_suggest(config);
}

void variant_model(const variant *v, gyre_model_config *model) {
    for (int i = 0; i < MODIFIED_KINDS; i++)
        if (strcmp(modified_kinds[i].v.name, v->name) == 0) model->layer_parts = modified_kinds[i].layer_parts;
    if (model->layer_parts & GYRE_LAYER_PART_POLAR) model->position.head_dim *= 2;
    for (int i = 0; i < NAMED_VARIANTS; i++) {
        if (strcmp(named_variants[i].v.name, v->name) != 0) continue;
        model->position_form = named_variants[i].position_form;
        model->shared_tables = named_variants[i].shared_tables;
        model->rotates_input = named_variants[i].rotates_input;
        model->layer_parts = named_variants[i].layer_parts;
    }
}

variant variant_option(const char *text) {
    gyre_error err = {0, ""};
    variant found;
    const gyre_status status = variant_find(text, strlen(text), &found, &err);
    if (status) variants_refuse("--encoding", status, &err);
    return found;
}

/* -- looks -- */
static const struct {
    const char *name;
    gyre_report_paint color;
    gyre_report_mark mark;
} subjects[] = {
#define METHOD_LOOK(name, paint, mark)   {name, GYRE_REPORT_PAINT_##paint, GYRE_REPORT_MARK_##mark},
#define ENCODING_LOOK(name, paint, mark) {name, GYRE_REPORT_PAINT_##paint, GYRE_REPORT_MARK_##mark},
#include "tools/common/subject_looks.def"
#undef METHOD_LOOK
#undef ENCODING_LOOK
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* out = SUBJECTS if there is none of that name. */
static int find_name(const char *label, size_t length) {
    int i = 0;
    while (i < SUBJECTS && (strlen(subjects[i].name) != length || strncmp(subjects[i].name, label, length) != 0))
        i++;
    return i;
}

/* Behind a name stand a number and other words: ":16", "+logn", ", causal".  Each power of two and each length of the words
 * has the next dash. */
static int variant_dash(const char *behind) {
    char *words = (char *)behind;
    const double number = *behind == ':' ? strtod(behind + 1, &words) : 0;
    const int64_t step = (number > 2 ? lround(log2(number)) - 1 : 0) + (int64_t)strlen(words);
    return 2 + (int)(step % (GYRE_REPORT_DASHES - 1));
}

gyre_report_look subject_look(const char *label) {
    size_t length = strcspn(label, ":,");
    int found = find_name(label, length);
    if (found == SUBJECTS) found = find_name(label, length = strcspn(label, ":+,"));
    if (found == SUBJECTS) return (gyre_report_look){.hollow = 0};
    const int is_plain = !label[length];
    return (gyre_report_look){subjects[found].color, subjects[found].mark, !is_plain,
                              is_plain ? 1 : variant_dash(label + length)};
}

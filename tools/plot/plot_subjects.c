/* plot_subjects.c: what is drawn: models, or a rotation that options describe, under methods. */
#include "gyre/gyre_fields.h"
#include "tools/common/method_map.h"
#include "tools/common/model_path.h"
#include "tools/plot/plot.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TURN = 6.283185307179586;
static const double MOST_TOKENS = 9007199254740992; /* 2^53: doubles count no further one by one */

/* -- subjects -- */
static void change_by_options(const plot_options *o, plot_subject *s) {
    if (o->base > 0) {
        s->config.rope.base = o->base;
        s->config.input.base = o->base;
    }
    if (o->stretch.trained) s->trained = s->config.trained_length = o->stretch.trained;
}

static int of_options(const plot_options *o, plot_subject *s) {
    s->config = (gyre_config)GYRE_INIT(gyre_config);
    s->config.kind = gyre_kind_find("rope");
    s->config.head_dim = o->head_dim ? o->head_dim : 128;
    s->config.rope.base = 10000;
    s->trained = s->config.trained_length = 4096;
    change_by_options(o, s);
    return 0;
}

/* out = a name that fits a legend: without the folder and the ending; the folder's name for its config.json. */
static void short_label(const char *given, char *out, size_t size) {
    enum { ROOM = 28 };
    const char *const ends[] = {"/config.json", "/", ".json", ".gguf"};
    size_t length = strlen(given);
    snprintf(out, size, "%s", given);
    if (length <= ROOM) return;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (length > end && strncmp(given + length - end, ends[i], end) == 0) length -= end;
    }
    size_t first = length;
    while (first > 0 && given[first - 1] != '/')
        first--;
    if (length > first) snprintf(out, size, "%.*s", (int)(length - first), given + first);
}

static int of_model(const plot_options *o, const char *given, plot_subject *s) {
    gyre_error err = {0, ""};
    s->path = model_path_find(given);
    short_label(given, s->label, sizeof s->label);
    if (gyre_reading_open(
            &s->reading, s->path,
            GYRE_ARGS(gyre_reading_options, .profile = o->reading.profile, .context_length = o->reading.length), &err))
        return cli_fail_error(&err);
    reading_check_layer_type(o->reading.layer_type, s->reading, NULL);
    const gyre_layer_reading *group = reading_find_layers(s->reading, o->reading.layer_type);
    s->group = group->name;
    s->config = group->config;
    s->trained = s->config.trained_length;
    /* A linear scaling states the length that it reaches. */
    if (gyre_kind_has(s->config.kind, GYRE_TRAIT_ROTATES) && s->config.rope.scaling == GYRE_SCALING_LINEAR &&
        s->config.rope.factor > 1)
        s->trained = llround((double)s->trained / s->config.rope.factor);
    if (o->head_dim) cli_usage_error("--head-dim: %s states its own", given);
    change_by_options(o, s);
    return 0;
}

/* out = the factor that the target is reached by, unless --to names the target. */
static double factor_of(const plot_options *o, const plot_subject *s) {
    const double own = gyre_kind_has(s->config.kind, GYRE_TRAIT_ROTATES) ? s->config.rope.factor : 0;
    return o->factor > 0 ? o->factor : own > 1 ? own : 4;
}

/* A target that was asked for and cannot be counted or needs no stretching; for decay --to is a distance. */
static void check_target(const plot_options *o, const plot_subject *s) {
    if (!(o->kind->options & PLOT_OPTION_FACTOR) || o->kind == &plot_decay || (!o->stretch.to && !(o->factor > 0))) return;
    if (!gyre_kind_has(s->config.kind, GYRE_TRAIT_ROTATES) || s->trained < STRETCH_MIN_TRAINED) return;
    if (!o->stretch.to && (double)s->trained * o->factor > MOST_TOKENS)
        cli_usage_error("--factor: %.9g times the trained length of %lld is more than 2^53 tokens", o->factor,
                        (long long)s->trained);
    if (plot_target(o, s) > s->trained) return;
    cli_usage_error("--%s: %lld is within the trained length of %lld, which needs no stretching",
                    o->stretch.to ? "to" : "factor", (long long)plot_target(o, s), (long long)s->trained);
}

/* out = the number of methods that --compare names; 0 if it names models. */
static int compares_methods(const plot_options *o) {
    gyre_error err = {0, ""};
    method *list = NULL;
    int64_t count = 0;
    const int methods = o->compare && !methods_parse(o->compare, &list, &count, &err);
    free(list);
    return methods ? (int)count : 0;
}

static int is_method(const char *name, gyre_error *err) {
    method m;
    return !method_parse(name, &m, err);
}

/* --compare A,B of which one is a method: the other is meant as one too. */
static void check_mixture(const char *compare, const char *comma) {
    char a[512];
    gyre_error of_a = {0, ""}, of_b = {0, ""};
    snprintf(a, sizeof a, "%.*s", (int)(comma - compare), compare);
    const int first = is_method(a, &of_a), second = is_method(comma + 1, &of_b);
    if (first != second)
        cli_usage_error("--compare: %s, and %s is one", first ? of_b.text : of_a.text, first ? a : comma + 1);
}

int plot_models(const plot_options *o, const char *names[PLOT_SUBJECTS]) {
    static char copies[PLOT_SUBJECTS][512];
    const char *comma = o->compare ? strchr(o->compare, ',') : NULL;
    const int methods = compares_methods(o), takes_methods = (o->kind->options & PLOT_OPTION_METHODS) != 0;
    if (methods && !takes_methods) cli_usage_error("--compare: %s compares two models, not methods", o->kind->name);
    if (methods && methods != 2)
        cli_usage_error("--compare: takes two methods, not %d; --methods takes any number", methods);
    if (methods && o->method.count) cli_usage_error("--methods: --compare names the methods");
    if (o->compare && !methods && (!comma || strchr(comma + 1, ',')))
        cli_usage_error("--compare: takes two models%s, A,B", takes_methods ? " or methods" : "");
    if (o->compare && !methods && o->files_count) cli_usage_error("%s: --compare names both models", o->files[0]);
    if (o->compare && !methods && takes_methods) check_mixture(o->compare, comma);
    if (!o->compare || methods) {
        names[0] = o->files[0];
        return o->files_count ? 1 : 0;
    }
    snprintf(copies[0], sizeof copies[0], "%.*s", (int)(comma - o->compare), o->compare);
    snprintf(copies[1], sizeof copies[1], "%s", comma + 1);
    for (int i = 0; i < PLOT_SUBJECTS; i++)
        names[i] = copies[i];
    return PLOT_SUBJECTS;
}

static int read_all(const plot_options *o, plot_subject subjects[PLOT_SUBJECTS], int *count) {
    const char *names[PLOT_SUBJECTS];
    const int models = plot_models(o, names);
    for (*count = 0; *count < models; ++*count)
        if (of_model(o, names[*count], &subjects[*count])) return CLI_FAILED;
    if (models) return 0;
    *count = 1;
    return of_options(o, &subjects[0]);
}

int plot_subjects_read(const plot_options *o, plot_subject subjects[PLOT_SUBJECTS], int *count) {
    const int status = read_all(o, subjects, count);
    for (int i = 0; i < *count && !status; i++)
        check_target(o, &subjects[i]);
    return status;
}

void plot_subjects_free(plot_subject *subjects, int count) {
    for (int i = 0; i < count; i++)
        gyre_reading_free(subjects[i].reading);
}

int64_t plot_target(const plot_options *o, const plot_subject *s) {
    /* The factor of a config may be any number. */
    return o->stretch.to ? o->stretch.to : llround(fmin((double)s->trained * factor_of(o, s), MOST_TOKENS));
}

/* -- cases -- */
/* The model as it was trained: without a scaling. */
static gyre_status original_frequencies(plot_case *c, gyre_error *err) {
    gyre_config config = c->subject->config;
    gyre_encoding *encoding = NULL;
    config.rope.attention_factor = 0;
    gyre_config_unscale(&config);
    gyre_status status = gyre_encoding_create(&encoding, &config, NULL, err);
    if (!status) status = gyre_encoding_frequencies(encoding, 0, c->original, NULL);
    gyre_encoding_free(encoding);
    return status;
}

gyre_status plot_case_frequencies(const plot_case *c, int64_t length, double *inv_freq, gyre_error *err) {
    const gyre_status status = gyre_encoding_frequencies(c->encoding, length, inv_freq, NULL);
    return status ? gyre_fail(err, status, "frequencies: %s (%s)", gyre_status_text(status), c->label) : GYRE_OK;
}

static gyre_status make_case(const plot_options *o, const plot_subject *s, const method *m, plot_case *c, gyre_error *err) {
    gyre_config config;
    c->subject = s;
    c->method = *m;
    c->trained = s->trained;
    c->to = plot_target(o, s);
    if (!gyre_kind_has(s->config.kind, GYRE_TRAIT_ROTATES))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "positions: %s does not rotate, so there are no angles (%s)",
                         gyre_kind_name(s->config.kind), s->label);
    if (c->trained < STRETCH_MIN_TRAINED)
        return gyre_fail(err, GYRE_EINVAL, "trained length: the model does not say it; name it with --trained (%s)",
                         s->label);
    gyre_status status = method_config(m, &s->config, s->trained, c->to, &o->method.betas, &config, err);
    if (status) return status;
    config.rope.table_positions = GYRE_NO_TABLE;
    status = gyre_encoding_create(&c->encoding, &config, NULL, err);
    if (status) return status;
    c->pairs = gyre_encoding_get_config(c->encoding)->rope.dim / 2;
    c->follows_length = config_depends_on_length(&config);
    c->inv_freq = cli_alloc(c->pairs, sizeof *c->inv_freq);
    c->original = cli_alloc(c->pairs, sizeof *c->original);
    status = gyre_encoding_frequencies(c->encoding, c->to, c->inv_freq, &c->attention);
    return status ? status : original_frequencies(c, err);
}

/* Names all methods that a rotation of two channels rules out, so that no second run finds the next one. */
static gyre_status check_channels(const plot_subject *s, const method *list, int64_t count, gyre_error *err) {
    const int64_t dim = s->config.rope.dim ? s->config.rope.dim : s->config.head_dim;
    char names[256] = "";
    int found = 0;
    if (!gyre_kind_has(s->config.kind, GYRE_TRAIT_ROTATES) || dim != 2) return GYRE_OK;
    for (int64_t m = 0; m < count; m++) {
        if (!method_needs_two_pairs(&list[m])) continue;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", found++ ? ", " : "", list[m].label);
    }
    if (!found) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL,
                     "method%s %s: need%s 4 channels that rotate, not 2: " METHOD_TWO_PAIRS_WHY "; --methods picks others",
                     found > 1 ? "s" : "", names, found > 1 ? "" : "s");
}

/* Methods for far pairs change distances between two tokens.  A figure of angles by position would show them as none. */
static gyre_status check_angles(const plot_options *o, const plot_subject *s, const method *m, gyre_error *err) {
    const int by_position = o->kind == &plot_methods || o->kind == &plot_clock || o->kind == &plot_decay;
    const int64_t dim = s->config.rope.dim ? s->config.rope.dim : s->config.head_dim;
    if (by_position && m->far != GYRE_FAR_AS_NEAR)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "method %s: changes how far apart distant tokens are, not the angle of a position; gyre explore "
                         "draws it (%s)",
                         m->label, o->kind->name);
    if (o->kind == &plot_methods && gyre_kind_has(s->config.kind, GYRE_TRAIT_ROTATES) && dim == 2)
        return gyre_fail(err, GYRE_EINVAL, "channels: 2 make one pair, and a map of angles needs two pairs (methods)");
    return GYRE_OK;
}

/* The same method twice would be one line drawn over itself. */
static gyre_status check_once(const method *list, int64_t count, gyre_error *err) {
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = 0; j < i; j++)
            if (strcmp(list[i].label, list[j].label) == 0)
                return gyre_fail(err, GYRE_EINVAL, "methods: %s is named twice (plot)", list[i].label);
    return GYRE_OK;
}

gyre_status plot_cases_make(const plot_options *o, const plot_subject *subjects, int subjects_count, const char *usual,
                            plot_case cases[PLOT_CASES], int *count, gyre_error *err) {
    method *list = NULL;
    int64_t methods = 0;
    const char *names = compares_methods(o) ? o->compare : o->method.count ? NULL : subjects_count > 1 ? "none" : usual;
    gyre_status status = names ? methods_parse(names, &list, &methods, err) : GYRE_OK;
    const method *used = names ? list : o->method.list;
    if (!names) methods = o->method.count;
    *count = 0;
    if (!status && methods * subjects_count > PLOT_CASES)
        status = gyre_fail(err, GYRE_EINVAL, "methods: %lld of them do not fit one figure, which holds %d (plot)",
                           (long long)methods, PLOT_CASES / subjects_count);
    if (!status) status = check_once(used, methods, err);
    for (int s = 0; s < subjects_count && !status; s++)
        status = check_channels(&subjects[s], used, methods, err);
    for (int64_t i = 0; i < methods * subjects_count && !status; i++)
        status = check_angles(o, &subjects[i / methods], &used[i % methods], err);
    for (int s = 0; s < subjects_count; s++)
        for (int64_t m = 0; m < methods && !status; m++) {
            plot_case *c = &cases[(*count)++];
            *c = (plot_case){.pairs = 0};
            if (subjects_count > 1 && methods > 1)
                gyre_plain_snprintf(c->label, sizeof c->label, "%.40s, %s", subjects[s].label, used[m].label);
            else
                snprintf(c->label, sizeof c->label, "%s", subjects_count > 1 ? subjects[s].label : used[m].label);
            status = make_case(o, &subjects[s], &used[m], c, err);
        }
    free(list);
    if (status) plot_cases_free(cases, *count);
    return status;
}

void plot_cases_free(plot_case *cases, int count) {
    for (int i = 0; i < count; i++) {
        gyre_encoding_free(cases[i].encoding);
        free(cases[i].inv_freq);
        free(cases[i].original);
        cases[i] = (plot_case){.pairs = 0};
    }
}

/* -- pairs -- */
int64_t plot_pairs_shown(int64_t pairs) {
    return pairs < PLOT_PAIRS ? pairs : PLOT_PAIRS;
}

int64_t plot_pair_shown(int64_t pairs, int64_t i) {
    const int64_t shown = plot_pairs_shown(pairs);
    return shown == pairs ? i : i * (pairs - 1) / (shown - 1);
}

const char *plot_pairs_text(int64_t pairs, char out[PLOT_PAIRS_TEXT]) {
    const long long all = (long long)pairs, shown = (long long)plot_pairs_shown(pairs);
    if (shown < all)
        snprintf(out, PLOT_PAIRS_TEXT, "%lld of %lld pairs", shown, all);
    else
        snprintf(out, PLOT_PAIRS_TEXT, "%lld pairs", all);
    return out;
}

/* -- angles -- */
double plot_wrap(double angle) {
    const double turns = angle / TURN;
    return (turns - floor(turns + 0.5)) * TURN;
}

double plot_excess(const plot_case *c, int64_t pair, double angle) {
    return method_map_excess(c->original[pair] * (double)c->trained, angle);
}

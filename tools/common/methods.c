/* methods.c: parses `ntk:4` and makes an encoding from it. */
#include "tools/common/methods.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_error.h"
#include "util/suggest.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_WINDOW = 2 };

static const struct {
    const char *name;
    gyre_scaling scaling;
    gyre_far far;
    int keeps_model_scaling;
    method_number number;
    gyre_slope_scaling slopes;
    int follows;
} method_table[] = {
    {"none", GYRE_SCALING_NONE, GYRE_FAR_AS_NEAR, 1, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"linear", GYRE_SCALING_LINEAR, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_LINEAR, 0},
    {"ntk", GYRE_SCALING_NTK, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NTK, 0},
    {"ntk-past", GYRE_SCALING_NTK, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_PAST, GYRE_SLOPE_SCALING_NTK, 0},
    {"base", GYRE_SCALING_NONE, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_BASE, GYRE_SLOPE_SCALING_NONE, 0},
    {"ntk-mixed", GYRE_SCALING_NTK_MIXED, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"llama3", GYRE_SCALING_LLAMA3, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"dynamic", GYRE_SCALING_DYNAMIC_NTK, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NTK, 1},
    {"by-parts", GYRE_SCALING_BY_PARTS, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"by-parts-paper", GYRE_SCALING_BY_PARTS_PAPER, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"yarn", GYRE_SCALING_YARN, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"dynamic-yarn", GYRE_SCALING_DYNAMIC_YARN, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"dynamic-linear", GYRE_SCALING_NONE, GYRE_FAR_AS_NEAR, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_LINEAR, 1},
    {"rerope", GYRE_SCALING_NONE, GYRE_FAR_CLAMPED, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"leaky", GYRE_SCALING_NONE, GYRE_FAR_LEAKY, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"self-extend", GYRE_SCALING_NONE, GYRE_FAR_GROUPED, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"dca", GYRE_SCALING_NONE, GYRE_FAR_CHUNKED, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"dca-paper", GYRE_SCALING_NONE, GYRE_FAR_CHUNKED_PAPER, 0, METHOD_NUMBER_FACTOR, GYRE_SLOPE_SCALING_NONE, 0},
    {"clipped", GYRE_SCALING_NONE, GYRE_FAR_AS_NEAR, 1, METHOD_NUMBER_PAIRS, GYRE_SLOPE_SCALING_NONE, 0},
    {"clipped-hard", GYRE_SCALING_NONE, GYRE_FAR_AS_NEAR, 1, METHOD_NUMBER_PAIRS, GYRE_SLOPE_SCALING_NONE, 0}};

static int is_chunked(const method *m) {
    return m->far == GYRE_FAR_CHUNKED || m->far == GYRE_FAR_CHUNKED_PAPER;
}

/* out = 1 for a method that stretches slopes and nothing else. */
static int is_for_slopes_alone(const method *m) {
    return m->slopes != GYRE_SLOPE_SCALING_NONE && m->scaling == GYRE_SCALING_NONE;
}

/* Must start with a digit, a dot or a minus: strtod also accepts "inf", "nan" and spaces. */
static gyre_status parse_factor(const char *text, const method *m, double *out, gyre_error *err) {
    const char *what = m->number == METHOD_NUMBER_BASE ? "base"
                       : m->far == GYRE_FAR_CLAMPED    ? "window"
                       : m->far == GYRE_FAR_GROUPED    ? "group"
                       : is_chunked(m)                 ? "chunk"
                                                       : "factor";
    const char *digits = text + (*text == '-');
    char *end = NULL;
    const double factor = (*digits >= '0' && *digits <= '9') || *digits == '.' ? strtod(text, &end) : NAN;
    if (!*text) return gyre_fail(err, GYRE_EINVAL, "method %s: no %s follows its colon", m->name, what);
    if (!end || *end || strpbrk(text, "xX"))
        return gyre_fail(err, GYRE_EINVAL, "method %s: the %s is not a number", m->label, what);
    if (!isfinite(factor)) return gyre_fail(err, GYRE_EINVAL, "method %s: the %s is not finite", m->label, what);
    const int least = is_chunked(m) ? 2 : 1;
    if (factor < least)
        return gyre_fail(err, GYRE_EINVAL, "method %s: the %s is below %d, the least allowed", m->label, what, least);
    if (m->far == GYRE_FAR_LEAKY && factor > 0x1p32)
        return gyre_fail(err, GYRE_EINVAL, "method %s: the factor is above 2^32, the most allowed", m->label);
    if (m->far != GYRE_FAR_AS_NEAR && m->far != GYRE_FAR_LEAKY && (factor != floor(factor) || factor > INT32_MAX))
        return gyre_fail(err, GYRE_EINVAL, "method %s: the %s is not a whole number below 2^31", m->label, what);
    *out = factor;
    return GYRE_OK;
}

/* Reads `clipped`, `clipped-hard` and what may follow a colon.  *is_clip = 1 if the text begins with such a name. */
static gyre_status parse_clip(const char *text, size_t length, method *m, int *is_clip, gyre_error *err) {
    const char *colon = memchr(text, ':', length);
    const size_t name = colon ? (size_t)(colon - text) : length;
    const int soft = name == strlen("clipped") && strncmp(text, "clipped", name) == 0;
    *is_clip = soft || (name == strlen("clipped-hard") && strncmp(text, "clipped-hard", name) == 0);
    if (!*is_clip) return GYRE_OK;
    if (m->clip != GYRE_CLIP_NONE) return gyre_fail(err, GYRE_EINVAL, "method %s: clips twice", m->label);
    m->clip = soft ? GYRE_CLIP_SOFT : GYRE_CLIP_HARD;
    if (!colon) return GYRE_OK;
    char *end = NULL;
    const char *digits = colon + 1;
    const long long pairs = *digits >= '0' && *digits <= '9' ? strtoll(digits, &end, 10) : 0;
    if (!end || end != text + length || pairs < 1 || pairs > INT32_MAX)
        return gyre_fail(err, GYRE_EINVAL, "method %s: \"%.*s\" is not a number of pairs from 1 to 2^31 - 1", m->label,
                         (int)(length - name - 1), digits);
    m->clip_pairs = pairs;
    return GYRE_OK;
}

/* The same for `start:n` and `start-released:n`. */
static gyre_status parse_start(const char *text, size_t length, method *m, int *is_start, gyre_error *err) {
    const char *colon = memchr(text, ':', length);
    const size_t name = colon ? (size_t)(colon - text) : length;
    const int paper = name == strlen("start") && strncmp(text, "start", name) == 0;
    *is_start = paper || (name == strlen("start-released") && strncmp(text, "start-released", name) == 0);
    if (!*is_start) return GYRE_OK;
    if (m->start_tokens != 0) return gyre_fail(err, GYRE_EINVAL, "method %s: has two kinds of start tokens", m->label);
    char *end = NULL;
    const long long tokens = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoll(colon + 1, &end, 10) : 0;
    if (!end || end != text + length || tokens < 1 || tokens > INT32_MAX)
        return gyre_fail(err, GYRE_EINVAL, "method %s: needs a number of start tokens, from 1 to 2^31 - 1, as in +start:4",
                         m->label);
    m->start_tokens = tokens;
    m->starts = paper ? GYRE_LONGROPE_START_PAPER : GYRE_LONGROPE_START_RELEASED;
    return GYRE_OK;
}

static gyre_status parse_modifier(const char *text, size_t length, method *m, gyre_error *err) {
    int *flag = NULL, is_its = 0;
    gyre_status status = parse_clip(text, length, m, &is_its, err);
    if (!status && !is_its) status = parse_start(text, length, m, &is_its, err);
    if (status || is_its) return status;
    if (length == strlen("resonance") && strncmp(text, "resonance", length) == 0) flag = &m->resonance;
    if (length == strlen("logn") && strncmp(text, "logn", length) == 0) flag = &m->logn;
    if (!flag)
        return gyre_fail(err, GYRE_EINVAL, "method %s: \"+%.*s\" is not one of " METHOD_MODIFIERS, m->label, (int)length,
                         text);
    if (*flag) return gyre_fail(err, GYRE_EINVAL, "method %s: \"+%.*s\" is given twice", m->label, (int)length, text);
    *flag = 1;
    return GYRE_OK;
}

/* out = the length of the text before the first modifier.  The + of an exponent, as in 1e+1, does not begin a modifier. */
static size_t base_length(const char *text) {
    size_t n = strcspn(text, "+");
    while (text[n] && n && (text[n - 1] == 'e' || text[n - 1] == 'E') && text[n + 1] >= '0' && text[n + 1] <= '9')
        n += 1 + strcspn(text + n + 1, "+");
    return n;
}

/* What papers and programs call a method.  A near spelling would suggest another one. */
static const struct {
    const char *said, *name;
} other_names[] = {{"abf", "base:NUMBER, as in base:500000"},
                   {"pi", "linear"},
                   {"position-interpolation", "linear"},
                   {"ntk-aware", "ntk"},
                   {"ntk-by-parts", "by-parts"},
                   {"dynamic-ntk", "dynamic"}};

gyre_status method_fail_unknown(const char *text, const char *names, gyre_error *err) {
    char given[METHOD_LABEL], known[2][METHOD_LABEL];
    gyre_suggestion nearest = {NULL, GYRE_SUGGEST_LIMIT};
    int other = 0; /* of known[]: nearest.name is the one before */
    snprintf(given, sizeof given, "%.*s", (int)strcspn(text, ":+"), text);
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(given, other_names[i].said) == 0)
            return gyre_fail(err, GYRE_EINVAL, "method \"%s\": no such method; did you mean %s?", text, other_names[i].name);
    for (const char *name = names; *name; name += strspn(name, ", ")) {
        const size_t length = strcspn(name, ",");
        snprintf(known[other], sizeof known[other], "%.*s", (int)length, name);
        gyre_suggest(&nearest, given, known[other]);
        other = nearest.name == known[other] ? !other : other;
        name += length;
    }
    if (nearest.name)
        return gyre_fail(err, GYRE_EINVAL, "method \"%s\": no such method; did you mean %s?", text, nearest.name);
    return gyre_fail(err, GYRE_EINVAL, "method \"%s\": not one of %s", text, names);
}

static gyre_status parse(const char *text, size_t length, method *out, gyre_error *err) {
    method m = {0};
    char base[METHOD_LABEL];
    if (length >= sizeof m.label) return gyre_fail(err, GYRE_EINVAL, "method %.40s...: too long a name", text);
    memcpy(m.label, text, length);
    const size_t end = base_length(m.label);
    snprintf(base, sizeof base, "%.*s", (int)end, m.label);
    const size_t name = strcspn(base, ":");
    for (size_t i = 0; i < sizeof method_table / sizeof *method_table; i++)
        if (strlen(method_table[i].name) == name && strncmp(method_table[i].name, base, name) == 0) {
            m.name = method_table[i].name;
            m.scaling = method_table[i].scaling;
            m.far = method_table[i].far;
            m.keeps_model_scaling = method_table[i].keeps_model_scaling;
            m.number = method_table[i].number;
            m.slopes = method_table[i].slopes;
            m.follows = method_table[i].follows;
        }
    if (!m.name) return method_fail_unknown(m.label, METHOD_NAMES, err);
    int is_clip = 0;
    const gyre_status clip_status = parse_clip(base, strlen(base), &m, &is_clip, err);
    if (clip_status) return clip_status;
    if (base[name] && !is_clip) {
        if (m.keeps_model_scaling || m.scaling == GYRE_SCALING_DYNAMIC_YARN || is_for_slopes_alone(&m))
            return gyre_fail(err, GYRE_EINVAL, "method %s: %s takes no factor", m.label, m.name);
        const gyre_status status = parse_factor(base + name + 1, &m, &m.factor, err);
        if (status) return status;
    } else if (m.number == METHOD_NUMBER_BASE || m.number == METHOD_NUMBER_PAST)
        return gyre_fail(err, GYRE_EINVAL, "method %s: needs a number, as in %s", m.label,
                         m.number == METHOD_NUMBER_BASE ? "base:500000" : "ntk-past:4");
    for (const char *c = m.label + end; *c;) {
        const size_t n = strcspn(c + 1, "+");
        const gyre_status status = parse_modifier(c + 1, n, &m, err);
        if (status) return status;
        c += 1 + n;
    }
    *out = m;
    return GYRE_OK;
}

gyre_status method_parse(const char *text, method *out, gyre_error *err) {
    return parse(text, strlen(text), out, err);
}

gyre_status methods_parse(const char *list, method **out, int64_t *count, gyre_error *err) {
    int64_t n = 1;
    for (const char *c = list; *c; c++)
        n += *c == ',';
    method *methods = calloc((size_t)n, sizeof *methods);
    if (!methods) return gyre_fail(err, GYRE_ENOMEM, "methods: out of memory for %lld", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const size_t length = strcspn(list, ",");
        const gyre_status status = parse(list, length, &methods[i], err);
        if (status) {
            free(methods);
            return status;
        }
        list += length + 1;
    }
    *out = methods;
    *count = n;
    return GYRE_OK;
}

gyre_status method_name_failure(gyre_status status, const char *label, int64_t context, gyre_error *err) {
    if (status != GYRE_EFORMAT) return status;
    const gyre_error why = *err;
    const int names_part = strncmp(why.text, "window ", 7) == 0 || strncmp(why.text, "trial ", 6) == 0;
    return gyre_fail(err, status, names_part ? "%s at %lld tokens, %s" : "%s at %lld tokens: %s", label, (long long)context,
                     why.text);
}

int method_is_none(const method *m) {
    return m->keeps_model_scaling && !m->resonance && !m->logn && m->clip == GYRE_CLIP_NONE && m->start_tokens == 0;
}

int config_depends_on_length(const gyre_config *config) {
    const gyre_scaling scaling = config->rope.scaling;
    if (gyre_kind_has(config->kind, GYRE_TRAIT_SLOPES))
        return config->score.slope_scaling != GYRE_SLOPE_SCALING_NONE && config->score.slope_factor == 0;
    if (gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) && far_is_chunked(config) && config->rope.chunk.original_length > 0)
        return 1;
    return gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) &&
           (scaling == GYRE_SCALING_DYNAMIC_NTK || scaling == GYRE_SCALING_DYNAMIC_YARN || scaling == GYRE_SCALING_LONGROPE);
}

int method_depends_on_length(const method *m, const gyre_config *base) {
    gyre_config config = *base;
    if (gyre_kind_has(base->kind, GYRE_TRAIT_SLOPES) && !m->keeps_model_scaling) return m->follows;
    if (!m->keeps_model_scaling) {
        config.rope.scaling = m->scaling;
        config.rope.chunk.original_length = 0;
    }
    return config_depends_on_length(&config);
}

static int64_t default_window(int64_t trained) {
    return trained / 2;
}

/* out = the factor that maps the largest distance of the context to the largest trained one. */
static double fit_leaky_factor(int64_t trained, int64_t context) {
    const int64_t window = default_window(trained);
    return (double)(context - 1 - window) / (double)(trained - 1 - window);
}

/* out = the smallest group that maps it to at most that.  Beyond the window only one quotient is left, so that a few trained
 * tokens and a context of billions are not counted through. */
static double fit_group_size(int64_t trained, int64_t context) {
    const int64_t window = default_window(trained), beyond = (context - 1) / (trained - window) + 1;
    for (int64_t group = 1; group <= window; group++)
        if ((context - 1) / group + window - window / group <= trained - 1) return (double)group;
    return (double)(beyond > window ? beyond : window + 1);
}

double method_factor(const method *m, int64_t trained, int64_t context) {
    if (m->keeps_model_scaling || m->far == GYRE_FAR_CLAMPED || m->number == METHOD_NUMBER_BASE) return 1;
    if (is_chunked(m)) return 1;
    if (m->number == METHOD_NUMBER_PAST && context <= trained) return 1;
    if (m->factor != 0) return m->factor;
    if (context <= trained) return 1;
    if (m->far == GYRE_FAR_AS_NEAR) return (double)context / (double)trained;
    return m->far == GYRE_FAR_LEAKY ? fit_leaky_factor(trained, context) : fit_group_size(trained, context);
}

/* As the released code has them for Llama: 3/4 of the trained length, and a sixth of that; or as in the paper: the trained
 * length, and a quarter. */
static struct gyre_chunk_config chunks_of(const method *m, int64_t trained) {
    const int paper = m->far == GYRE_FAR_CHUNKED_PAPER;
    const int64_t size = m->factor != 0 ? (int64_t)m->factor : paper ? trained : trained * 3 / 4;
    const int64_t local = size / (paper ? 4 : 6);
    return (struct gyre_chunk_config){size, local > 0 ? local : 1, 0};
}

/* Clears all fields of a former scaling, because they were derived for another formula. */
static void apply_scaling(const method *m, int64_t trained, int64_t context, const method_betas *betas,
                          gyre_config *config) {
    struct gyre_rope_config *rope = &config->rope;
    const double factor = method_factor(m, trained, context);
    config->trained_length = trained;
    rope->scaling = m->scaling;
    rope->factor = m->scaling != GYRE_SCALING_NONE ? factor : 0;
    if (m->number == METHOD_NUMBER_BASE) rope->base = m->factor;
    rope->beta_fast = betas ? betas->fast : 0;
    rope->beta_slow = betas ? betas->slow : 0;
    rope->attention_factor = rope->mscale = rope->mscale_all_dim = 0;
    rope->low_freq = m->scaling == GYRE_SCALING_LLAMA3 ? 1 : 0;
    rope->high_freq = m->scaling == GYRE_SCALING_LLAMA3 ? 4 : 0;
    rope->proportion = rope->mixed_exponent = 0;
    rope->fractional_bounds = 0;
    rope->short_factor = rope->long_factor = NULL;
    rope->far = GYRE_FAR_AS_NEAR;
    rope->far_window = 0;
    rope->far_factor = 0;
    config->rope.chunk = (struct gyre_chunk_config){0, 0, 0};
    config->rope.longrope = (struct gyre_longrope_config){0, GYRE_LONGROPE_START_PAPER};
    /* Within the trained length no pair is far: the model is unchanged, and as fast. */
    if (m->far == GYRE_FAR_AS_NEAR || (context <= trained && m->factor == 0)) return;
    rope->far = m->far;
    if (is_chunked(m)) {
        config->rope.chunk = chunks_of(m, trained);
        return;
    }
    rope->far_window = m->far == GYRE_FAR_CLAMPED && m->factor != 0 ? (int64_t)m->factor : default_window(trained);
    rope->far_factor = m->far == GYRE_FAR_CLAMPED ? 0 : factor;
}

/* out = the pairs that make no whole revolution within the trained length, which its authors consider harmful. */
static int64_t unfinished_pairs(const gyre_config *config, int64_t trained) {
    const int64_t first = config->rope.first_channel, dim = config->rope.dim ? config->rope.dim : config->head_dim - first;
    const double base = config->rope.base > 0 ? config->rope.base : 10000, turn = 6.283185307179586;
    int64_t count = 0;
    for (int64_t i = 0; i < dim / 2; i++)
        count += turn * pow(base, 2.0 * (double)i / (double)dim) > (double)trained;
    return count;
}

static void apply_clip(const method *m, int64_t trained, gyre_config *config) {
    const int64_t pairs = m->clip_pairs > 0 ? m->clip_pairs : unfinished_pairs(config, trained);
    config->rope.clip = pairs > 0 ? (struct gyre_clip_config){m->clip, pairs} : (struct gyre_clip_config){GYRE_CLIP_NONE, 0};
}

int method_needs_two_pairs(const method *m) {
    return m->scaling == GYRE_SCALING_NTK || m->scaling == GYRE_SCALING_DYNAMIC_NTK;
}

static void apply_slopes(const method *m, int64_t trained, int64_t context, gyre_config *config) {
    config->trained_length = trained;
    config->score.slope_scaling = m->slopes;
    config->score.slope_factor = m->follows ? 0 : method_factor(m, trained, context);
}

/* Whether the model has what the method stretches. */
static gyre_status check_kind(const method *m, const gyre_config *base, gyre_error *err) {
    const int has_slopes = gyre_kind_has(base->kind, GYRE_TRAIT_SLOPES);
    /* Asks for a rotation, whatever the scaling. */
    const int turns = m->resonance || m->clip != GYRE_CLIP_NONE || m->start_tokens > 0;
    if (has_slopes && m->slopes != GYRE_SLOPE_SCALING_NONE && !turns) {
        if (!m->follows || m->factor == 0) return GYRE_OK;
        return gyre_fail(err, GYRE_EINVAL, "method %s: takes no factor for slopes, which follow the context (%s)", m->label,
                         gyre_kind_name(base->kind));
    }
    if (is_for_slopes_alone(m) && !has_slopes)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "method %s: the model has no slopes to stretch (%s)", m->label,
                         gyre_kind_name(base->kind));
    if ((m->keeps_model_scaling && !turns) || gyre_kind_has(base->kind, GYRE_TRAIT_ROTATES)) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "method %s: the model has no rotation to scale (%s)", m->label,
                     gyre_kind_name(base->kind));
}

static gyre_status check(const method *m, const gyre_config *base, int64_t trained, int64_t context, gyre_error *err) {
    if (context < 1)
        return gyre_fail(err, GYRE_EINVAL, "context: %lld is below 1 (method %s)", (long long)context, m->label);
    const gyre_status status = check_kind(m, base, err);
    if (status) return status;
    if (gyre_kind_has(base->kind, GYRE_TRAIT_ROTATES) && method_needs_two_pairs(m) &&
        (base->rope.dim ? base->rope.dim : base->head_dim) == 2)
        return gyre_fail(err, GYRE_EINVAL, "method %s: needs 4 channels that rotate, not 2: " METHOD_TWO_PAIRS_WHY,
                         m->label);
    const int64_t rotated = base->rope.dim ? base->rope.dim : base->head_dim - base->rope.first_channel;
    if (m->clip_pairs > rotated / 2)
        return gyre_fail(err, GYRE_EINVAL, "method %s: the model rotates %" PRId64 " pairs, so no more can be clipped",
                         m->label, rotated / 2);
    const int counts_turns = m->clip != GYRE_CLIP_NONE && m->clip_pairs == 0;
    if ((!m->keeps_model_scaling || m->logn || counts_turns) && trained < (m->logn ? 2 : 1))
        return gyre_fail(err, GYRE_EINVAL, "method %s: the model does not say its trained length (%s)", m->label,
                         gyre_kind_name(base->kind));
    if (m->far != GYRE_FAR_AS_NEAR && default_window(trained) < MIN_WINDOW)
        return gyre_fail(err, GYRE_EINVAL, "method %s: a trained length of %lld leaves no window (rope)", m->label,
                         (long long)trained);
    return GYRE_OK;
}

gyre_status method_config(const method *m, const gyre_config *base, int64_t trained, int64_t context,
                          const method_betas *betas, gyre_config *out, gyre_error *err) {
    gyre_config config = *base;
    const gyre_status status = check(m, base, trained, context, err);
    if (status) return status;
    const int rotates = gyre_kind_has(base->kind, GYRE_TRAIT_ROTATES),
              has_slopes = gyre_kind_has(base->kind, GYRE_TRAIT_SLOPES);
    if (rotates || has_slopes) config.context_length = context;
    if (rotates && !m->keeps_model_scaling) apply_scaling(m, trained, context, betas, &config);
    if (has_slopes && !m->keeps_model_scaling) apply_slopes(m, trained, context, &config);
    gyre_config_clear_unused(&config); /* before what the method asks for, which may be refused */
    if (m->resonance) config.rope.resonance = 1;
    if (m->clip != GYRE_CLIP_NONE) apply_clip(m, trained, &config);
    if (m->start_tokens > 0) config.rope.longrope = (struct gyre_longrope_config){m->start_tokens, m->starts};
    if (m->logn) {
        config.query.temperature = GYRE_TEMPERATURE_LOG;
        config.query.reference_length = trained;
        config.query.slope = 0;
    }
    *out = config;
    return GYRE_OK;
}

gyre_status method_encoding(const method *m, const gyre_config *base, int64_t trained, int64_t context,
                            const method_betas *betas, gyre_encoding **out, gyre_error *err) {
    gyre_config config;
    const gyre_status status = method_config(m, base, trained, context, betas, &config, err);
    if (status) return status;
    if (gyre_kind_has(config.kind, GYRE_TRAIT_ROTATES)) config.rope.table_positions = context;
    return gyre_encoding_create(out, &config, NULL, err);
}

gyre_status config_drop_rotation(const gyre_config *base, gyre_config *out, gyre_error *err) {
    static const gyre_config NOTHING;
    if (!gyre_kind_has(base->kind, GYRE_TRAIT_ROTATES))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "rotation: the model has none to drop (%s)", gyre_kind_name(base->kind));
    *out = *base;
    out->kind = gyre_kind_find("nope");
    out->rope = NOTHING.rope;
    return GYRE_OK;
}

/* -- distances -- */

/* To the last key of the chunk before, once the query is past its cap, or of the one before that, which is a chunk
 * nearer than its distance (in the paper's form at its distance, a position further). */
static int64_t first_chunk_change(const gyre_config *config) {
    const int64_t local = config->rope.chunk.local, chunk = config->rope.chunk.size - local;
    const int paper = config->rope.far == GYRE_FAR_CHUNKED_PAPER;
    const int64_t capped = local + (paper ? 1 : 2);
    return capped <= chunk ? capped : chunk + 1 + (paper && local == chunk + 1);
}

int64_t far_first_change(const gyre_config *config) {
    const struct gyre_rope_config *rope = &config->rope;
    if (far_is_chunked(config)) return first_chunk_change(config);
    if (rope->far == GYRE_FAR_AS_NEAR || (rope->far != GYRE_FAR_CLAMPED && rope->far_factor == 1)) return -1;
    /* If the window is not a multiple of the group, some tokens at that distance are one more group apart. */
    const int apart = rope->far == GYRE_FAR_GROUPED && rope->far_window % (int64_t)rope->far_factor != 0;
    return rope->far_window + !apart;
}

static far_piece chunk_piece(const gyre_config *config, double d) {
    const double length = (double)(config->rope.chunk.size - config->rope.chunk.local), back = floor(d / length);
    const int paper = config->rope.far == GYRE_FAR_CHUNKED_PAPER;
    const double cap = (double)(config->rope.chunk.size - paper), own = length - 1;
    const double query = back < 1 ? own : paper && back > 1 ? cap : fmin(own + length, cap);
    return (far_piece){(back + 1) * length, 1, query - own - back * length};
}

far_piece far_piece_at(const gyre_config *config, double d) {
    const struct gyre_rope_config *rope = &config->rope;
    const double window = (double)rope->far_window;
    if (far_is_chunked(config)) return chunk_piece(config, d);
    if (rope->far == GYRE_FAR_AS_NEAR) return (far_piece){(double)INFINITY, 1, 0};
    if (d < window) return (far_piece){window, 1, 0};
    const double slope = rope->far == GYRE_FAR_CLAMPED ? 0 : 1 / rope->far_factor;
    return (far_piece){(double)INFINITY, slope, window * (1 - slope)};
}

double far_distance(const gyre_config *config, double d) {
    const far_piece piece = far_piece_at(config, d);
    return piece.offset + piece.slope * d;
}

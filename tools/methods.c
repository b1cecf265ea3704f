/* methods.c: from `ntk:4` to an encoding. */
#include "methods.h"
#include "cli.h"
#include "gyre/gyre_model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    gyre_scaling scaling;
    int own;
} known[] = {{"none", GYRE_UNSCALED, 1},     {"linear", GYRE_LINEAR, 0},
             {"ntk", GYRE_NTK, 0},           {"dynamic", GYRE_DYNAMIC_NTK, 0},
             {"by-parts", GYRE_BY_PARTS, 0}, {"by-parts-paper", GYRE_BY_PARTS_PAPER, 0},
             {"yarn", GYRE_YARN, 0}};

/* Digits first: strtod also takes "inf", "nan", signs and spaces. */
static gyre_status parse_factor(const char *text, const char *whole, double *out, gyre_error *err) {
    char *end = NULL;
    const double factor = (*text >= '0' && *text <= '9') || *text == '.' ? strtod(text, &end) : NAN;
    if (!end || *end || strpbrk(text, "xX"))
        return cli_error(err, GYRE_EINVAL, "method %s: the factor is not a number", whole);
    if (!isfinite(factor)) return cli_error(err, GYRE_EINVAL, "method %s: the factor is not finite", whole);
    if (factor < 1) return cli_error(err, GYRE_EINVAL, "method %s: the factor is below 1", whole);
    *out = factor;
    return GYRE_OK;
}

static gyre_status parse(const char *text, size_t length, method *out, gyre_error *err) {
    method m = {0};
    if (length >= sizeof m.label) return cli_error(err, GYRE_EINVAL, "method %.40s...: too long a name", text);
    memcpy(m.label, text, length);
    const size_t name = strcspn(m.label, ":");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == name && strncmp(known[i].name, m.label, name) == 0) {
            m.name = known[i].name;
            m.scaling = known[i].scaling;
            m.own = known[i].own;
        }
    if (!m.name) return cli_error(err, GYRE_EINVAL, "method \"%s\": none of " METHOD_NAMES, m.label);
    if (m.label[name]) {
        if (m.own) return cli_error(err, GYRE_EINVAL, "method %s: none takes no factor", m.label);
        const gyre_status status = parse_factor(m.label + name + 1, m.label, &m.factor, err);
        if (status) return status;
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
    if (!methods) return cli_error(err, GYRE_ENOMEM, "methods: out of memory for %lld", (long long)n);
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

double method_factor(const method *m, int64_t trained, int64_t context) {
    if (m->own) return 1;
    if (m->factor != 0) return m->factor;
    if (m->scaling == GYRE_DYNAMIC_NTK || context <= trained) return 1;
    return (double)context / (double)trained;
}

/* What a former scaling left behind is cleared: it was derived for another formula. */
static void rescale(const method *m, int64_t trained, int64_t context, const method_betas *betas, gyre_config *config) {
    struct gyre_rope_config *rope = &config->rope;
    config->trained_length = trained;
    rope->scaling = m->scaling;
    rope->factor = method_factor(m, trained, context);
    rope->beta_fast = betas ? betas->fast : 0;
    rope->beta_slow = betas ? betas->slow : 0;
    rope->attention_factor = rope->mscale = rope->mscale_all_dim = 0;
    rope->low_freq = rope->high_freq = rope->proportion = 0;
    rope->fractional_bounds = 0;
    rope->short_factor = rope->long_factor = NULL;
}

gyre_status method_encoding(const method *m, const gyre_config *base, int64_t trained, int64_t context,
                            const method_betas *betas, gyre_encoding **out, gyre_error *err) {
    gyre_config config = *base;
    if (context < 1)
        return cli_error(err, GYRE_EINVAL, "context: %lld is below 1 (method %s)", (long long)context, m->label);
    if (base->kind == GYRE_ROPE) {
        config.rope.length = context;
        config.rope.table_positions = context;
    }
    if (!m->own) {
        if (base->kind != GYRE_ROPE)
            return cli_error(err, GYRE_EUNSUPPORTED, "method %s: the model has no rotation to scale (%s)", m->label,
                             gyre_kind_name(base->kind));
        if (trained < 1)
            return cli_error(err, GYRE_EINVAL, "method %s: the model does not say its trained length (rope)", m->label);
        rescale(m, trained, context, betas, &config);
    }
    return gyre_encoding_create(out, &config, NULL, err);
}

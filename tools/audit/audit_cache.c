/* audit_cache.c: gyre audit --cache: the tables of a file, as a page and as JSON. */
#include "tools/audit/audit_cache.h"
#include "gyre/gyre_angles.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_json.h"
#include "tools/cli/cli_output.h"
#include "tools/explain/explain_terminal.h"
#include "tools/options/value_names.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FOUND = 3, PROFILES = 32, SHAPE = 96, TEXT = 640 };

/* A config as every profile reads it. */
typedef struct read_config {
    gyre_reading *readings[PROFILES];
    int64_t count;
    struct {
        gyre_profile profile;
        gyre_error err;
    } refused[PROFILES];
    int refused_count;
} read_config;

/* A table and what it is. */
typedef struct audited {
    const gyre_angle_table *table;
    gyre_angle_audit *audit; /* NULL: it is not a table of angles, and err says why */
    gyre_error err;
} audited;

typedef struct cache {
    const audit_cache_request *request;
    read_config config;
    gyre_angle_tables *tables;
    audited *list; /* [tables->count] */
} cache;

/* -- reading -- */
/* out = 0, or CLI_FAILED with the error printed: the machine failed, or no profile takes the config. */
static int read_profiles(cache *c) {
    const audit_cache_request *r = c->request;
    read_config *o = &c->config;
    for (int p = 1; gyre_profile_name((gyre_profile)p) && p < PROFILES; p++) {
        const int is_meant =
            r->profile == GYRE_PROFILE_DEFAULT ? !gyre_profile_is_trainer((gyre_profile)p) : r->profile == (gyre_profile)p;
        if (!is_meant) continue;
        gyre_error err = {0, ""};
        const gyre_status status = gyre_reading_open(
            &o->readings[o->count], r->model,
            GYRE_ARGS(gyre_reading_options, .profile = (gyre_profile)p, .context_length = r->length), &err);
        if (!status) {
            o->count++;
            continue;
        }
        if (status != GYRE_EFORMAT && status != GYRE_EUNSUPPORTED) return cli_fail_error(&err);
        o->refused[o->refused_count].profile = (gyre_profile)p;
        o->refused[o->refused_count++].err = err;
    }
    if (cli_json_check(0)) return CLI_FAILED;
    return o->count ? 0 : cli_fail_error(&o->refused[0].err);
}

static int audit_tables(cache *c) {
    gyre_error err = {0, ""};
    int64_t done = 0;
    if (gyre_angle_tables_open(&c->tables, c->request->file, &err)) return cli_fail_error(&err);
    c->list = calloc((size_t)c->tables->count + 1, sizeof *c->list);
    if (!c->list) return cli_fail("--cache: out of memory (%s)", c->request->file);
    for (int64_t i = 0; i < c->tables->count; i++) {
        audited *a = &c->list[i];
        a->table = &c->tables->tables[i];
        const gyre_status status = gyre_angles_audit(
            &a->audit, &a->table->view, (const gyre_reading *const *)c->config.readings, c->config.count, &a->err);
        if (status == GYRE_ENOMEM) return cli_fail_error(&a->err);
        done += !status;
    }
    return done ? 0 : cli_fail("--cache: %s (%s)", c->list[0].err.text, c->request->file);
}

static void free_cache(cache *c) {
    for (int64_t i = 0; c->list && i < c->tables->count; i++)
        gyre_angle_audit_free(c->list[i].audit);
    free(c->list);
    gyre_angle_tables_free(c->tables);
    for (int64_t i = 0; i < c->config.count; i++)
        gyre_reading_free(c->config.readings[i]);
}

/* -- results -- */
static int is_right(const gyre_angle_audit *a) {
    return a->count > 0 && a->matches[0].first_position < 0 && a->matches[0].inexact_from < 0;
}

static int all_right(const cache *c) {
    int right = 0, wrong = 0;
    for (int64_t i = 0; i < c->tables->count; i++)
        if (c->list[i].audit) *(is_right(c->list[i].audit) ? &right : &wrong) += 1;
    return right > 0 && wrong == 0;
}

static const char *name_of(const cache *c, const audited *a) {
    return *a->table->name ? a->table->name : c->request->file;
}

/* out = "[4096, 128]" */
static const char *shape_text(const gyre_angle_table *t, char out[SHAPE]) {
    size_t used = 1;
    snprintf(out, SHAPE, "[");
    for (int64_t i = 0; i < t->rank && i < 4; i++)
        used += (size_t)snprintf(out + used, SHAPE - used, "%s%" PRId64, i ? ", " : "", t->view.shape[i]);
    snprintf(out + used, SHAPE - used, "]");
    return out;
}

/* -- the page -- */
static void view_head(const explain_terminal *page, const cache *c, const audited *a) {
    static const char *const forms[] = {"frequencies",
                                        "cos of all pairs, then sin",
                                        "sin of all pairs, then cos",
                                        "cos and sin of each pair side by side",
                                        "cos",
                                        "sin"};
    static const char *const columns[] = {"", ", each twice, in halves", ", each twice, side by side"};
    const gyre_angle_audit *t = a->audit;
    char shape[SHAPE], text[TEXT];
    explain_print(page, EXPLAIN_STYLE_BOLD, "%s", name_of(c, a));
    explain_print(page, EXPLAIN_STYLE_DIM, "  %s %s", a->table->dtype, shape_text(a->table, shape));
    fputc('\n', page->file);
    if (!t) {
        explain_print_wrapped(page, EXPLAIN_STYLE_DIM, 0, 0, a->err.text);
        return;
    }
    size_t used = (size_t)snprintf(text, sizeof text, "%s%s: ", forms[t->form], columns[t->columns]);
    if (t->positions) used += (size_t)snprintf(text + used, sizeof text - used, "%" PRId64 " positions, ", t->positions);
    used += (size_t)snprintf(text + used, sizeof text - used, "%" PRId64 " pairs, numbers of %s", t->pairs,
                             dtype_name(t->rounded));
    if (t->positions) used += (size_t)snprintf(text + used, sizeof text - used, ", factor %.6g", t->factor);
    if (t->base > 0) snprintf(text + used, sizeof text - used, ", base %.6g", t->base);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 0, text);
}

static void view_match(const explain_terminal *page, const gyre_angle_match *m) {
    enum { PROFILE_WIDTH = 16, GROUP_WIDTH = 20 };
    const int same = m->first_position < 0, exact = same && m->inexact_from < 0, indent = 2 + PROFILE_WIDTH + GROUP_WIDTH;
    char text[TEXT];
    explain_print_spaces(page, 2);
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, PROFILE_WIDTH, gyre_profile_name(m->reading->profile));
    explain_print_padded(page, EXPLAIN_STYLE_DIM, GROUP_WIDTH, m->group->name);
    if (exact)
        snprintf(text, sizeof text, "the same");
    else if (same)
        snprintf(text, sizeof text, "the same, rounded: 0.01 rad off from position %" PRId64 " on", m->inexact_from);
    else if (m->first_pair < 0)
        snprintf(text, sizeof text, "rotates another number of pairs");
    else if (m->first_position == INT64_MAX)
        snprintf(text, sizeof text, "pair %" PRId64 " is off, by less than 0.01 rad up to position 2^31", m->first_pair);
    else
        snprintf(text, sizeof text, "off from position %" PRId64 ", pair %" PRId64 "; up to %.3g", m->first_position,
                 m->first_pair, m->largest_error);
    explain_print_wrapped(page, exact ? EXPLAIN_STYLE_GREEN : EXPLAIN_STYLE_YELLOW, indent, indent, text);
}

static void view_cache(const explain_terminal *page, const cache *c) {
    for (int64_t i = 0; i < c->tables->count; i++) {
        const audited *a = &c->list[i];
        if (i) fputc('\n', page->file);
        view_head(page, c, a);
        if (!a->audit) continue;
        fputc('\n', page->file);
        for (int64_t k = 0; k < a->audit->count; k++)
            view_match(page, &a->audit->matches[k]);
        for (int k = 0; k < c->config.refused_count; k++) {
            explain_print_spaces(page, 2);
            explain_print_padded(page, EXPLAIN_STYLE_DIM, 16, gyre_profile_name(c->config.refused[k].profile));
            explain_print_wrapped(page, EXPLAIN_STYLE_DIM, 18, 38, c->config.refused[k].err.text);
        }
        fputc('\n', page->file);
        explain_print_wrapped(page, is_right(a->audit) ? EXPLAIN_STYLE_GREEN : EXPLAIN_STYLE_YELLOW, 0, 0,
                              a->audit->verdict);
    }
}

/* -- JSON -- */
static json_t *position_json(int64_t position) {
    return position < 0 || position == INT64_MAX ? json_null() : json_integer(position);
}

static json_t *match_json(const gyre_angle_match *m) {
    return JSON_OBJECT("profile", JSON(gyre_profile_name(m->reading->profile)), "group", JSON(m->group->name), "same",
                       json_boolean(m->first_position < 0), "precision", JSON(gyre_angle_precision_name(m->precision)),
                       "length", cli_json_nonzero(m->length), "factor", JSON(m->factor), "first_position",
                       position_json(m->first_position), "first_pair", position_json(m->first_pair), "positions_off",
                       JSON(m->positions_off), "largest_error", JSON(m->largest_error), "inexact_from",
                       position_json(m->inexact_from));
}

static json_t *frequencies_json(const gyre_angle_audit *a) {
    json_t *list = json_array();
    for (int64_t i = 0; i < a->pairs; i++)
        list = cli_json_append(list, JSON(a->frequencies[i]));
    return list;
}

static json_t *table_json(const cache *c, const audited *a) {
    const gyre_angle_audit *t = a->audit;
    json_t *matches = json_array();
    for (int64_t i = 0; i < t->count; i++)
        matches = cli_json_append(matches, match_json(&t->matches[i]));
    return JSON_OBJECT("name", JSON(name_of(c, a)), "dtype", JSON(a->table->dtype), "shape",
                       cli_json_integers(a->table->view.shape, a->table->rank), "form", JSON(gyre_angle_form_name(t->form)),
                       "columns", JSON(gyre_angle_columns_name(t->columns)), "rounded", JSON(dtype_name(t->rounded)),
                       "positions", cli_json_nonzero(t->positions), "pairs", JSON(t->pairs), "factor", JSON(t->factor),
                       "base", t->base > 0 ? JSON(t->base) : json_null(), "frequencies", frequencies_json(t), "ok",
                       json_boolean(is_right(t)), "restarts", json_boolean(t->restarts), "verdict", JSON(t->verdict),
                       "matches", matches);
}

static int write_json(const cache *c, FILE *file) {
    json_t *tables = json_array(), *left = json_array(), *refused = json_array();
    for (int64_t i = 0; i < c->tables->count; i++) {
        const audited *a = &c->list[i];
        if (a->audit)
            tables = cli_json_append(tables, table_json(c, a));
        else
            left = cli_json_append(left, JSON_OBJECT("name", JSON(name_of(c, a)), "text", cli_json_text(a->err.text)));
    }
    for (int i = 0; i < c->config.refused_count; i++)
        refused = cli_json_append(refused, JSON_OBJECT("profile", JSON(gyre_profile_name(c->config.refused[i].profile)),
                                                       "text", cli_json_text(c->config.refused[i].err.text)));
    return cli_json_write(file,
                          JSON_OBJECT("path", JSON(c->request->file), "config", JSON(c->config.readings[0]->path), "ok",
                                      json_boolean(all_right(c)), "tables", tables, "left_out", left, "refused", refused));
}

/* -- the call -- */
static int print_cache(const cache *c, const cli_options *options) {
    cli_output output;
    int status = cli_output_open(&output, options->output);
    if (status) return status;
    if (options->json) {
        status = write_json(c, output.file);
    } else {
        const explain_terminal page = explain_terminal_open(output.file);
        view_cache(&page, c);
    }
    return cli_output_close(&output, status);
}

int audit_cache(const audit_cache_request *request, const cli_options *options) {
    cache c = {.request = request};
    int status = read_profiles(&c);
    if (!status) status = audit_tables(&c);
    if (!status) status = print_cache(&c, options);
    if (!status && !all_right(&c)) status = EXIT_FOUND;
    free_cache(&c);
    return status;
}

/* fuzz_angle_tables.c: reads any bytes as a .npy or a .safetensors with tables of angles, and audits them, for libFuzzer.
 *
 * The first byte selects the meaning of the rest. '1': the dict of a .npy up to the first NUL or the end, then data; what
 * comes before the dict is put there, because few mutations keep the size right.  Else: the file as it is. */
#include "fuzz_support.h"
#include "gyre/gyre_angles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 /* numbers of a table that is audited: rows cost time */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gyre_reading *read_rope(int64_t head_dim, const char *more) {
    char text[400];
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    const int length = snprintf(text, sizeof text,
                                "{\"model_type\": \"llama\", \"hidden_size\": %lld, \"num_attention_heads\": 1, "
                                "\"max_position_embeddings\": 64, \"num_hidden_layers\": 1%s}",
                                (long long)head_dim, more);
    fuzz_require(!gyre_reading_parse(&reading, text, (size_t)length, NULL, &err), err.text);
    return reading;
}

static void check_match(const gyre_angle_audit *a, const gyre_angle_match *m) {
    const int64_t places = a->positions ? a->positions : a->pairs;
    fuzz_require(m->first_pair < a->pairs && m->positions_off <= places, "pairs and positions are of the table");
    fuzz_require((m->first_position < 0) == (m->positions_off == 0), "a table that agrees has no position off");
    fuzz_require(!a->positions || m->first_position < a->positions, "the first position is one of the table");
    fuzz_require(m->largest_error >= 0, "an error has a size");
}

static int is_same(const gyre_angle_match *a, const gyre_angle_match *b) {
    return a->precision == b->precision && a->first_position == b->first_position && a->first_pair == b->first_pair &&
           a->positions_off == b->positions_off;
}

/* The same numbers, each row twice as far from the last: the same result. */
static void check_elsewhere(const gyre_cview *view, const gyre_angle_audit *a, const gyre_reading *const *readings,
                            int64_t count) {
    const size_t bytes = gyre_dtype_size(view->dtype);
    gyre_cview other = *view;
    gyre_angle_audit *b = NULL;
    gyre_error err = {0, ""};
    for (int i = 3, step = 2; i >= 0; step *= (int)view->shape[i--])
        other.stride[i] = step;
    char *memory = fuzz_room((size_t)(view->shape[0] * view->shape[1] * view->shape[2] * view->shape[3]) * 2, bytes),
         *at = memory;
    other.data = memory;
    for (int64_t i = 0; i < view->shape[0]; i++)
        for (int64_t j = 0; j < view->shape[1]; j++)
            for (int64_t k = 0; k < view->shape[2]; k++)
                for (int64_t l = 0; l < view->shape[3]; l++, at += 2 * bytes)
                    memcpy(at,
                           (const char *)view->data + (size_t)(i * view->stride[0] + j * view->stride[1] +
                                                               k * view->stride[2] + l * view->stride[3]) *
                                                          bytes,
                           bytes);
    fuzz_require(!gyre_angles_audit(&b, &other, readings, count, &err), err.text);
    fuzz_require(a->form == b->form && a->columns == b->columns && a->rounded == b->rounded && a->count == b->count,
                 "the same numbers elsewhere are the same table");
    for (int64_t i = 0; i < a->count; i++)
        fuzz_require(is_same(&a->matches[i], &b->matches[i]), "the same numbers elsewhere are judged alike");
    gyre_angle_audit_free(b);
    free(memory);
}

static void audit_table(const gyre_angle_table *table) {
    const gyre_cview *view = &table->view;
    gyre_angle_audit *a = NULL;
    gyre_error err = {0, ""};
    int64_t numbers = 1;
    for (int i = 0; i < 4; i++)
        numbers = view->shape[i] <= MOST && numbers <= MOST ? numbers * view->shape[i] : MOST + 1;
    if (numbers > MOST) return;
    const gyre_status status = gyre_angles_audit(&a, view, NULL, 0, &err);
    fuzz_require_error(status, &err);
    if (status) return;
    fuzz_require(a->pairs > 0 && a->pairs <= numbers && a->count == 0 && *a->verdict, "a table has pairs and a verdict");
    gyre_reading *readings[3] = {
        read_rope(2 * a->pairs, ""), read_rope(2 * a->pairs + 2, ""),
        read_rope(2 * a->pairs + (a->pairs < 2) * 2, ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}")};
    const gyre_reading *const *list = (const gyre_reading *const *)readings;
    gyre_angle_audit_free(a);
    fuzz_require(!gyre_angles_audit(&a, view, list, 3, &err), err.text);
    fuzz_require(a->count >= 3 && *a->verdict, "each reading has a match");
    for (int64_t i = 0; i < a->count; i++)
        check_match(a, &a->matches[i]);
    check_elsewhere(view, a, list, 3);
    gyre_angle_audit_free(a);
    for (int i = 0; i < 3; i++)
        gyre_reading_free(readings[i]);
}

static void open_file(const char *path) {
    gyre_angle_tables *tables = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_angle_tables_open(&tables, path, &err);
    fuzz_require_error(status, &err);
    for (int64_t i = 0; !status && i < tables->count; i++)
        audit_table(&tables->tables[i]);
    gyre_angle_tables_free(tables);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const uint8_t kind = data[0], *const rest = data + 1;
    size--;
    if (kind != '1') {
        open_file(fuzz_file(rest, size));
        return 0;
    }
    const uint8_t *end = size > 0 ? memchr(rest, 0, size) : NULL;
    const size_t length = end ? (size_t)(end - rest) : size, bytes = end ? size - length - 1 : 0;
    uint8_t *file = fuzz_room(10 + length + bytes, 1);
    memcpy(file, "\x93NUMPY\x01\0", 8);
    file[8] = (uint8_t)length, file[9] = (uint8_t)(length >> 8);
    memcpy(file + 10, rest, length);
    if (bytes) memcpy(file + 10 + length, end + 1, bytes);
    open_file(fuzz_file(file, 10 + length + bytes));
    free(file);
    return 0;
}

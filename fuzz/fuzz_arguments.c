/* fuzz_arguments.c: values of options: numbers, lists, methods and lengths.  The first byte chooses the parser, and the rest
 * is the value.  A value that is accepted means the same when it is printed and read again, and lies within the range of its
 * row. */
#include "fuzz_exit.h"
#include "fuzz_support.h"
#include "tools/cli/cli_parse.h"
#include "tools/cli/cli_values.h"
#include "tools/common/methods.h"
#include "tools/common/variants.h"
#include "tools/options/length_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct value {
    char *text;
    int kind;
} value;

typedef struct values {
    length_list lengths;
    double number;
    uint64_t seed;
    int choice;
    int64_t whole, even;
} values;

/* A row for each way to read a value; their kinds follow those of methods and of a list. */
#define CLI_STRUCT values
enum { FIRST_ROW = 2, ROWS = 6 };
static const cli_option rows[ROWS] = {{"lengths", "LIST", "rising", 0, CLI_OTHER(length_list, lengths, length_list_read)},
                                      {"number", "X", "a number", 0, CLI_NUMBER(number, 0.5, 1e6)},
                                      {"seed", "N", "a seed", 0, CLI_SEED(seed)},
                                      {"choice", "one|two|three", "a word", 0, CLI_CHOICE(int, choice, 1)},
                                      {"whole", "N", "a whole number", 0, CLI_INTEGER(whole, 3, CLI_MAX_TOKENS)},
                                      {"even", "N", "an even number", 0, CLI_EVEN(even, 2, 4096)}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A method must give a config at any context, or say why not. */
static void use_method(const method *m) {
    static const int64_t contexts[] = {1, 16, 17, 4096, INT64_C(1) << 31};
    gyre_config base = GYRE_INIT(gyre_config);
    const method_betas betas = {0, 0};
    base.kind = GYRE_KIND_ROPE;
    base.head_dim = 16;
    base.heads = 2;
    base.trained_length = 16;
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        gyre_config out = GYRE_INIT(gyre_config);
        gyre_error err = {0, ""};
        gyre_encoding *encoding = NULL;
        fuzz_require(method_factor(m, 16, contexts[i]) >= 1, "a factor is at least 1");
        gyre_status status = method_config(m, &base, 16, contexts[i], &betas, &out, &err);
        fuzz_require_error(status, &err);
        if (status) continue;
        out.rope.table_positions = GYRE_NO_TABLE;
        status = gyre_encoding_create(&encoding, &out, NULL, &err);
        fuzz_require_error(status, &err);
        gyre_encoding_free(encoding);
    }
}

static void read_methods(const char *text) {
    method *list = NULL, again;
    int64_t count = 0;
    gyre_error err = {0, ""};
    const gyre_status status = methods_parse(text, &list, &count, &err);
    fuzz_require_error(status, &err);
    for (int64_t i = 0; !status && i < count; i++) {
        fuzz_require(!method_parse(list[i].label, &again, &err), "a label is a method");
        fuzz_require(again.scaling == list[i].scaling && again.far == list[i].far && again.resonance == list[i].resonance &&
                         again.logn == list[i].logn && again.factor == list[i].factor && again.clip == list[i].clip &&
                         again.clip_pairs == list[i].clip_pairs,
                     "and the same one");
        fuzz_require(subject_look(list[i].label).color < GYRE_REPORT_PAINTS, "with a colour of the palette");
        use_method(&list[i]);
    }
    free(status ? NULL : list);
}

static void read_list(const char *text) {
    int64_t *values = NULL;
    const int64_t count = cli_integers("--list", text, -5, CLI_MAX_TOKENS, &values);
    fuzz_require(count >= 1, "a list has values");
    for (int64_t i = 0; i < count; i++)
        fuzz_require(values[i] >= -5 && values[i] <= CLI_MAX_TOKENS, "within its bounds");
    free(values);
}

static void read_row(const cli_option *row, const char *text) {
    values v = {.number = 1, .choice = 1, .whole = 3, .even = 2}; /* what the row does not set is within its range */
    cli_option_read(row, text, &v);
    for (int64_t i = 1; i < v.lengths.count; i++)
        fuzz_require(v.lengths.values[i] > v.lengths.values[i - 1], "a list that rises");
    fuzz_require(v.number >= 0.5 && v.number <= 1e6, "a number within its bounds");
    fuzz_require(v.seed <= INT64_MAX, "a seed that JSON holds");
    fuzz_require(v.choice >= 1 && v.choice <= 3, "a word of the list");
    fuzz_require(v.whole >= 3 && v.whole <= CLI_MAX_TOKENS, "a whole number within its bounds");
    fuzz_require(v.even >= 2 && v.even <= 4096 && v.even % 2 == 0, "an even number within its bounds");
    length_list_free(&v.lengths);
}

static int read_value(void *arg) {
    const value *v = arg;
    if (v->kind == 0)
        read_methods(v->text);
    else if (v->kind == 1)
        read_list(v->text);
    else
        read_row(&rows[v->kind - FIRST_ROW], v->text);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    value v = {fuzz_room(size, 1), data[0] % (FIRST_ROW + ROWS)};
    memcpy(v.text, data + 1, size - 1); /* ends with the NUL that fuzz_room left */
    (void)fuzz_until_exit(read_value, &v);
    free(v.text);
    return 0;
}

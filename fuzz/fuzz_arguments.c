/* fuzz_arguments.c: values of options: numbers, lists, methods and lengths.  The first byte chooses the parser, and the rest
 * is the value.  A value that is accepted means the same when it is printed and read again. */
#include "fuzz_exit.h"
#include "fuzz_support.h"
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
        fuzz_require(method_parse(list[i].label, &again, &err) == GYRE_OK, "a label is a method");
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

static void read_lengths(const char *text) {
    length_list list = {NULL, 0};
    length_list_read("--contexts", text, &list);
    for (int64_t i = 1; i < list.count; i++)
        fuzz_require(list.values[i] > list.values[i - 1], "a list that rises");
    length_list_free(&list);
}

static int read_value(void *arg) {
    static const char *const names[] = {"one", "two", "three"};
    const value *v = arg;
    switch (v->kind) {
    case 0:
        read_methods(v->text);
        break;
    case 1:
        read_list(v->text);
        break;
    case 2:
        read_lengths(v->text);
        break;
    case 3: {
        const double x = cli_number("--number", v->text, -1, 1e6);
        fuzz_require(x >= -1 && x <= 1e6, "a number within its bounds");
        break;
    }
    case 4:
        (void)cli_seed(v->text);
        break;
    default:
        fuzz_require(cli_choice("--choice", v->text, names, 3) < 3, "a name of the list");
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    value v = {fuzz_room(size, 1), data[0] % 6};
    memcpy(v.text, data + 1, size - 1); /* ends with the NUL that fuzz_room left */
    (void)fuzz_until_exit(read_value, &v);
    free(v.text);
    return 0;
}

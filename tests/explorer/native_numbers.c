/* native_numbers.c: what the native library computes for a setup of the explorer, for numbers.test.mjs:
 *
 *     native_numbers METHOD BASE HEAD_DIM TRAINED TARGET FROM COUNT
 *
 * prints JSON: inv_freq[pairs], attention_factor, cos[pairs][COUNT], sin[pairs][COUNT] of gyre_cos_sin without the factor,
 * and rotated[HEAD_DIM], the vector 1, 2, 3, ... at position FROM. */
#include "gyre/gyre.h"
#include "tools/common/methods.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_list(const char *name, const double *numbers, int64_t count, const char *end) {
    printf("\"%s\":[", name);
    for (int64_t i = 0; i < count; i++)
        printf("%s%.17g", i ? "," : "", numbers[i]);
    printf("]%s", end);
}

/* out[pairs][count] = in[count][pairs] / factor. */
static void transpose(const double *in, int64_t pairs, int64_t count, double factor, double *out) {
    for (int64_t i = 0; i < pairs; i++)
        for (int64_t c = 0; c < count; c++)
            out[i * count + c] = in[c * pairs + i] / factor;
}

static int fail(const gyre_error *err) {
    fprintf(stderr, "native_numbers: %s\n", err->text);
    return 1;
}

static int print_numbers(const gyre_encoding *encoding, int64_t dim, int64_t target, int64_t from, int64_t count) {
    const int64_t pairs = dim / 2, cells = pairs * count;
    gyre_error err = {0, ""};
    double attention_factor = 0, *numbers = calloc((size_t)(pairs + 3 * cells), sizeof *numbers);
    float *vector = calloc((size_t)dim, sizeof *vector);
    if (!numbers || !vector) return 1;
    double *inv_freq = numbers, *cosine = inv_freq + pairs, *sine = cosine + cells, *ordered = sine + cells;
    const gyre_positions positions = {.base = from};
    const gyre_view c = gyre_dense(cosine, GYRE_DTYPE_F64, 1, count, 1, pairs);
    const gyre_view s = gyre_dense(sine, GYRE_DTYPE_F64, 1, count, 1, pairs);
    for (int64_t i = 0; i < dim; i++)
        vector[i] = (float)(i + 1);
    if (gyre_encoding_frequencies(encoding, target, inv_freq, &attention_factor) ||
        gyre_cos_sin(encoding, &positions, &c, &s, NULL, &err) ||
        gyre_rotate_dense(encoding, GYRE_ROLE_KEY, gyre_dense(vector, GYRE_DTYPE_F32, 1, 1, 1, dim), from, 0, &err))
        return fail(&err);
    printf("{\"attention_factor\":%.17g,", attention_factor);
    print_list("inv_freq", inv_freq, pairs, ",");
    transpose(cosine, pairs, count, attention_factor, ordered);
    print_list("cos", ordered, cells, ",");
    transpose(sine, pairs, count, attention_factor, ordered);
    print_list("sin", ordered, cells, ",");
    for (int64_t i = 0; i < dim; i++)
        inv_freq[i] = (double)vector[i]; /* over what was printed; dim <= pairs + cells */
    print_list("rotated", inv_freq, dim, "}\n");
    free(numbers);
    free(vector);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 8) return 2;
    long long number[8] = {0};
    for (int i = 3; i < 8; i++)
        number[i] = strtoll(argv[i], NULL, 10);
    gyre_error err = {0, ""};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = number[3];
    config.trained_length = number[4];
    config.rope.base = strtod(argv[2], NULL);
    method m;
    gyre_encoding *encoding = NULL;
    if (method_parse(argv[1], &m, &err) || method_encoding(&m, &config, number[4], number[5], NULL, &encoding, &err))
        return fail(&err);
    const int status = print_numbers(encoding, number[3], number[5], number[6], number[7]);
    gyre_encoding_free(encoding);
    return status;
}

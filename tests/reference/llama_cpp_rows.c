/* llama_cpp_rows.c: writes llama_cpp_rows.json: cos and sin that ggml's CPU code rotates by, bit for bit.
 *
 * Compile it with the headers and libraries of ggml (ggml, ggml-cpu, ggml-base), outside this project; it prints the file.
 * The file here is of ggml d99724f (2026-08-21), gcc 12.2, -O3 -march=native on an AMD EPYC (Zen 4), glibc 2.36. */
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct rope_case {
    const char *scaling;
    int dim, trained;
    float base, factor, attention_factor; /* attention_factor: the file's over the usual one */
} rope_case;

static const rope_case cases[] = {{"default", 128, 8192, 10000, 1, 1},     {"default", 64, 8192, 5e5f, 1, 1},
                                  {"default", 128, 8192, 1e6f, 1, 1},      {"linear", 128, 4096, 10000, 4, 1},
                                  {"yarn", 128, 4096, 10000, 16, 1},       {"yarn", 64, 8192, 5e5f, 4, 0.9f},
                                  {"longrope", 96, 4096, 10000, 32, 1.19f}};
static const int32_t positions[] = {1, 2, 63, 1000, 4095, 32767, 131071, 1000000, 16777217};
enum { POSITIONS = sizeof positions / sizeof *positions };

static void print_row(const float *x, int n, const char *name) {
    printf(", \"%s\": \"", name);
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        printf("%08x", (unsigned)bits);
    }
    printf("\"");
}

/* (1, 0) rotated is (cos, sin). */
static void print_case(const rope_case *c, int last) {
    struct ggml_context *ggml = ggml_init((struct ggml_init_params){16 << 20, NULL, 0});
    struct ggml_tensor *factors = NULL;
    struct ggml_tensor *x = ggml_new_tensor_3d(ggml, GGML_TYPE_F32, c->dim, 1, POSITIONS);
    struct ggml_tensor *at = ggml_new_tensor_1d(ggml, GGML_TYPE_I32, POSITIONS);
    memcpy(at->data, positions, sizeof positions);
    for (int i = 0; i < c->dim * POSITIONS; i++)
        ((float *)x->data)[i] = i % c->dim < c->dim / 2;
    printf("{\"scaling\": \"%s\", \"dim\": %d, \"trained\": %d, \"base\": %.9g, \"factor\": %.9g, \"attention\": %.9g",
           c->scaling, c->dim, c->trained, (double)c->base, (double)c->factor, (double)c->attention_factor);
    if (!strcmp(c->scaling, "longrope")) {
        factors = ggml_new_tensor_1d(ggml, GGML_TYPE_F32, c->dim / 2);
        printf(", \"list\": [");
        for (int i = 0; i < c->dim / 2; i++) {
            ((float *)factors->data)[i] = 1 + 0.75f * (float)i;
            printf("%s%.9g", i ? ", " : "", (double)((float *)factors->data)[i]);
        }
        printf("]");
    }
    const int yarn = !strcmp(c->scaling, "yarn"), scales = yarn || !strcmp(c->scaling, "linear");
    struct ggml_tensor *out = ggml_rope_ext(ggml, x, at, factors, c->dim, GGML_ROPE_TYPE_NEOX, c->trained, c->base,
                                            scales ? 1 / c->factor : 1, (float)yarn, c->attention_factor, 32, 1);
    struct ggml_cgraph *graph = ggml_new_graph(ggml);
    ggml_build_forward_expand(graph, out);
    ggml_graph_compute_with_ctx(ggml, graph, 1);
    printf(",\n \"rows\": [");
    for (int t = 0; t < POSITIONS; t++) {
        const float *row = (const float *)out->data + t * c->dim;
        printf("%s{\"position\": %d", t ? ",\n  " : "", (int)positions[t]);
        print_row(row, c->dim / 2, "cos");
        print_row(row + c->dim / 2, c->dim / 2, "sin");
        printf("}");
    }
    printf("]}%s\n", last ? "" : ",");
    ggml_free(ggml);
}

int main(void) {
    const int count = sizeof cases / sizeof *cases;
    printf("[\n");
    for (int i = 0; i < count; i++)
        print_case(&cases[i], i == count - 1);
    printf("]\n");
    return 0;
}

/* example.h: shared by the programs of this folder.  Each program stops at the first call that fails and at the first number
 * that is not what the documentation says. */
#include <gyre/gyre.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls that take a gyre_error write their reason here. */
static gyre_error err;

static inline void check(gyre_status status) {
    if (!status) return;
    fprintf(stderr, "%s: %s\n", gyre_status_text(status), err.text);
    exit(1);
}

#define expect(condition)                                                                                                   \
    do {                                                                                                                    \
        if (!(condition)) {                                                                                                 \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);                                        \
            exit(1);                                                                                                        \
        }                                                                                                                   \
    } while (0)

static inline int near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance;
}

/* Largest difference between two arrays. */
static inline double most_apart(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Numbers between -1 and 1 that stand for activations. */
static inline void fill(float *x, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

/* Memory for a call, aligned as it has to be.  The caller frees .memory. */
static inline gyre_scratch take_scratch(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    expect(bytes > 0 && memory != NULL);
    return (gyre_scratch){memory, bytes};
}

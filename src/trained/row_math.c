/* row_math.c: cos, sin, softplus and sigmoid.  The polynomials are those of fdlibm (Sun Microsystems, 1993), where comments
 * derive them. */
#include "trained/row_math.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64 }; /* numbers that are gone through together */

/* Adding it to |x| < 2^51 leaves the nearest integer in the low bits. */
static const double MAGIC = 6755399441055744.0; /* 1.5 * 2^52 */

typedef union number {
    double value;
    uint64_t bits;
} number;

/* -- cos and sin -- */
/* pi / 2 in three parts.  The first two have 22 bits, so that they times an integer below 2^31 are exact. */
static const double HALF_PI_HIGH = 0x1.921fbp+0, HALF_PI_MIDDLE = 0x1.5110bp-22, HALF_PI_LOW = 0x1.18469898cc517p-44;
static const double FARTHEST_ANGLE = 0x1p31;

/* *r = angle less the nearest number of quarter revolutions; out = that number, in the low bits. */
static inline uint64_t reduce(double angle, double *r) {
    const number t = {.value = angle * 0x1.45f306dc9c883p-1 + MAGIC}; /* 2 / pi */
    const double quarters = t.value - MAGIC;
    *r = ((angle - quarters * HALF_PI_HIGH) - quarters * HALF_PI_MIDDLE) - quarters * HALF_PI_LOW;
    return t.bits;
}

/* Of |r| <= pi / 4. */
static inline double sine_of(double r) {
    const double z = r * r;
    double p = 1.58969099521155010221e-10;
    p = p * z - 2.50507602534068634195e-08;
    p = p * z + 2.75573137070700676789e-06;
    p = p * z - 1.98412698298579493134e-04;
    p = p * z + 8.33333333332248946124e-03;
    p = p * z - 1.66666666666666324348e-01;
    return r + r * z * p;
}

static inline double cosine_of(double r) {
    const double z = r * r, half = 0.5 * z, most = 1 - half;
    double p = -1.13596475577881948265e-11;
    p = p * z + 2.08757232129817482790e-09;
    p = p * z - 2.75573143513906633035e-07;
    p = p * z + 2.48015872894767294178e-05;
    p = p * z - 1.38888888888741095749e-03;
    p = p * z + 4.16666666666666019037e-02;
    return most + (((1 - most) - half) + z * z * p);
}

/* odd quarters: cos and sin change places */
static inline void turn_quarters(uint64_t *cosine, uint64_t *sine, uint64_t quarters) {
    const uint64_t change = (*cosine ^ *sine) & (0 - (quarters & 1));
    *cosine ^= change ^ (((quarters + 1) & 2) << 62);
    *sine ^= change ^ ((quarters & 2) << 62);
}

static void cos_sin_block(const double *angle, int64_t n, double *cosine, double *sine) {
    uint64_t quarters[BLOCK], c[BLOCK], s[BLOCK];
    double r[BLOCK];
    const size_t bytes = (size_t)n * sizeof *r;
    for (int64_t i = 0; i < n; i++)
        quarters[i] = reduce(angle[i], &r[i]);
    for (int64_t i = 0; i < n; i++) {
        cosine[i] = cosine_of(r[i]);
        sine[i] = sine_of(r[i]);
    }
    memcpy(c, cosine, bytes);
    memcpy(s, sine, bytes);
    for (int64_t i = 0; i < n; i++)
        turn_quarters(&c[i], &s[i], quarters[i]);
    memcpy(cosine, c, bytes);
    memcpy(sine, s, bytes);
}

void gyre_row_cos_sin(const double *angle, int64_t n, double *cosine, double *sine) {
    for (int64_t first = 0; first < n; first += BLOCK)
        cos_sin_block(angle + first, n - first < BLOCK ? n - first : BLOCK, cosine + first, sine + first);
    for (int64_t i = 0; i < n; i++) {
        if (fabs(angle[i]) < FARTHEST_ANGLE) continue;
        cosine[i] = cos(angle[i]);
        sine[i] = sin(angle[i]);
    }
}

/* -- softplus and sigmoid -- */
static const double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
static const double FARTHEST = 700; /* e^-x is a normal number up to here */

/* e^-a, 0 <= a <= FARTHEST.  With r = x - n ln 2: e^r = 1 + 2 r / (R(r) - r), R an even function. */
static inline double exp_of_minus(double a) {
    const double t = a * -1.44269504088896338700e+00 + MAGIC, n = t - MAGIC;
    const double high = -a - n * LN2_HIGH, low = n * LN2_LOW, r = high - low, z = r * r;
    double p = 4.13813679705723846039e-08;
    p = p * z - 1.65339022054652515390e-06;
    p = p * z + 6.61375632143793436117e-05;
    p = p * z - 2.77777777770155933842e-03;
    p = p * z + 1.66666666666666019037e-01;
    const double c = r - z * p;
    number y = {.value = 1 - ((low - r * c / (2 - c)) - high)};
    const number count = {.value = t};
    y.bits += count.bits << 52; /* times 2^n */
    return y.value;
}

/* ln(1 + t), 0 <= t <= 1.  1 + t, or half of it if halved is 1, is 1 + f with f from -0.3 to 0.42. */
static inline double log_of_one_more(double t, double halved) {
    const double f = (1 - halved) * t + halved * (0.5 * (t - 1));
    const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    double p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    return halved * LN2_HIGH - ((half - (s * (half + z * p) + halved * LN2_LOW)) - f);
}

static double softplus_of(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double sigmoid_of(double x) {
    return x > 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static inline double near(double x) { /* |x|, or FARTHEST if that is less; of a NaN too */
    const double a = fabs(x);
    return a < FARTHEST ? a : FARTHEST;
}

/* out may be x, so what is far is computed first. */
static void map_row(const double *x, int64_t n, double *out, double (*far)(double),
                    void (*block)(const double *x, int64_t n, double *out)) {
    double y[BLOCK];
    for (int64_t first = 0; first < n; first += BLOCK) {
        const int64_t count = n - first < BLOCK ? n - first : BLOCK;
        block(x + first, count, y);
        for (int64_t i = 0; i < count; i++)
            if (!(fabs(x[first + i]) <= FARTHEST)) y[i] = far(x[first + i]);
        memcpy(out + first, y, (size_t)count * sizeof *y);
    }
}

/* e[i] = e^-|x[i]| */
static void decay_block(const double *x, int64_t n, double *e) {
    for (int64_t i = 0; i < n; i++)
        e[i] = near(x[i]);
    for (int64_t i = 0; i < n; i++)
        e[i] = exp_of_minus(e[i]);
}

/* The alternatives are computed in a separate loop: a branch would keep the others from vectors. */
static void softplus_block(const double *x, int64_t n, double *out) {
    double e[BLOCK], halved[BLOCK];
    decay_block(x, n, e);
    for (int64_t i = 0; i < n; i++)
        halved[i] = e[i] > 0.41421356237309503 ? 1 : 0; /* sqrt(2) - 1 */
    for (int64_t i = 0; i < n; i++)
        out[i] = 0.5 * (x[i] + fabs(x[i])) + log_of_one_more(e[i], halved[i]);
}

static void sigmoid_block(const double *x, int64_t n, double *out) {
    double e[BLOCK], above[BLOCK];
    decay_block(x, n, e);
    for (int64_t i = 0; i < n; i++)
        above[i] = x[i] > 0 ? 1 : 0;
    for (int64_t i = 0; i < n; i++)
        out[i] = (above[i] + (1 - above[i]) * e[i]) / (1 + e[i]);
}

void gyre_row_softplus(const double *x, int64_t n, double *out) {
    map_row(x, n, out, softplus_of, softplus_block);
}

void gyre_row_sigmoid(const double *x, int64_t n, double *out) {
    map_row(x, n, out, sigmoid_of, sigmoid_block);
}

/* gyre_device.h: rotation and biases as functions that compilers of devices take: C99, C++11, CUDA C++, HIP, OpenCL C and
 * Metal.
 *
 *     ulong phase = gyre_device_phase(increments[i], position);                   // in a kernel; pair i
 *     gyre_device_angle at = gyre_device_cos_sin(phase, attention_factor);
 *     gyre_device_pair out = gyre_device_rotate(gyre_device_pair_of(x, y), at);
 *
 * gyre_encoding_phases (gyre.h) computes the increments, 64-bit fixed-point turns per position.  A phase is a fraction of a
 * turn, in units of 2^-64: its product with a position, modulo 2^64, loses nothing, at any position and without doubles.
 *
 * The error of cosine and sine with factor 1 is at most 1.25e-7 + |position| 2.1e-19, which is 1.26e-7 at position 2^31.
 * docs/devices.md has the proof.  It holds whether the compiler fuses products and sums or not, but not where it reorders
 * sums (-ffast-math, -cl-unsafe-math-optimizations).
 *
 * All functions are static, take and return values, and need no library but for KERPLE's logarithm and power. */
#ifndef GYRE_DEVICE_H
#define GYRE_DEVICE_H

#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
#define GYRE_DEVICE_OPENCL
#endif
#if defined(GYRE_DEVICE_OPENCL) || defined(__METAL_VERSION__)
typedef ulong gyre_device_u64;
typedef long gyre_device_i64;
#else
#include <stdint.h>
typedef uint64_t gyre_device_u64;
typedef int64_t gyre_device_i64;
#endif

/* Goes before every function. */
#ifndef GYRE_DEVICE_CALL
#if defined(__CUDACC__) || defined(__HIP__)
#define GYRE_DEVICE_CALL static __host__ __device__ __forceinline__
#elif defined(__GNUC__) && !defined(GYRE_DEVICE_OPENCL) && !defined(__METAL_VERSION__)
#define GYRE_DEVICE_CALL static inline __attribute__((unused))
#else
#define GYRE_DEVICE_CALL static inline
#endif
#endif

/* a b + c.  Compilers of devices fuse it, if they are left to. */
#ifndef GYRE_DEVICE_MULTIPLY_ADD
#define GYRE_DEVICE_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* ln(1 + x) and x^y of floats.  gcc and clang call libm. */
#if defined(GYRE_DEVICE_LOG1P) && defined(GYRE_DEVICE_POW)
#elif defined(GYRE_DEVICE_OPENCL)
#define GYRE_DEVICE_LOG1P(x)  log1p(x)
#define GYRE_DEVICE_POW(x, y) pow((x), (y))
#elif defined(__METAL_VERSION__)
#define GYRE_DEVICE_LOG1P(x)  metal::log(1.0f + (x))
#define GYRE_DEVICE_POW(x, y) metal::pow((x), (y))
#elif defined(__CUDACC__) || defined(__HIP__)
#define GYRE_DEVICE_LOG1P(x)  log1pf(x)
#define GYRE_DEVICE_POW(x, y) powf((x), (y))
#else
#define GYRE_DEVICE_LOG1P(x)  __builtin_log1pf(x)
#define GYRE_DEVICE_POW(x, y) __builtin_powf((x), (y))
#endif

/* -- angles -- */

typedef struct gyre_device_angle {
    float cosine, sine;
} gyre_device_angle;

/* out = the phase of a position, which may be negative.  increment: of gyre_encoding_phases. */
GYRE_DEVICE_CALL gyre_device_u64 gyre_device_phase(gyre_device_u64 increment, gyre_device_i64 position) {
    return increment * (gyre_device_u64)position;
}

/* out = cos and sin of phase 2^-64 turns, times the factor: the attention factor, or 1 over it for the inverse. */
GYRE_DEVICE_CALL gyre_device_angle gyre_device_cos_sin(gyre_device_u64 phase, float factor) {
    /* The nearest quarter turn, and the rest in eighths of a turn: y is -1 .. 1. */
    const gyre_device_u64 one = 1, quarter = (phase + (one << 61)) >> 62;
    const gyre_device_i64 rest = (gyre_device_i64)(phase - (quarter << 62));
    const float y = (float)rest * 4.3368086899420177e-19f, z = y * y; /* 2^-61 */
    /* cos(pi / 4 y) = 1 + z (..) within 6e-11, sin(pi / 4 y) = y (..) within 1.3e-9.  The first coefficient of the sine is
     * the sum of two floats. */
    float c = GYRE_DEVICE_MULTIPLY_ADD(z, 3.5313346e-6f, -3.2594200e-4f);
    c = GYRE_DEVICE_MULTIPLY_ADD(z, c, 1.5854327e-2f);
    c = GYRE_DEVICE_MULTIPLY_ADD(z, c, -3.0842513e-1f);
    c = GYRE_DEVICE_MULTIPLY_ADD(z, c, 1.0f);
    float s = GYRE_DEVICE_MULTIPLY_ADD(z, -3.5877260e-5f, 2.4898720e-3f);
    s = GYRE_DEVICE_MULTIPLY_ADD(z, s, -8.0745369e-2f);
    s = GYRE_DEVICE_MULTIPLY_ADD(z, s, 2.6894206e-8f);
    s = GYRE_DEVICE_MULTIPLY_ADD(y, 7.8539813e-1f, y * s);
    const float across = quarter & 1 ? s : c, along = quarter & 1 ? c : s;
    gyre_device_angle out;
    out.cosine = (quarter == 1 || quarter == 2 ? -across : across) * factor;
    out.sine = (quarter >= 2 ? -along : along) * factor;
    return out;
}

/* -- rotation -- */

typedef struct gyre_device_pair {
    float x, y;
} gyre_device_pair;
GYRE_DEVICE_CALL gyre_device_pair gyre_device_pair_of(float x, float y) {
    gyre_device_pair out;
    out.x = x;
    out.y = y;
    return out;
}

/* Layouts of pairs, by the numbers of gyre_layout.  GYRE_LAYOUT_INTERLEAVED_TO_HALF reads INTERLEAVED and writes HALF; its
 * adjoint and its inverse read HALF and write INTERLEAVED. */
#define GYRE_DEVICE_HALF        0
#define GYRE_DEVICE_INTERLEAVED 1
/* out = the channel of member 0 (x) or 1 (y) of a pair, from the first channel that rotates on.  pairs: rope.dim / 2. */
GYRE_DEVICE_CALL int gyre_device_channel(int layout, int pairs, int pair, int member) {
    return layout == GYRE_DEVICE_HALF ? pair + member * pairs : 2 * pair + member;
}

/* out = the pair, rotated.  Its error is at most 1.25e-7 (|x| + |y|) of the angle, and 2^-23 of the length of the pair. */
GYRE_DEVICE_CALL gyre_device_pair gyre_device_rotate(gyre_device_pair in, gyre_device_angle at) {
    return gyre_device_pair_of(GYRE_DEVICE_MULTIPLY_ADD(in.x, at.cosine, -(in.y * at.sine)),
                               GYRE_DEVICE_MULTIPLY_ADD(in.x, at.sine, in.y * at.cosine));
}

/* out = the pair, rotated back.  With the attention factor it is the adjoint, through which gradients go; with 1 over it
 * the inverse. */
GYRE_DEVICE_CALL gyre_device_pair gyre_device_rotate_back(gyre_device_pair in, gyre_device_angle at) {
    at.sine = -at.sine;
    return gyre_device_rotate(in, at);
}

/* -- biases: what is added to the score of a query at m and a key at n -- */

/* out = |m - n|, rounded to float. */
GYRE_DEVICE_CALL float gyre_device_distance(gyre_device_i64 m, gyre_device_i64 n) {
    return (float)(m < n ? n - m : m - n);
}

/* ALiBi.  slope: of gyre_encoding_slopes. */
GYRE_DEVICE_CALL float gyre_device_alibi(float slope, gyre_device_i64 m, gyre_device_i64 n) {
    return -slope * gyre_device_distance(m, n);
}

/* KERPLE with a logarithm, and with a power; r1 and r2 of a head. */
GYRE_DEVICE_CALL float gyre_device_kerple_log(float r1, float r2, gyre_device_i64 m, gyre_device_i64 n) {
    return -r1 * GYRE_DEVICE_LOG1P(r2 * gyre_device_distance(m, n));
}
GYRE_DEVICE_CALL float gyre_device_kerple_power(float r1, float r2, gyre_device_i64 m, gyre_device_i64 n) {
    return -r1 * GYRE_DEVICE_POW(gyre_device_distance(m, n), r2);
}

/* T5, and other schemes with a number or a vector by distance: out = clamp(n - m, -most, most) + most, an index into a table
 * of 2 most + 1 numbers.  Entry d + most of the table is what the trained table has in row gyre_encoding_row(encoding, most,
 * most + d).  most: score.max_distance. */
GYRE_DEVICE_CALL int gyre_device_distance_index(gyre_device_i64 m, gyre_device_i64 n, int most) {
    const gyre_device_i64 d = n - m;
    return (d < -most ? -most : d > most ? most : (int)d) + most;
}

#endif /* GYRE_DEVICE_H */

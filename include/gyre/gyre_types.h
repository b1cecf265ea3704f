/* gyre_types.h: the types that all headers of Gyre share.  gyre.h includes it and states the conventions. */
#ifndef GYRE_TYPES_H
#define GYRE_TYPES_H
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GYRE_API        __attribute__((visibility("default")))
#define GYRE_MUST_CHECK __attribute__((warn_unused_result))
#else
#define GYRE_API
#define GYRE_MUST_CHECK
#endif

/* Initialises a struct that begins with its size: gyre_config config = GYRE_INIT(gyre_config);  An initialiser, for
 * declarations; in C an assignment is: config = (gyre_config)GYRE_INIT(gyre_config); */
#ifdef __cplusplus
template <class type> inline type gyre_init() {
    type value = type();
    value.size = sizeof(type);
    return value;
}
#define GYRE_INIT(type) gyre_init<type>()
#else
#define GYRE_INIT(type)                                                                                                     \
    { .size = sizeof(type) }
/* out = a pointer to such a struct with some fields set, for one call; only in C:
 *     gyre_rotate(rope, GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = x, .out = y), NULL, &err);  */
#define GYRE_ARGS(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gyre_status { /* named after errno: the only enum whose values do not begin with its name */
                           GYRE_OK = 0,
                           GYRE_EINVAL = -1,       /* an argument is outside its documented range */
                           GYRE_ESHAPE = -2,       /* views disagree with each other or with the encoding */
                           GYRE_EDTYPE = -3,       /* this call does not support the element type */
                           GYRE_ENOMEM = -4,       /* the allocator returned NULL, or a scratch buffer is too small */
                           GYRE_EFORMAT = -5,      /* malformed file; gyre_error.offset is the byte where known */
                           GYRE_EIO = -6,          /* the system failed; the text ends with its reason */
                           GYRE_EUNSUPPORTED = -7, /* valid, but not supported by this build or this scheme */
                           GYRE_ERANGE = -8        /* the encoding cannot represent a position */
} gyre_status;

/* A failure, written by the call into memory of the caller: text is "what: why (where)". */
typedef struct gyre_error {
    uint64_t offset;
    char text[504];
} gyre_error;

typedef enum gyre_dtype {
    GYRE_DTYPE_F32,
    GYRE_DTYPE_F16,
    GYRE_DTYPE_BF16,
    GYRE_DTYPE_F64,
    GYRE_DTYPE_I32,
    GYRE_DTYPE_I64,
    GYRE_DTYPE_Q8, /* integers -127 .. 127 with one float scale for each row of a head; only inside a gyre_cache */
    /* ggml's blocks of 32 adjacent channels, only for keys and values of gyre_attention, _slice, _prepared_attention and
     * _paged_attention: an f16 scale d, then 32 bytes q (34 bytes, q d), or 16 bytes of two halves q each (18 bytes,
     * (q - 8) d; low halves are channels 0 .. 15).  Shapes and strides count channels: channels are a multiple of 32,
     * stride[3] is 1, and the others are multiples of 32.  Without alignment. */
    GYRE_DTYPE_Q8_0,
    GYRE_DTYPE_Q4_0
} gyre_dtype;

/* How the channels of a head form the pairs (x, y) that rotate; shown for 8 rotated channels, pairs a b c d. */
typedef enum gyre_layout {
    GYRE_LAYOUT_HALF,               /* [ax bx cx dx ay by cy dy]  Hugging Face's Llama */
    GYRE_LAYOUT_INTERLEAVED,        /* [ax ay bx by cx cy dx dy]  GPT-J; Llama's rows in a GGUF */
    GYRE_LAYOUT_INTERLEAVED_TO_HALF /* reads interleaved, writes half: DeepSeek-V3 */
} gyre_layout;

/* The keys that a query sees. */
typedef enum gyre_causal {
    GYRE_CAUSAL_NONE,        /* all */
    GYRE_CAUSAL_BY_POSITION, /* keys at positions not above its own */
    GYRE_CAUSAL_BY_ORDER     /* query t of n sees keys 0 .. t + keys - n, whatever their positions; window counts tokens
                              * too.  Padding counts in n and keys, unless q_end of gyre_attention_batch is set.  For
                              * positions that do not increase with the token: all patches of an image share one time. */
} gyre_causal;

/* The scalings of RoPE.  theta[i] = base^(-2 i / dim), s = factor, L = trained_length, n = the context length in use,
 * wavelength = 2 pi / theta, g(s) = 0.1 ln s + 1. */
typedef enum gyre_scaling {
    GYRE_SCALING_NONE,           /* theta[i] */
    GYRE_SCALING_LINEAR,         /* theta[i] / s: position interpolation, arXiv 2306.15595 */
    GYRE_SCALING_NTK,            /* base * s^(dim / (dim - 2)): NTK-aware base (bloc97, 2023) */
    GYRE_SCALING_DYNAMIC_NTK,    /* base * (s max(n, L) / L - (s - 1))^(dim / (dim - 2)): "dynamic" in transformers */
    GYRE_SCALING_BY_PARTS,       /* keep fast pairs, divide slow ones by s, blend between.  The ramp is over the pair index
                                  * and is clamped as in YaRN's released code, which also divides fast pairs if even the
                                  * slowest makes more than beta_fast revolutions: base 2, dim 64, L 2048 divides all */
    GYRE_SCALING_BY_PARTS_PAPER, /* the ramp is over the revolutions within L: YaRN's text, arXiv 2309.00071, eq. 17-20 */
    GYRE_SCALING_YARN,           /* BY_PARTS with an attention factor of g(s) */
    GYRE_SCALING_LLAMA3,         /* keep wavelengths below L / high_freq, divide those above L / low_freq, blend between */
    GYRE_SCALING_LONGROPE,       /* theta[i] / short_factor[i] while n <= L, / long_factor[i] past it: arXiv 2402.13753 */
    GYRE_SCALING_PROPORTIONAL,   /* the first `proportion` of the pairs rotate (divided by s), the others do not: Gemma 4 */
    GYRE_SCALING_NTK_MIXED,      /* theta[i] / exp(a (i + 1)^b), a (dim / 2)^b = ln s, b = mixed_exponent: kexue.fm 9706 */
    GYRE_SCALING_DYNAMIC_YARN,   /* YARN with s = max(n, L) / L in place of factor (jquesnelle/yarn, 2023) */
    GYRE_SCALING_RIFLEX,      /* one axis of a video: one pair gets 0.9 2 pi / (s L), so that it makes less than a turn, the
                               * others are kept: RIFLEx's released code, arXiv 2502.15894.  Only in gyre_axis_config */
    GYRE_SCALING_RIFLEX_PAPER /* 2 pi / (s L): its text, eq. 8 */
} gyre_scaling;

typedef enum gyre_role { GYRE_ROLE_QUERY, GYRE_ROLE_KEY } gyre_role;

typedef struct gyre_view {
    void *data; /* NULL = not wanted, if documented at the field; else needed, unless the shape has a 0 */
    gyre_dtype dtype;
    int64_t shape[4];  /* elements; 0 = no element, so nothing to do if other views agree (else ESHAPE) */
    int64_t stride[4]; /* elements; 0 = one element for all, only for reading (EINVAL for writing) */
} gyre_view;
/* As gyre_view; nothing is written through it. */
typedef struct gyre_cview {
    const void *data; /* NULL = none, if documented at the field; else needed, unless the shape has a 0 */
    gyre_dtype dtype;
    int64_t shape[4];  /* 0 = no element */
    int64_t stride[4]; /* 0 = one element for all: broadcasting */
} gyre_cview;

/* Position of token t of batch row b.  Calls that take a pointer to positions need them: NULL is EINVAL.
 *     data NULL     base + t, in every row.  All fields zero: 0, 1, 2, ...
 *     data          data[b * stride_batch + t * stride_token], I32 or I64
 * A stride_token of 0 over more than one token is EINVAL, because it is seldom intended: set one_position = 1 for it.
 * Positions may be negative.  A magnitude above 2^31 is ERANGE.
 * context_length: the context length in use, for schemes whose frequencies or slopes depend on it; 0 = the encoding's own.
 * If that is open too (config.context_length 0), a position past trained_length is EINVAL, not silently unscaled.
 * Encodings with several axes (rope.axes) read axis a at data[... + a * stride_axis].  With data NULL all axes are base +
 * t, as for text.  Biases, temperature and masks read only axis 0. */
typedef struct gyre_positions {
    const void *data;       /* NULL = base + t */
    gyre_dtype dtype;       /* of data: I32 or I64; 0 = F32, refused beside data (EDTYPE): needed with data */
    int64_t base;           /* without data: of token 0; 0 = position 0, in attention over a cache the last tokens */
    int64_t context_length; /* 0 = the encoding's own */
    int64_t stride_batch;   /* 0 = all rows share their positions */
    int64_t stride_token;   /* needed with data of several tokens, unless one_position is set */
    int64_t stride_axis;    /* 0 = all axes have the position of axis 0 */
    int one_position;       /* 1 = all tokens of a row are at data[b * stride_batch]; stride_token is 0 */
} gyre_positions;

/* alloc: returns `bytes` aligned to `align`, a power of two, or NULL.  free: takes what alloc returned, or NULL. */
typedef struct gyre_alloc {
    void *(*alloc)(void *ctx, size_t bytes, size_t align); /* needed */
    void (*free)(void *ctx, void *memory);                 /* needed */
    void *ctx;                                             /* of both; NULL = none */
} gyre_alloc;

/* The caller's parallel loop.  run calls fn(arg, i) once for each i in 0 .. n - 1, in any order, on any threads, and returns
 * when all are done.  concurrency: at most this many calls run at once, which sizes scratch memory. */
typedef struct gyre_exec {
    void (*run)(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n); /* NULL = only the calling thread */
    void *ctx;                                                                      /* of run; NULL = none */
    int64_t concurrency;                                                            /* 0 = 1 */
} gyre_exec;

/* One of several calls that together are one: for a program that runs each operation on all of its threads, as (ith, nth).
 * A slice runs on the calling thread.  Slices may run at once and in any order, and no two share what they write. */
typedef struct gyre_slice {
    int64_t index; /* 0 .. count - 1; 0 = the first */
    int64_t count; /* needed */
} gyre_slice;

/* Memory for the duration of a call: 64-byte aligned, disjoint from everything that the call reads and writes.  The call
 * of the same name with _scratch returns its size. */
typedef struct gyre_scratch {
    void *memory;
    size_t bytes; /* 0 = none: ENOMEM if the call needs any */
} gyre_scratch;

#ifdef __cplusplus
}
#endif
#endif /* GYRE_TYPES_H */

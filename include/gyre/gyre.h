/* gyre.h: position encodings and position-aware attention for Transformers.
 *
 * Attention does not see order.  A position encoding puts it back at one of four places, and one immutable object,
 * gyre_encoding, says what a scheme does at each of them:
 *
 *     input          x_m += p_m                       gyre_add_input
 *     query and key  q_m -> E(m) q_m, k_n -> E(n) k_n  gyre_rotate
 *     score          s_mn += b(h, m, n)               gyre_add_bias
 *                    s_mn += q_m . A[r] + k_n . B[r]  gyre_attention
 *     value          o_m += sum_n a_mn V[r]           gyre_attention
 *     all of them    in one pass, never n x n         gyre_attention
 *     ... over keys and values that are kept           gyre_cache, gyre_cache_attention
 *
 * Conventions.  Shapes are [batch, token, head, channel]; strides count elements and may have any value, zero and
 * negative ones too; only a view that is written must not have stride 0 over more than one element (EINVAL).  A call
 * with no element to write does nothing, and is OK.  Views never own memory.  An encoding never changes after
 * creation: share it between threads freely.  Only *_create, *_open and *_load allocate.  A call that fails leaves its
 * outputs as they were.  Results do not depend on the number of threads, to the last bit.  NULL exec: the calling thread
 * alone.  NULL alloc: malloc.  The processor's best instructions are used; GYRE_CPU=scalar, avx2, avx512, ... in the
 * environment asks for lower ones (read by gyre_encoding_create, and by attention without an encoding), which may change
 * last bits. */
#ifndef GYRE_H
#define GYRE_H
#include <stddef.h>
#include <stdint.h>

#define GYRE_VERSION_MAJOR 0
#define GYRE_VERSION_MINOR 1
#define GYRE_VERSION_PATCH 0

#if defined(__GNUC__)
#define GYRE_API        __attribute__((visibility("default")))
#define GYRE_MUST_CHECK __attribute__((warn_unused_result))
#else
#define GYRE_API
#define GYRE_MUST_CHECK
#endif

/* A struct that begins with its size, all other fields zero, which are their defaults: gyre_config c = GYRE_INIT(gyre_config); */
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
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -- status -- */
typedef enum gyre_status {
    GYRE_OK = 0,
    GYRE_EINVAL = -1,       /* an argument is outside its documented range */
    GYRE_ESHAPE = -2,       /* views disagree with each other or with the encoding */
    GYRE_EDTYPE = -3,       /* element type not supported by this call */
    GYRE_ENOMEM = -4,       /* the allocator returned NULL, or a scratch buffer is too small */
    GYRE_EFORMAT = -5,      /* malformed file; gyre_error.offset is the byte where known */
    GYRE_EIO = -6,          /* the system failed: the text ends with its reason */
    GYRE_EUNSUPPORTED = -7, /* valid, but not something this build or this scheme does */
    GYRE_ERANGE = -8        /* a position this encoding cannot represent */
} gyre_status;

/* Where a call that can fail for many reasons writes which one: "what: why (where)".  The caller owns it. */
typedef struct gyre_error {
    uint64_t offset;
    char text[504];
} gyre_error;

/* out = a short static English text, never NULL. */
GYRE_API const char *gyre_status_text(gyre_status status);
/* out = "MAJOR.MINOR.PATCH" of the library that is linked, static. */
GYRE_API const char *gyre_version(void);

/* -- memory the caller owns, described -- */
typedef enum gyre_dtype {
    GYRE_DTYPE_F32,
    GYRE_DTYPE_F16,
    GYRE_DTYPE_BF16,
    GYRE_DTYPE_F64,
    GYRE_DTYPE_I32,
    GYRE_DTYPE_I64,
    GYRE_DTYPE_Q8 /* whole numbers -127 .. 127 times a float that each row of a head has of its own: in a gyre_cache alone */
} gyre_dtype;

/* out = bytes of one element; 0 for a value that is no dtype. */
GYRE_API size_t gyre_dtype_size(gyre_dtype dtype);

typedef struct gyre_view {
    void *data;
    gyre_dtype dtype;
    int64_t shape[4], stride[4];
} gyre_view;
typedef struct gyre_cview {
    const void *data;
    gyre_dtype dtype;
    int64_t shape[4], stride[4];
} gyre_cview;

/* out = a view of dense [batch, token, head, channel] memory. */
GYRE_API gyre_view gyre_dense(void *data, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads, int64_t channels);
GYRE_API gyre_cview gyre_cdense(const void *data, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads,
                                int64_t channels);
/* out = the same memory, read only. */
GYRE_API gyre_cview gyre_const(gyre_view view);

/* The position of token t of batch row b: data[b * stride_batch + t * stride_token] (I32 or I64), or base + t for
 * every row where data is NULL.  Any sign; magnitude up to 2^31, past it GYRE_ERANGE.  All zeros: 0, 1, 2, ...
 * length: the context length in use, for schemes whose frequencies depend on it; 0 = the encoding's own.
 * Encodings with several axes (rope.axes) read axis a of it at data[... + a * stride_axis]; where data is NULL all axes are
 * base + t, as for text.  What knows one axis alone (biases, temperature, masks by position) reads axis 0. */
typedef struct gyre_positions {
    const void *data;
    gyre_dtype dtype;
    int64_t base, context_length, stride_batch, stride_token, stride_axis;
} gyre_positions;
/* out[b * tokens + t] = the position of token t of row b by mask (nonzero = a token, 0 = padding; dense [batch][tokens]):
 * how many tokens stand before it, and -1 for padding, which a learned table with an offset keeps a row for: what RoBERTa
 * (offset padding_idx + 1), OPT and M2M100 do.  Aliasing: none.  EINVAL for missing memory or extents below 0. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_positions_from_mask(const unsigned char *mask, int64_t batch, int64_t tokens,
                                                              int64_t *out);

/* alloc: `bytes` aligned to `align` (a power of two), or NULL.  free: takes what alloc gave, or NULL. */
typedef struct gyre_alloc {
    void *(*alloc)(void *ctx, size_t bytes, size_t align);
    void (*free)(void *ctx, void *memory);
    void *ctx;
} gyre_alloc;

/* The caller's parallel-for: run calls fn(arg, i) once for each i in 0..n-1, in any order, on any threads, and
 * returns when all are done.  width: the most calls that may be under way at once (sizes scratch memory); 0 = 1. */
typedef struct gyre_exec {
    void (*run)(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n);
    void *ctx;
    int64_t concurrency;
} gyre_exec;

/* A ready-made gyre_exec over `threads` threads that sleep between calls (0 = one per processor; at most 1024). EUNSUPPORTED
 * for more than one where there are none (WebAssembly). */
typedef struct gyre_pool gyre_pool;
GYRE_API GYRE_MUST_CHECK gyre_status gyre_pool_create(gyre_pool **out, int threads, gyre_error *err);
GYRE_API void gyre_pool_free(gyre_pool *pool); /* NULL is fine */
GYRE_API gyre_exec gyre_pool_exec(gyre_pool *pool);

/* -- an encoding, completely described -- */
typedef enum gyre_kind {
    GYRE_KIND_NOPE,           /* no positions */
    GYRE_KIND_LEARNED,        /* at the input: a trained table (Gehring 2017, GPT-2) */
    GYRE_KIND_SINUSOIDAL,     /* at the input: Vaswani 2017, arXiv 1706.03762 */
    GYRE_KIND_ROPE,           /* on query and key: Su 2021, arXiv 2104.09864 */
    GYRE_KIND_ALIBI,          /* a number on each score: Press 2021, arXiv 2108.12409 */
    GYRE_KIND_T5,             /* a trained number for each bucket of distances: Raffel 2019, arXiv 1910.10683 */
    GYRE_KIND_KERPLE,         /* a trained decay of the score with distance: Chi 2022, arXiv 2205.09921 */
    GYRE_KIND_SHAW,           /* trained vectors for clipped distances, on keys and values: Shaw 2018, arXiv 1803.02155 */
    GYRE_KIND_NEZHA,          /* the same with a fixed sinusoid: Wei 2019, arXiv 1909.00204 */
    GYRE_KIND_BERT,           /* trained vectors for every distance: transformers' relative_key and relative_key_query */
    GYRE_KIND_DEBERTA,        /* content to position and back, a table per head: He 2020, arXiv 2006.03654; v3: 2111.09543 */
    GYRE_KIND_TRANSFORMER_XL, /* (q + u) . k + (q + v) . r: Dai 2019, arXiv 1901.02860; the caller projects r, a table per
                                 head */
    GYRE_KIND_FIRE,           /* a small network of the distance over the position: Li 2023, arXiv 2310.04418 */
    GYRE_KIND_SANDWICH        /* the product of two sinusoids, a decay nobody trains: Chi 2022, arXiv 2212.10356 */
} gyre_kind;
enum { GYRE_MAX_AXES = 4 };
enum { GYRE_NO_TABLE = -1 }; /* of rope.table_positions: angles are computed in every call */
enum { GYRE_PLACE_INPUT = 1, GYRE_PLACE_QUERY_KEY = 2, GYRE_PLACE_SCORE = 4, GYRE_PLACE_VALUE = 8 };

/* theta_i = base^(-2 i / dim), s = factor, L = trained_length, n = the length in use, wavelength = 2 pi / theta. */
typedef enum gyre_scaling {
    GYRE_SCALING_NONE,           /* theta_i */
    GYRE_SCALING_LINEAR,         /* theta_i / s: position interpolation, arXiv 2306.15595 */
    GYRE_SCALING_NTK,            /* base * s^(dim / (dim - 2)): the fixed NTK-aware base (bloc97, 2023) */
    GYRE_SCALING_DYNAMIC_NTK,    /* base * (s max(n, L) / L - (s - 1))^(dim / (dim - 2)): transformers' "dynamic" */
    GYRE_SCALING_BY_PARTS,       /* keep fast pairs, divide slow ones by s, blend between; ramp in pair index, clamped as in
                                  * YaRN's released code, which divides fast pairs too where even the slowest makes more than
                                  * beta_fast turns: base 2, dim 64, L 2048 divides all */
    GYRE_SCALING_BY_PARTS_PAPER, /* the same with the ramp in turns made over L, as YaRN's text (arXiv 2309.00071, eq.
                                  * 17-20) */
    GYRE_SCALING_YARN,           /* GYRE_SCALING_BY_PARTS and an attention factor of 0.1 ln s + 1 */
    GYRE_SCALING_LLAMA3,   /* keep below wavelength L / high_freq, divide above L / low_freq, blend between (Llama 3.1) */
    GYRE_SCALING_LONGROPE, /* theta_i / short_factor_i while n <= L, / long_factor_i past it: arXiv 2402.13753 */
    GYRE_SCALING_PROPORTIONAL, /* the first `proportion` of the pairs turn (divided by s), the rest stand still (Gemma 4) */
    GYRE_SCALING_NTK_MIXED,    /* theta_i / exp(a (i + 1)^b), a (dim / 2)^b = ln s, b = mixed_exponent (Su, kexue.fm 9706) */
    GYRE_SCALING_DYNAMIC_YARN  /* GYRE_SCALING_YARN with s = max(n, L) / L in place of the factor (jquesnelle/yarn, 2023) */
} gyre_scaling;

/* Pairs (i, i + dim/2), or (2i, 2i + 1), or read at (2i, 2i + 1) and written to (i, i + dim/2), as DeepSeek-V3 does. */
typedef enum gyre_layout { GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_INTERLEAVED_TO_HALF } gyre_layout;
/* How the pairs of a rotation with several axes are dealt out; section[a] = pairs of axis a, dim / 2 in all. */
typedef enum gyre_axes {
    GYRE_AXES_CHUNKED,     /* the first section[0] pairs to axis 0, the next to axis 1, ...: Qwen2-VL's M-RoPE */
    GYRE_AXES_INTERLEAVED, /* pair i < 3 section[i % 3] to axis i % 3, the rest to axis 0: Qwen3-VL's; three axes */
    GYRE_AXES_AXIAL        /* as chunked, and each axis counts its own frequencies, base^(-i / section): 2-D images;
                            * GYRE_SCALING_NONE and GYRE_SCALING_LINEAR alone */
} gyre_axes;
/* What a pair of query and key turns by at distance `window` and more (causal attention only; nearer, as trained). */
typedef enum gyre_far {
    GYRE_FAR_AS_NEAR,
    GYRE_FAR_CLAMPED, /* window: ReRoPE (Su, kexue.fm 9708) */
    GYRE_FAR_LEAKY,   /* window + (distance - window) / far_factor: leaky ReRoPE */
    GYRE_FAR_GROUPED  /* floor(m / G) - floor(n / G) + window - floor(window / G), G = far_factor: Self-Extend, 2401.01325 */
} gyre_far;
/* What a query at position m is multiplied by, before its scores; 1 where m is below 0. */
typedef enum gyre_temperature {
    GYRE_TEMPERATURE_NONE,
    GYRE_TEMPERATURE_LOG,      /* max(1, ln(m + 1) / ln(length)): log-n scaling (Su, kexue.fm 8823; Chiang 2022) */
    GYRE_TEMPERATURE_LLAMA4,   /* 1 + slope ln(1 + floor((m + 1) / length)) */
    GYRE_TEMPERATURE_MINISTRAL /* 1 + slope ln(1 + floor(m / length)) */
} gyre_temperature;
/* What the length in use is in attention, where frequencies depend on it (dynamic NTK, dynamic YaRN, LongRoPE) and a call
 * names none (positions.context_length 0).  Each sequence of a batch has its own. */
typedef enum gyre_length_policy {
    GYRE_LENGTH_POLICY_DECLARED, /* the encoding's own, one for the whole run: keys may be kept rotated */
    GYRE_LENGTH_POLICY_CAUSAL,   /* of a query at m, for itself and for every key that it sees: m + 1, up to a multiple of
                                  * rope.length_block.  No token meets a frequency of its future, so decoding token by token
                                  * equals   reading the whole prefix, through all layers.  Keys are kept raw and turned when
                                  * read */
    GYRE_LENGTH_POLICY_PREFIX    /* of all queries of a call: the highest position of theirs, + 1, as transformers has it.
                                  * Decoding    equals one attention over the whole prefix given the same inputs, but deeper
                                  * layers    remember    shorter lengths.  Keys are kept raw */
} gyre_length_policy;
/* How position x frequency and its cos and sin are computed. */
typedef enum gyre_angle_path {
    GYRE_ANGLE_PATH_EXACT, /* as the errors stated below have it: right at any position */
    GYRE_ANGLE_PATH_TORCH  /* frequencies, their product with the position, cos and sin in float, operation by operation as
                            * transformers has PyTorch do it on a CPU with FMA, to the last bit: what models were trained
                            * with.  Off by position x 2^-25 and more.  Needs a build with SLEEF */
} gyre_angle_path;
typedef enum gyre_sinusoid {
    GYRE_SINUSOID_INTERLEAVED, /* sin, cos, sin, cos; exponent 2i / dim */
    GYRE_SINUSOID_SIN_COS,     /* all sines, then all cosines; exponent 2i / dim */
    GYRE_SINUSOID_SIN_COS_T2T, /* concatenated with exponent i / (dim/2 - 1); an odd last channel is 0 */
    GYRE_SINUSOID_COS_SIN,     /* all cosines, then all sines; exponent 2i / dim */
    GYRE_SINUSOID_COS_SIN_T2T  /* all cosines, then all sines; exponent i / (dim/2 - 1): MusicGen */
} gyre_sinusoid;

typedef enum gyre_decay { GYRE_DECAY_LOG, GYRE_DECAY_POWER } gyre_decay; /* -r1 ln(1 + r2 d) or -r1 d^r2, d = |m - n| */
/* Which sides have a table: q . A[r] (Shaw's keys, DeBERTa's content to position), k . B[r] (BERT's relative_key_query,
 * DeBERTa's position to content), sum a V[r] (Shaw's values). */
enum { GYRE_TERM_QUERY = 1, GYRE_TERM_KEY = 2, GYRE_TERM_VALUE = 4 };

/* Every zero means the field's own default, so GYRE_CONFIG_INIT plus the fields that matter is a whole config. */
typedef struct gyre_config {
    size_t size; /* set by GYRE_CONFIG_INIT; any other is EINVAL: a program built with another version's header */
    gyre_kind kind;
    int64_t head_dim;       /* channels of a head; needed by GYRE_KIND_ROPE and by schemes with vectors */
    int64_t heads;          /* query heads; needed where each has its own slope, number or table */
    int64_t trained_length; /* tokens; needed by the scalings that speak of L */
    struct gyre_input_config {
        int64_t dim;       /* channels added to (the model's width); needed by GYRE_KIND_LEARNED and GYRE_KIND_SINUSOIDAL */
        int64_t positions; /* rows of the learned table: positions -offset .. positions - offset - 1 */
        gyre_sinusoid layout; /* of the sinusoid */
        double base;          /* of the sinusoid; 0 = 10000 */
        int64_t offset;       /* position m has row m + offset, or the sinusoid of m + offset.  The rows before it are
                               * positions -offset .. -1, of which -1 is padding: BART, OPT and RoBERTa 2 */
        int zero_padding;     /* sinusoid: 1 = position -1, which is padding, has zeros: M2M100 */
        double scale;         /* multiplies what is added; 0 = 1 */
        int trained_scale;    /* sinusoid: 1 = and so does the one number of the input table, trained: Li 2018, 1809.08895 */
        int64_t resized_length; /* learned: the table, trained for positions 0 .. n - 1 (n = positions - offset), serves 0 ..
                                 * length - 1, more than n or fewer; 0 = n, with hierarchy n^2 (at most 2^31 - 1) */
        double hierarchy; /* learned, length up to n^2: alpha in (0, 1), position i n + j has p_j + alpha / (1 - alpha) (p_i
                           * - p_0) (Su, kexue.fm 7947: 0.4); 0 = the n rows are stretched over the length linearly, the
                           * first and last staying at the ends.  Rows before the offset stay as they are */
    } input;
    struct gyre_rope_config {
        int64_t dim;           /* rotated channels (even); 0 = head_dim - first; the rest pass through */
        int64_t first_channel; /* the channel where they begin */
        gyre_layout layout;
        int clockwise; /* 1 = pairs turn by minus the angle (nanochat) */
        gyre_scaling scaling;
        int64_t context_length;        /* context length in use where a call names none; 0 = trained_length */
        int64_t table_positions;       /* cos and sin of positions 0 .. this - 1 are kept once they are needed, in memory
                                        * taken at creation: dim floats a position, and with malloc, whose pages cost nothing
                                        * until then, dim doubles for rows of F64; 0 = up to the lengths above (32768 where
                                        * none is said), at most 64 MiB of floats, and none with an allocator of one's own;
                                        * GYRE_NO_TABLE */
        double base;                   /* > 1; 0 = 10000 */
        double factor;                 /* s >= 1; 0 = 1 */
        double attention_factor;       /* of cos and sin, so its square of scores; 2^-64 .. 2^64, 0 = the scaling's */
        double mscale, mscale_all_dim; /* yarn: both set, factor = g(mscale) / g(mscale_all_dim) */
        double beta_fast, beta_slow;   /* turns over L above which a pair is kept, below which divided; 0 = 32, 1 */
        double low_freq, high_freq;    /* llama3; 0 = 1, 4 */
        double proportion;             /* proportional: share of the pairs that turn; 0 = 1 */
        double mixed_exponent;         /* NTK-mixed; 0 = 0.625 */
        int resonance; /* 1 = every wavelength, once scaled, is rounded to a whole number of positions (2403.00071) */
        int fractional_bounds; /* yarn and by-parts: 1 = do not round the ramp's ends ("truncate": false) */
        const double *short_factor, *long_factor; /* longrope, [dim / 2] each, at least 2^-10; copied */
        double xpos_base;    /* at least 4: xPos, q times zeta^((m - xpos_center) / xpos_base) and k divided by it, zeta_i =
                              * (2 i + 0.4 dim) / (1.4 dim) for pair i; causal attention only: Sun 2022, arXiv 2212.10554,
                              * 512; 0 = none.  One axis */
        int64_t xpos_center; /* where those are 1, within 2^31 of 0; scores do not depend on it */
        int64_t axes;        /* 0 = 1, at most GYRE_MAX_AXES */
        gyre_axes axes_layout;
        int64_t axis_pairs[4]; /* pairs of each axis, dim / 2 in all; needed where there are several */
        gyre_far far;
        int64_t far_window; /* far: distances below it are as trained; needed */
        double far_factor;  /* leaky: 2^-10 .. 2^32; grouped: a whole number, 1 .. 2^32; needed by both */
        gyre_angle_path angles;
        gyre_length_policy length_policy;
        int64_t length_block; /* causal: 0 = 64 */
    } rope;
    struct gyre_query_config {
        gyre_temperature temperature;
        int64_t reference_length; /* 0 = trained_length */
        double slope;             /* 0 = 0.1 */
    } query;
    struct gyre_score_config {
        const double *slopes;       /* ALiBi, [heads], within 2^64 of 0; NULL = the paper's; copied */
        const double *slopes_after; /* ALiBi: those for keys after the query; NULL = the same; copied */
        double max_bias;       /* ALiBi: the paper's slopes end at 2^-max_bias (MPT's alibi_bias_max); 0 = 8; no matter where
                                 slopes are given */
        int before_scale;      /* ALiBi: 1 = slopes are divided by sqrt(head_dim), as where the bias comes before the scale:
                                 Falcon */
        int64_t buckets;       /* T5: rows of the table, even; needed */
        int64_t max_distance;  /* distances of this and more count as one: T5 (0 = 128), NeZha (0 = 64), Shaw, DeBERTa and
                               * Transformer-XL (clamp_len; needed by all three) */
        int64_t max_positions; /* BERT: positions 0 .. max_positions - 1; needed */
        int64_t position_buckets; /* DeBERTa: log buckets a side, even; 0 = none (v1) */
        int bidirectional;    /* T5: 1 = half the buckets for keys after the query; Transformer-XL: 1 = rows for those too */
        int64_t hidden_units; /* FIRE: of each head's network, at most 256; 0 = 32 */
        int64_t sinusoid_dim; /* Sandwich: channels of the sinusoid, even, at most 65536; 0 = 128 */
        unsigned terms;       /* GYRE_TERM_*; 0 = BERT: query; the others: all that the scheme knows */
        gyre_decay decay;     /* KERPLE */
    } score;
} gyre_config;

/* out = "nope", "learned", ...: how the command and config.json spell the kind; NULL past the last.  Kinds count from 0. */
GYRE_API const char *gyre_kind_name(gyre_kind kind);
/* Fills in what config->kind needs and config leaves at zero, as the papers have it, from head_dim, heads, trained_length
 * and input.dim: a learned table of trained_length rows, T5's 32 buckets, Shaw's distances, ...  Never touches what is set.
 * EINVAL for no config or a kind that is none. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_config_suggest(gyre_config *config);

typedef struct gyre_encoding gyre_encoding;

/* *out = the encoding that config describes, or a status and err (may be NULL) naming the field and its value.
 * Copies everything it needs.  Errors: EINVAL, ENOMEM, EUNSUPPORTED (GYRE_ANGLE_PATH_TORCH without SLEEF, or of a scaling
 * that transformers has not). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_create(gyre_encoding **out, const gyre_config *config,
                                                          const gyre_alloc *alloc, gyre_error *err);
GYRE_API void gyre_encoding_free(gyre_encoding *encoding); /* NULL is fine */
/* out = the config it was made from, defaults filled in; valid as long as the encoding.  A derived attention_factor stays 0,
 * so that a changed copy derives its own: gyre_encoding_frequencies tells the number.  So does an input.resized_length of
 * 0. */
GYRE_API const gyre_config *gyre_encoding_get_config(const gyre_encoding *encoding);
/* out = the set of GYRE_PLACE_* where it acts. */
GYRE_API unsigned gyre_encoding_places(const gyre_encoding *encoding);
/* inv_freq[i] = radians per position of pair i, i < rope.dim / 2; *attention_factor = what multiplies cos and sin.
 * At context `length` (0 = the encoding's own).  Either pointer may be NULL.  Errors: EINVAL for a length < 0,
 * EUNSUPPORTED where the encoding rotates nothing. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_frequencies(const gyre_encoding *encoding, int64_t length,
                                                               double *inv_freq, double *attention_factor);
/* How a scaling treats the pairs of a rotation: kept as trained, divided by the factor (or stopped), blended. */
typedef struct gyre_scaling_parts {
    int64_t kept, blended, divided;
} gyre_scaling_parts;
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_scaling_parts(const gyre_encoding *encoding, int64_t length,
                                                                 gyre_scaling_parts *out);
/* slopes[h] = ALiBi's slope of head h, h < heads.  EUNSUPPORTED for other kinds. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_slopes(const gyre_encoding *encoding, double *slopes);

/* -- trainable tables: the caller's memory -- */
typedef enum gyre_table {
    GYRE_TABLE_INPUT, /* [1, 1, positions, dim]: added at the input; of input.trained_scale [1, 1, 1, 1]: the number */
    GYRE_TABLE_QUERY, /* A, [1, 1 or heads, rows, head_dim]: s += scale q . A[r] */
    GYRE_TABLE_KEY,   /* B, as A: s += scale k . B[r] */
    GYRE_TABLE_VALUE, /* V, as A: o += sum of a V[r]; the values have head_dim channels too */
    GYRE_TABLE_BIAS,  /* [1, 1, rows, heads]: T5: s += row r(m, n); KERPLE: row 0 is r1, row 1 is r2; FIRE, w = score.width:
                       * row 0 is c, row 1 the threshold L (both by magnitude), rows 2 .. w + 1 the weights of the hidden
                       * units, the next w their  biases, the next w what they add to the score, the last its bias; a head has
                       * a network of its own,  so one that all heads share stands in every column, and its gradient is their
                       * sum */
    GYRE_TABLE_CONTENT_BIAS, /* u, [1, heads, 1, head_dim]: s += scale u . k */
    GYRE_TABLE_POSITION_BIAS /* v, as u: s += scale v . A[r] */
} gyre_table;
/* A view of F32 or F64 each, data NULL where the scheme has none.  query and key may be one memory, as in BERT. */
typedef struct gyre_tables {
    gyre_cview input, query, key, value, bias, content_bias, position_bias;
} gyre_tables;
/* Accumulated into, never cleared.  Attention leaves out a table whose data is NULL here; query and key may be one
 * memory. */
typedef struct gyre_table_gradients {
    gyre_view input, query, key, value, bias, content_bias, position_bias;
    gyre_view sink_logits; /* of attention (gyre_attention_args), no table of the encoding */
} gyre_table_gradients;
/* shape[] = that of a table; all zeros where the scheme has none.  EINVAL for a value that names no table. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_table_shape(const gyre_encoding *encoding, gyre_table which,
                                                               int64_t shape[4]);
/* *row = the row r(m, n) of the query, key, value or bias table for a query at m and a key at n.  Errors: EUNSUPPORTED where
 * no table is indexed so, ERANGE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_row(const gyre_encoding *encoding, int64_t m, int64_t n, int64_t *row);

/* For who trains the tables: what the papers make the rows of the vector tables (query, key and value) of. */
typedef enum gyre_row_source {
    GYRE_ROW_SOURCE_FREE,      /* each table is trained as it is: Shaw */
    GYRE_ROW_SOURCE_SHARED,    /* so is the one table that query and key share: BERT */
    GYRE_ROW_SOURCE_PROJECTED, /* row r of head h = W_h P[r], a W for each table; P is trained, all layers share it:
                                * DeBERTa */
    GYRE_ROW_SOURCE_SINUSOID   /* the same, P[r] fixed: sines, then cosines, of the distance m - n: Transformer-XL */
} gyre_row_source;
/* out = that of the scheme; GYRE_ROW_SOURCE_FREE where it has no such tables, or encoding is NULL. */
GYRE_API gyre_row_source gyre_encoding_row_source(const gyre_encoding *encoding);
/* One number of a table: training begins at a draw from normal(start, deviation) and stays within least .. most. */
typedef struct gyre_table_entry {
    double initial_mean, initial_deviation, minimum, maximum;
} gyre_table_entry;
/* *out = entry [0, head, row, channel] of a table.  EINVAL where there is none. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_table_entry(const gyre_encoding *encoding, gyre_table which, int64_t head,
                                                               int64_t row, int64_t channel, gyre_table_entry *out);

/* -- the places, one by one -- */
/* out[b, t, 0, :] = in[b, t, 0, :] + p(position of t).  Views [batch, token, 1, dim] of F32, F16, BF16 or F64, both the same
 * type; computed in double and rounded once.  But what F32, F16 and BF16 get from a row of a float table as it is, or from a
 * sinusoid of up to 8192 channels, is a float, and added in float.  in == out allowed, other overlap not.  tables may be
 * NULL where the scheme trains none at the input.  Errors: EUNSUPPORTED (the scheme adds nothing at the input), EINVAL (an
 * argument, memory or the table is missing), ESHAPE, EDTYPE, ERANGE (a position outside the learned table, or past 2^31). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_add_input(const gyre_encoding *encoding, const gyre_tables *tables,
                                                    const gyre_positions *positions, const gyre_cview *in,
                                                    const gyre_view *out, const gyre_exec *exec, gyre_error *err);
/* gradients.input += the gradient of a loss to the input table, given dout: each row that p(position of t) is made of gets
 * its share of dout[b, t, 0, :], in token order; the number of a trained scale gets dout . (what it multiplies), summed in
 * fixed blocks of tokens.  The gradient to `in` is dout itself.  Where the scheme has no input table there is nothing to do:
 * gradients are not looked at.  Errors as gyre_add_input. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_add_input_gradient(const gyre_encoding *encoding, const gyre_positions *positions,
                                                             const gyre_cview *dout, const gyre_table_gradients *gradients,
                                                             const gyre_exec *exec, gyre_error *err);

typedef enum gyre_direction { GYRE_DIRECTION_FORWARD, GYRE_DIRECTION_INVERSE, GYRE_DIRECTION_ADJOINT } gyre_direction;
typedef enum gyre_role { GYRE_ROLE_QUERY, GYRE_ROLE_KEY } gyre_role;
/* out[b, t, h, :] = E(position of t) in[b, t, h, :]: pair i turns by position x inv_freq[i], counter-clockwise unless
 * rope.clockwise, and is multiplied by the attention factor and, under xPos, by its magnitude, of which keys get the
 * inverse.  The temperature multiplies queries, all channels, where the scheme rotates nothing too.  INVERSE undoes it all.
 * ADJOINT is the transpose, hence the gradient: not the inverse where E scales (YaRN, LongRoPE, xPos, a temperature).  With
 * GYRE_LAYOUT_INTERLEAVED_TO_HALF, INVERSE and ADJOINT read halves and write interleaved pairs.  Pairs at any distance turn
 * as near ones: rope.far acts in attention.  Views [batch, token, head, head_dim] of F32, F16, BF16 or F64, both the same
 * type.  in
 * == out with equal strides allowed, other overlap not.  Angles are computed in double, good to 1e-10 rad at position 2^31
 * where long double has 64 bits (x86) and 3e-7 where it is double; cos and sin, with all that multiplies them, are rounded
 * once; f16 and bf16 are computed in f32 and rounded once.  Channels that do not turn are copied bit for bit, or multiplied
 * by the temperature in double and rounded once.  A scheme that rotates nothing copies, but for the temperature.
 * Errors: ESHAPE, EDTYPE, EINVAL, ERANGE (a position past 2^31; under xPos, one so far from the centre that a pair's
 * magnitude, attention factor and temperature included, leaves 2^-100 .. 2^100). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_rotate(const gyre_encoding *encoding, gyre_direction direction, gyre_role role,
                                                 const gyre_positions *positions, const gyre_cview *in, const gyre_view *out,
                                                 const gyre_exec *exec, gyre_error *err);

/* cosine[b, t, 0, i], sine[b, t, 0, i] = what pair i of the token turns by, attention factor included, forward and
 * clockwise as the encoding has it: for who rotates by himself.  Without temperature, far turns and xPos's magnitudes. Views
 * [batch, token, 1, rope.dim / 2], both of F32 or both of F64, at the context length in use.  Consecutive positions into F32
 * whose last stride is 1 are the fast way, where the encoding has one axis and a table of any size.  No overlap.  Errors:
 * EUNSUPPORTED (nothing rotates), EINVAL, ESHAPE, EDTYPE, ERANGE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cos_sin(const gyre_encoding *encoding, const gyre_positions *positions,
                                                  const gyre_view *cosine, const gyre_view *sine, const gyre_exec *exec,
                                                  gyre_error *err);

/* out = in with the rows of a projection to queries or keys reordered: a model whose rotation pairs channels as `from` (HALF
 * or INTERLEAVED) gives the same scores under `to`.  Views [1, heads, head_dim, inputs] (a bias has inputs 1; for keys of
 * grouped queries, heads is that of the keys), both the same type, any; no overlap.  Only the rotated channels of each head
 * move, bit for bit.  The encoding's own layout does not matter.  Errors: EUNSUPPORTED (it rotates nothing), EINVAL, ESHAPE,
 * EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_permute_rows(const gyre_encoding *encoding, gyre_layout from, gyre_layout to,
                                                       const gyre_cview *in, const gyre_view *out, gyre_error *err);

/* scores[b, q, h, k] += b(h, position of q, position of k), for schemes that put a number on each score; ALiBi:
 * -slope_h |q - k|.  scores: [batch, query, heads, key] of F32, F16, BF16 or F64, computed in double, rounded once.  The
 * gradient to scores is the identity.  tables may be NULL where the scheme trains none.  Errors: EUNSUPPORTED, EINVAL,
 * ESHAPE, EDTYPE, ERANGE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_add_bias(const gyre_encoding *encoding, const gyre_tables *tables,
                                                   const gyre_positions *queries, const gyre_positions *keys,
                                                   const gyre_view *scores, const gyre_exec *exec, gyre_error *err);
/* gradients.bias += that of a loss to the bias table, given dscores, shaped and typed as scores above; row by row in order
 * of batch and query.  Nothing to do, and OK, where the scheme trains no bias table.  Errors as gyre_add_bias. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_add_bias_gradient(const gyre_encoding *encoding, const gyre_tables *tables,
                                                            const gyre_positions *queries, const gyre_positions *keys,
                                                            const gyre_cview *dscores, const gyre_table_gradients *gradients,
                                                            const gyre_exec *exec, gyre_error *err);

/* -- attention: all four places in one pass, never n x n -- */
/* Which keys a query sees. */
typedef enum gyre_causal {
    GYRE_CAUSAL_NONE,        /* all of them */
    GYRE_CAUSAL_BY_POSITION, /* keys whose position is not above its own */
    GYRE_CAUSAL_BY_ORDER     /* query t of n sees keys 0 .. t + keys - n, whatever their positions; the window counts so too.
                              * For positions that do not rise with the order of tokens: the patches of an image have one time
                              * and several rows and columns */
} gyre_causal;
typedef struct gyre_attention_args {
    size_t size;                   /* set by GYRE_ATTENTION_INIT; any other is EINVAL */
    const gyre_encoding *encoding; /* NULL = positions were applied before, or there are none */
    const gyre_tables *tables;     /* NULL = none */
    gyre_cview q, k, v;            /* [batch, query | key, head, channel] of F32, F16 or BF16, each its own; query heads a
                                    * multiple of key heads */
    gyre_positions q_pos, k_pos; /* k_pos.context_length is ignored: one length for a call, q_pos.context_length; 0 = by the
                                  * encoding's length_policy */
    double scale;                /* of q.k, q.A and k.B, finite as a float; 0 = 1 / sqrt(head_dim), DeBERTa:
                                  * 1 / sqrt(head_dim (1 + terms)) */
    double softcap;              /* c > 0: a score s, its biases in it, becomes c tanh(s / c) before mask and softmax
                                  * (Gemma 2); 0 = off */
    gyre_causal causal;
    int64_t window; /* a query at m sees keys with |m - n| < window; 0 = unlimited */
    int64_t sinks;  /* and, whatever the window, keys at positions below this one: StreamingLLM, 2309.17453;
                                  * with GYRE_CAUSAL_BY_ORDER the first so many keys that are there (from k_first on) */
    /* Sequences of a packed batch: q and k have batch 1, and sequence s is queries q_starts[s] .. q_starts[s + 1] - 1 and
     * keys likewise.  [sequences + 1] each, from 0 up to all tokens, never falling; NULL = the rows of the batch.  Where
     * positions have no data, those of each sequence start at base anew. */
    const int64_t *q_starts, *k_starts;
    int64_t sequences;
    /* Padding: keys k_first[b] .. k_end[b] - 1 of batch row b (of sequence b, counted in it) are there, others are not;
     * [batch or sequences] each; NULL = from the first, to the last. */
    const int64_t *k_first, *k_end;
    gyre_cview mask;        /* F32, F16 or BF16 [batch, query, query heads, key], added to the scores, -infinity = not
                             * seen; stride 0 broadcasts; data NULL = none.  Packed: [1, all queries, query heads, the
                             * longest sequence's keys], the keys counted in their sequence */
    gyre_cview sink_logits; /* F32 [1, 1, query heads, 1]: a score that no key has takes its share of each row's
                             * weights (gpt-oss); data NULL = none */
    double dropout;         /* in [0, 1): each weight becomes 0 with this chance, else is divided by 1 - dropout */
    uint64_t seed;          /* of the choice, which depends on it, sequence, query head, query and key alone, the last
                             * two counted from 0 in their sequence, padding included: forward and gradient agree,
                             * whatever the threads do */
    gyre_view out;          /* F32, F16 or BF16 [batch, query, query heads, v channels] */
    gyre_view lse;          /* F32 [batch, query, query heads, 1]: log-sum-exp of the row; data NULL = not wanted */
    gyre_view weights;      /* F32 [batch, n, query heads, key]: those of queries weights_first .. + n - 1, for
                             * pictures; without dropout; data NULL = not wanted.  Packed: [1, n, query heads, the
                             * longest sequence's keys], queries counted in the call, keys in their sequence; 0 past
                             * its last */
    int64_t weights_first;
} gyre_attention_args;

/* out = bytes of scratch the call below needs under exec; grows with n (head_dim), the tables and exec->width, never with n
 * x n. 0 = the arguments are invalid.  gradient: 1 for gyre_attention_gradient. */
GYRE_API size_t gyre_attention_scratch(const gyre_attention_args *args, int gradient, const gyre_exec *exec);
/* out[b, m, h, :] = sum over n of a_mn (v[b, n, h / group, :] + V[r]), over the visible keys, with
 * a_m = softmax_n(scale (E(m)q . E(n)k + q . A[r] + k . B[r]) + b(h, m, n)) and r = r(m, n), by tiles with an online
 * softmax.  A row that sees no key is zeros, its lse -infinity (that of its sink, where there is one); so is one whose
 * scores are all -infinity.  A weight of exactly 0 adds nothing, even of an infinite or NaN value, in whatever order the
 * keys come: what is masked cannot leak.  Biases that fall with distance without bound (ALiBi, KERPLE) are formed relative
 * to that of the row's nearest visible key before they are rounded to float, so keys far from the query keep the differences
 * between them, but not under a softcap, which needs the whole score; lse has the whole bias, rounded to float.
 * All sums are of floats; f16 and bf16 are widened when read, and out is rounded once.
 * out, lse and weights may overlap neither the inputs nor each other.  scratch: 64-byte aligned, of gyre_attention_scratch
 * bytes.
 * Limits: at least 1 head, at most 65536 channels, other extents below 2^31 (ESHAPE).
 * With E: the temperature of the query's position multiplies q in both products with it, not u, v and k . B; of ReRoPE and
 * its kin E(m)q . E(n)k stands for the far turn where m - n is rope.far_window or more.  Transformer-XL adds scale (u . k +
 * v . A[r]). Errors: EINVAL, ESHAPE, EDTYPE, ERANGE (positions; with xPos also tokens of one tile, 128 keys or 64 queries in
 * their order, so far apart that 2^-100 is left of a pair: 28 000 positions at xpos_base 512), EUNSUPPORTED (xPos and far
 * turns without causal 1), ENOMEM (scratch too small). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention(const gyre_attention_args *args, void *scratch, size_t bytes,
                                                    const gyre_exec *exec, gyre_error *err);

/* dqkv = gradients of a loss to the raw q, k and v (overwritten; shaped as they are, each of F32 or of the type of its
 * input), given dout (F32, F16 or BF16) and the out and lse that gyre_attention wrote.  dqkv may overlap neither the inputs
 * (dout, out and lse too) nor each other.  Weights are recomputed tile by tile.  gradients: those of the tables inside
 * attention, and of sink_logits, are added to, item by item in one order; NULL where none is wanted; query and key may be
 * one memory, strided alike; no other overlap.  args.weights is not looked at.  Errors as gyre_attention; EINVAL without
 * lse; EDTYPE where dk or dv is not F32 and queries of a sequence differ in their length in use
 * (GYRE_LENGTH_POLICY_CAUSAL). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_gradient(const gyre_attention_args *args, const gyre_cview *dout,
                                                             const gyre_view dqkv[3], const gyre_table_gradients *gradients,
                                                             void *scratch, size_t bytes, const gyre_exec *exec,
                                                             gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_H */

/* gyre.h: position encodings and position-aware attention for Transformers.
 *
 *     gyre_encoding *rope = NULL; // RoPE on 4 tokens of 8 heads of 128 channels, the first at position 100000
 *     gyre_status status = gyre_rope_create(&rope, 128, 500000, GYRE_LAYOUT_HALF, NULL);
 *     gyre_view x = gyre_dense(q, GYRE_DTYPE_F32, 1, 4, 8, 128);
 *     if (!status) status = gyre_rotate_dense(rope, GYRE_ROLE_QUERY, x, 100000, 0, NULL);
 *     gyre_encoding_free(rope);
 *
 * The header has three parts:
 *     simple         RoPE, ALiBi and attention on dense buffers
 *     complete       every scheme, any strides, threads, your own scratch memory
 *     for trainers   gradients, and the shapes of the tables that a scheme trains
 * gyre_attention.h, included at the end, has attention with all its options.  gyre_types.h has the types.  Everything here
 * is unstable until version 1.0, except that structs only grow as the conventions below describe. */
#ifndef GYRE_H
#define GYRE_H
#include "gyre/gyre_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gyre_encoding gyre_encoding;

/* -- simple: dense buffers, one thread, scratch memory allocated and freed inside the call -- */

/* *out = RoPE (Su 2021, arXiv 2104.09864) over all head_dim channels, an even number.  base: 10000, 500000, ...; 0 = 10000.
 * Errors: EINVAL, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_rope_create(gyre_encoding **out, int64_t head_dim, double base, gyre_layout layout,
                                                      gyre_error *err);
/* *out = `rope`, which may be freed afterwards, stretched past trained_length tokens.  factor: s >= 1; needed, except by
 * DYNAMIC_NTK and DYNAMIC_YARN, where 0 = 1.
 * trained_length: L; 0 = that of rope; scalings without L (LINEAR, NTK, NTK_MIXED) ignore it.  Scalings that follow the
 * length in use (DYNAMIC_NTK, DYNAMIC_YARN) get GYRE_LENGTH_POLICY_CAUSAL, under which decoding equals reading the text at
 * once; a rotation outside attention needs a context length past L.  Scalings that need more (LONGROPE: its lists) are
 * EINVAL; describe them by a gyre_config.  Errors: EINVAL (also an encoding that does not rotate), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_rope_create_scaled(gyre_encoding **out, const gyre_encoding *rope,
                                                             gyre_scaling scaling, double factor, int64_t trained_length,
                                                             gyre_error *err);
/* *out = ALiBi (Press 2021, arXiv 2108.12409) with the paper's slopes.  Errors: EINVAL, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_alibi_create(gyre_encoding **out, int64_t heads, gyre_error *err);
GYRE_API void gyre_encoding_free(gyre_encoding *encoding); /* NULL is fine */

/* out = a view of dense [batch][tokens][heads][channels] memory; gyre_cdense: a read-only one. */
GYRE_API gyre_view gyre_dense(void *data, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads, int64_t channels);
GYRE_API gyre_cview gyre_cdense(const void *data, gyre_dtype dtype, int64_t batch, int64_t tokens, int64_t heads,
                                int64_t channels);
/* x[b][t][h][:] = E(first_position + t) x[b][t][h][:], in place.  x: usually gyre_dense; F32, F16, BF16 or F64.
 * context_length: the length in use, for scalings that follow it; 0 = the encoding's own.  Errors: those of gyre_rotate. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_rotate_dense(const gyre_encoding *encoding, gyre_role role, gyre_view x,
                                                       int64_t first_position, int64_t context_length, gyre_error *err);

typedef struct gyre_attention_dense_args {
    size_t size;                   /* set by GYRE_INIT */
    const gyre_encoding *encoding; /* applied to raw q, k and v; NULL = none */
    const void *q;                 /* [batch][queries][heads][head_dim] */
    const void *k, *v;             /* [batch][keys][kv_heads][head_dim] */
    void *out;                     /* shaped as q */
    gyre_dtype dtype;              /* of all four: F32, F16, BF16 or F64 */
    int64_t batch, queries;        /* 0 = nothing to compute */
    int64_t keys;                  /* 0 = none: out is zeros */
    int64_t heads;                 /* needed (ESHAPE) */
    int64_t kv_heads;              /* heads is a multiple of it (grouped queries); 0 = heads */
    int64_t head_dim;              /* needed (ESHAPE) */
    gyre_causal causal;
    int64_t window;         /* a query sees keys less than `window` positions away; 0 = all */
    int64_t window_after;   /* the other side of the window, as in gyre_attention_args; 0 = window */
    double scale;           /* of q . k; 0 = 1 / sqrt(head_dim) */
    double softcap;         /* c > 0: a score s becomes c tanh(s / c): Gemma 2; 0 = none */
    int64_t context_length; /* as in gyre_positions; 0 = the encoding's own */
} gyre_attention_dense_args;
/* out = softmax(scale q . k) v over dense memory.  Key t is at position t, and the last query at the position of the last
 * key: queries = keys is a whole sequence, queries = 1 the last token of a sequence of `keys`.  out may not overlap the
 * inputs (EINVAL).  Encodings that train tables need gyre_attention (EINVAL).
 * Errors: those of gyre_attention; ENOMEM also for the scratch memory. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_dense(const gyre_attention_dense_args *args, gyre_error *err);

/* -- conventions --
 *
 * - Shapes are [batch, token, head, channel].  Strides count elements and may be zero or negative.  A written view must not
 *   have stride 0 over more than one element, the elements of a view span at most 2^60 bytes, and the data of views and
 *   positions is aligned to the size of an element (EINVAL).  Views never own memory.
 * - A call checks pointers, sizes and types, then shapes, then overlap.  With nothing to write it does nothing: GYRE_OK.
 * - A failing call does not change its outputs.  Its gyre_error, which may be NULL, describes what failed and why; on
 *   success it is not written.  Calls with one or two obvious ways to fail take none.
 * - An encoding never changes after creation.  Threads may share it.
 * - In libgyre only *_create, *_open, *_load and the simple calls allocate.  alloc NULL = malloc.  A gyre_alloc is copied;
 *   its ctx must live as long as the object made with it.
 * - exec NULL = only the calling thread.  A gyre_exec is used only during the call, unless stated.  Results have the
 *   same bits for any number of threads.
 * - The best instructions of the processor are used.  GYRE_CPU=scalar, avx2, avx512, ... in the environment selects lower
 *   ones, which may change last bits.  gyre_encoding_create and attention without an encoding read it; see gyre_cpu_check.
 * - A struct that begins with `size` may get new fields at its end in a later version.  Begin with GYRE_INIT(type), or in a
 *   call with GYRE_ARGS: size is set and every other field is zero.  The library accepts a smaller struct (of an older
 *   header) and takes missing fields as zero.  It refuses a larger one if an unknown byte of it is set (EINVAL).  All
 *   other structs, nested ones included, never change.
 * - The comment of a field describes zero: "0 = ", "NULL = ", "needed".  Without such a clause, a pointer and the data of a
 *   view are needed, an enum is its first value and a flag is off.  A missing needed field is EINVAL, or ESHAPE for a view
 *   that is all zeros.  docs/forgotten.md lists all fields. */

/* -- places --
 *
 * Attention ignores order.  A position encoding adds it at one of four places.  One immutable object, gyre_encoding,
 * describes a scheme at each of them:
 *
 *     input            x[m] += p[m]                               gyre_add_input
 *     query and key    q[m] -> E(m) q[m],  k[n] -> E(n) k[n]      gyre_rotate
 *     score            s[m][n] += b(head, m, n)                   gyre_add_bias
 *                      s[m][n] += q[m] . A[r] + k[n] . B[r]       gyre_attention
 *     value            o[m] += sum over n of a[m][n] V[r]         gyre_attention
 *     all of them, in one pass, without an n x n matrix           gyre_attention
 *     the same over cached keys and values                        gyre_cache.h
 *
 * A scheme adds a function of two positions and of trained tables.  Mechanisms that also read the text, or rotate by
 * trained numbers, have separate calls:
 *
 *     trained frequencies, PoPE   gyre_trained_rotate, gyre_polar_rotate     rotate q and k before gyre_attention
 *     FoPE                        gyre_fourier_rotate                        the same
 *     angles of tokens            gyre_gate_sums, gyre_angle_rotate          the same
 *     gates that forget           gyre_gate_sums                             numbers for any call of gyre_attention
 *     CoPE                        gyre_contextual_attention                  an attention: positions come from q . k
 *     DAPE                        gyre_adaptive_attention                    an attention: a network reads all heads */

/* -- version -- */
#define GYRE_VERSION_MAJOR 0
#define GYRE_VERSION_MINOR 1
#define GYRE_VERSION_PATCH 0

/* out = a short English description; static, never NULL. */
GYRE_API const char *gyre_status_text(gyre_status status);
/* out = "MAJOR.MINOR.PATCH" of the linked library; static. */
GYRE_API const char *gyre_version(void);
/* Checks GYRE_CPU in the environment, if it is set and not empty.  Other calls ignore an invalid value.
 * Errors: EINVAL (no such name), EUNSUPPORTED (not in this processor or build); err lists the available names. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cpu_check(gyre_error *err);

/* out = bytes of one element; 0 for an invalid dtype, and for blocks of elements (Q8_0, Q4_0). */
GYRE_API size_t gyre_dtype_size(gyre_dtype dtype);

/* -- complete: memory of the caller, described -- */

/* out = a read-only view of the same memory. */
GYRE_API gyre_cview gyre_const(gyre_view view);
/* out = 1 if an element of a and an element of b share a byte, else 0.  Views may interleave without sharing one, like the
 * queries and keys of a fused projection.  0 also if the search gives up, after some thousand steps (interleaved views
 * with unrelated strides), and for a view that calls refuse by its extents and strides. */
GYRE_API int gyre_views_overlap(const gyre_cview *a, const gyre_cview *b);

/* out[b * tokens + t] = number of tokens before token t in row b, or -1 if t is padding.
 * mask: dense [batch][tokens]; nonzero = a token, 0 = padding.  A learned table with an offset has a row for -1, as in
 * RoBERTa (offset padding_idx + 1), OPT and M2M100.  No aliasing.  Errors: EINVAL (missing memory, extents below 0). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_positions_from_mask(const unsigned char *mask, int64_t batch, int64_t tokens,
                                                              int64_t *out);

/* A ready-made gyre_exec: threads that sleep between calls.  threads: 0 = one per processor, at most 1024.
 * Errors: EINVAL, ENOMEM, EUNSUPPORTED (more than one thread on a platform without threads: WebAssembly). */
typedef struct gyre_pool gyre_pool;
GYRE_API GYRE_MUST_CHECK gyre_status gyre_pool_create(gyre_pool **out, int threads, gyre_error *err);
GYRE_API void gyre_pool_free(gyre_pool *pool); /* NULL is fine */
/* out = a gyre_exec that runs on the pool; valid as long as the pool. */
GYRE_API gyre_exec gyre_pool_exec(gyre_pool *pool);

/* -- complete: an encoding -- */

typedef enum gyre_kind {
    GYRE_KIND_NOPE = 1,       /* no positions; 0 is not a kind, so that a forgotten field selects none */
    GYRE_KIND_LEARNED,        /* input: a trained table (Gehring 2017, GPT-2) */
    GYRE_KIND_SINUSOIDAL,     /* input: Vaswani 2017, arXiv 1706.03762 */
    GYRE_KIND_ROPE,           /* query and key: Su 2021, arXiv 2104.09864 */
    GYRE_KIND_ALIBI,          /* score: a slope per head, Press 2021, arXiv 2108.12409 */
    GYRE_KIND_T5,             /* score: a trained number per bucket of distances, Raffel 2019, arXiv 1910.10683 */
    GYRE_KIND_KERPLE,         /* score: a trained decay with distance, Chi 2022, arXiv 2205.09921 */
    GYRE_KIND_SHAW,           /* score, value: trained vectors for clipped distances, Shaw 2018, arXiv 1803.02155 */
    GYRE_KIND_NEZHA,          /* score, value: the same with a fixed sinusoid, Wei 2019, arXiv 1909.00204 */
    GYRE_KIND_BERT,           /* score: trained vectors for every distance, "relative_key(_query)" in transformers */
    GYRE_KIND_DEBERTA,        /* score: content to position and back, He 2020, arXiv 2006.03654; v3: 2111.09543 */
    GYRE_KIND_TRANSFORMER_XL, /* score: (q + u) . k + (q + v) . r, Dai 2019, arXiv 1901.02860; the caller projects r */
    GYRE_KIND_FIRE,           /* score: a small network of distance over position, Li 2023, arXiv 2310.04418 */
    GYRE_KIND_SANDWICH,       /* score: the product of two sinusoids, not trained, Chi 2022, arXiv 2212.10356 */
    GYRE_KIND_TAPA,           /* score: a product times the cosine of another, Wang 2025, arXiv 2509.12635 */
    GYRE_KIND_MULTIPLICATIVE, /* score: q, k and a trained vector by distance, Huang 2020, arXiv 2009.13658, method 3 */
    GYRE_KIND_INKLING         /* score: a vector that the query's token makes times a trained one by distance: Inkling */
} gyre_kind;
/* A set of places where an encoding acts. */
typedef enum gyre_places {
    GYRE_PLACE_INPUT = 1,
    GYRE_PLACE_QUERY_KEY = 2,
    GYRE_PLACE_SCORE = 4,
    GYRE_PLACE_VALUE = 8
} gyre_places;

/* How the pairs of a rotation are distributed over several axes.  axis_pairs[a]: pairs of axis a, dim / 2 in all. */
typedef enum gyre_axes {
    GYRE_AXES_CHUNKED,     /* [0 0 0 1 1 1 2 2 2]  Qwen2-VL's M-RoPE */
    GYRE_AXES_INTERLEAVED, /* [0 1 2 0 1 2 0 1 2]  pair i < 3 axis_pairs[i % 3] to axis i % 3, others to axis 0: Qwen3-VL */
    GYRE_AXES_AXIAL        /* [0 0 0 1 1 1], frequencies restart on each axis, base^(-i / axis_pairs): 2-D images.  A
                            * scaling acts on each axis separately, with dim = 2 axis_pairs */
} gyre_axes;
enum { GYRE_MAX_AXES = 4 };
/* The distance by which a query at m and a key at n rotate.  CLAMPED, LEAKY, GROUPED: at a distance m - n of far_window or
 * more.  CHUNKED, CHUNKED_PAPER: Dual Chunk Attention (arXiv 2402.17463), with c = chunk.size, w = chunk.local, L = c - w:
 *
 *     chunk of the query - chunk of the key = floor(m / L) - floor(n / L)
 *     0 (intra-chunk)         m mod L - n mod L = m - n
 *     1 (successive chunk)    min(L + m mod L, cap) - n mod L
 *     more (inter-chunk)      last - n mod L
 *
 * Distances up to w are as trained, and none exceeds cap.  Causal attention only. */
typedef enum gyre_far {
    GYRE_FAR_AS_NEAR,      /* their distance */
    GYRE_FAR_CLAMPED,      /* far_window: ReRoPE (Su, kexue.fm 9708) */
    GYRE_FAR_LEAKY,        /* far_window + (distance - far_window) / far_factor: leaky ReRoPE */
    GYRE_FAR_GROUPED,      /* floor(m / G) - floor(n / G) + far_window - floor(far_window / G), G = far_factor: Self-Extend,
                            * arXiv 2401.01325 */
    GYRE_FAR_CHUNKED,      /* cap = c, last = min(2 L - 1, c): the released code, and vLLM's dual_chunk_attention_config */
    GYRE_FAR_CHUNKED_PAPER /* cap = last = c - 1: the paper's equations */
} gyre_far;
/* Clipped RoPE (Li 2026, arXiv 2602.05258, which calls it CoPE; contextual CoPE, arXiv 2405.18719, is unrelated): the
 * factor of the frequencies of the last n pairs of a rotation, or of an axial axis, after any scaling. */
typedef enum gyre_clip {
    GYRE_CLIP_NONE,
    GYRE_CLIP_SOFT, /* (1 + cos(pi j / (n - 1))) / 2, j = 0 .. n - 1: from 1 for the first of them to 0 for the last.  n = 1
                     * changes nothing, as in the released code */
    GYRE_CLIP_HARD  /* 0: they do not rotate */
} gyre_clip;
/* The attention factor of LongRoPE's start tokens. */
typedef enum gyre_longrope_start {
    GYRE_LONGROPE_START_PAPER,   /* that of all tokens: the paper rescales only angles */
    GYRE_LONGROPE_START_RELEASED /* 1: the released code (longrope_mixed) takes the cos and sin of the unscaled model */
} gyre_longrope_start;
/* Factor of a query at position m before its scores; 1 for m < 0. */
typedef enum gyre_temperature {
    GYRE_TEMPERATURE_NONE,
    GYRE_TEMPERATURE_LOG,    /* max(1, ln(m + 1) / ln(reference_length)): log-n scaling (Su, kexue.fm 8823; Chiang 2022) */
    GYRE_TEMPERATURE_LLAMA4, /* 1 + slope ln(1 + floor((m + 1) / reference_length)) */
    GYRE_TEMPERATURE_MINISTRAL, /* 1 + slope ln(1 + floor(m / reference_length)) */
    GYRE_TEMPERATURE_INKLING    /* 1 + slope ln(max(1, (m + 1) / reference_length)) */
} gyre_temperature;
/* The context length in use, for frequencies that depend on it (dynamic NTK, dynamic YaRN, LongRoPE), if a call gives
 * none.  Each sequence of a batch has its own. */
typedef enum gyre_length_policy {
    GYRE_LENGTH_POLICY_DECLARED, /* the encoding's own, for the whole run.  Keys may be cached rotated */
    GYRE_LENGTH_POLICY_CAUSAL,   /* for a query at m and all keys it sees: m + 1, rounded up to a multiple of length_block.
                                  * No frequency depends on later tokens, so decoding equals reading the prompt at once,
                                  * through all layers.  Keys are cached raw and rotated when read */
    GYRE_LENGTH_POLICY_PREFIX    /* for all queries of a call: their highest position + 1, as in transformers.  Decoding
                                  * equals one attention over the prefix for equal inputs; deeper layers remember shorter
                                  * lengths.  Keys are cached raw */
} gyre_length_policy;
typedef enum gyre_angle_path {
    GYRE_ANGLE_PATH_EXACT, /* exact angles at any position; gyre_rotate states the error */
    GYRE_ANGLE_PATH_TORCH, /* frequencies, products, cos and sin in float, as transformers gets them from PyTorch on a CPU
                            * with FMA; a PyTorch with MKL rounds 2 of 100 cos and sin the other way.  Models were trained
                            * with it.  Errors are position x 2^-25 rad and more.  Needs a build with SLEEF */
    GYRE_ANGLE_PATH_TORCH_BF16,   /* those, cos and sin rounded to bf16: the factors of a bf16 tensor in transformers */
    GYRE_ANGLE_PATH_TORCH_F16,    /* the same, to f16 */
    GYRE_ANGLE_PATH_LLAMA_CPP,    /* as ggml's CPU code: the angle of a pair is that of the previous pair times base^(-2 /
                                   * dim), in float; cosf and sinf are those of the C library.  For one axis and NONE,
                                   * LINEAR, YARN, LLAMA3, LONGROPE */
    GYRE_ANGLE_PATH_TENSORRT_LLM, /* the formulas of TensorRT-LLM's table as NumPy computes them on a CPU with FMA: powers
                                   * in double, everything else in float.  Tested against NumPy, not against TensorRT-LLM.
                                   * For one axis and NONE, LINEAR, LLAMA3 */
    GYRE_ANGLE_PATH_VLLM_BF16, /* the formulas of the table that vLLM keeps for a bf16 model, as PyTorch computes them on a
                                * CPU: TORCH_BF16, but LINEAR divides positions, not frequencies.  Not tested against vLLM,
                                * which computes the table on the GPU, whose cos and sin may round differently */
    GYRE_ANGLE_PATH_VLLM_F16   /* the same, for an f16 model */
} gyre_angle_path;
/* Layouts of a sinusoid, shown for 6 channels, and the exponent of its base. */
typedef enum gyre_sinusoid {
    GYRE_SINUSOID_INTERLEAVED, /* [s c s c s c]  2i / dim */
    GYRE_SINUSOID_SIN_COS,     /* [s s s c c c]  2i / dim */
    GYRE_SINUSOID_SIN_COS_T2T, /* [s s s c c c]  i / (dim / 2 - 1): tensor2tensor; an odd last channel is 0 */
    GYRE_SINUSOID_COS_SIN,     /* [c c c s s s]  2i / dim */
    GYRE_SINUSOID_COS_SIN_T2T  /* [c c c s s s]  i / (dim / 2 - 1): MusicGen */
} gyre_sinusoid;
typedef enum gyre_decay { GYRE_DECAY_LOG, GYRE_DECAY_POWER } gyre_decay; /* -r1 ln(1 + r2 d), -r1 d^r2; d = |m - n| */
/* ALiBi's slopes past the trained length: slope h becomes slope_h / a^e_h, a = factor, or max(1, n / trained_length) at the
 * context length n in use.  H heads, h = 1 .. H. */
typedef enum gyre_slope_scaling {
    GYRE_SLOPE_SCALING_NONE,
    GYRE_SLOPE_SCALING_LINEAR,      /* e_h = 1: position interpolation, Al-Khateeb 2023, arXiv 2310.13017; Jais, BTLM */
    GYRE_SLOPE_SCALING_NTK,         /* e_h = ln(largest slope / slope_h) / ln(largest / smallest), which is (h - 1) / (H -
                                     * 1) for a power of two of the paper's slopes: NTK-ALiBi (keezen/ntk_alibi, 2023).  The
                                     * steepest head is unchanged, the flattest is divided by a */
    GYRE_SLOPE_SCALING_NTK_RELEASED /* its released code: e_h = (h - 1) / (H - 1) for the first power of two of heads, 0 for
                                     * the others.  The same for a power of two */
} gyre_slope_scaling;
/* A set of products that have a table: q . A[r] (Shaw's keys, DeBERTa's content to position), k . B[r] (BERT's
 * relative_key_query, DeBERTa's position to content), sum of a V[r] (Shaw's values). */
typedef enum gyre_term { GYRE_TERM_QUERY = 1, GYRE_TERM_KEY = 2, GYRE_TERM_VALUE = 4 } gyre_term;
enum { GYRE_NO_TABLE = -1 };          /* rope.table_positions: compute angles in every call */
enum { GYRE_RELATIVE_CHANNELS = 16 }; /* score.relative_channels of a model whose config has none */

/* A complete description of a scheme.  Zero is the default of a field, so set only the fields that matter after
 * GYRE_INIT(gyre_config).  A field that is set is refused while the switch it needs is 0: rope.factor without
 * rope.scaling. */
typedef struct gyre_config {
    size_t size; /* set by GYRE_INIT */
    gyre_kind kind;
    int64_t head_dim;       /* channels of a head; needed by ROPE and schemes with vectors */
    int64_t heads;          /* query heads; needed if each head has its own slope, number or table */
    int64_t trained_length; /* tokens; needed by scalings that use L */
    int64_t context_length; /* ROPE, ALIBI: the length in use if a call gives none; 0 = left to calls or length_policy */
    gyre_length_policy length_policy;
    int64_t length_block; /* LENGTH_POLICY_CAUSAL; 0 = 64 */
    struct gyre_input_config {
        int64_t dim;            /* channels (of the model); needed by LEARNED and SINUSOIDAL */
        int64_t positions;      /* LEARNED: rows of the table, for positions -offset .. positions - offset - 1; needed */
        gyre_sinusoid layout;   /* SINUSOIDAL */
        double base;            /* SINUSOIDAL; 0 = 10000 */
        int64_t offset;         /* position m uses row m + offset, or the sinusoid of m + offset.  Rows before it are for
                               * positions -offset .. -1; -1 is padding.  BART, OPT and RoBERTa: 2.  0 = none */
        int zero_padding;       /* SINUSOIDAL: 1 = zeros at position -1, which is padding: M2M100 */
        double scale;           /* factor of the added row; 0 = 1 */
        int trained_scale;      /* SINUSOIDAL: 1 = times the one number of the input table: Li 2018, arXiv 1809.08895 */
        int64_t resized_length; /* LEARNED: the table, trained for n = positions - offset positions, serves this many; 0 = n,
                                 * or n^2 with hierarchy (at most 2^31 - 1) */
        double hierarchy;       /* LEARNED, resized_length up to n^2: alpha in (0, 1); position i n + j gets p[j] + alpha /
                                 * (1 - alpha) (p[i] - p[0]) (Su, kexue.fm 7947: 0.4).  0 = n rows stretched linearly over
                                 * resized_length, ends fixed.  Rows before the offset do not change */
    } input;
    struct gyre_rope_config {
        int64_t dim;           /* rotated channels, even; 0 = head_dim - first_channel.  Other channels pass through */
        int64_t first_channel; /* the first rotated channel; 0 = the first of a head */
        gyre_layout layout;
        int clockwise; /* 1 = pairs rotate by minus the angle: nanochat */
        gyre_scaling scaling;
        int64_t table_positions;       /* cos and sin of positions 0 .. this - 1 are cached, in memory allocated at
                                        * creation: dim floats per position, and with malloc, whose untouched pages cost
                                        * nothing, dim doubles for F64.  0 = up to the lengths above (32768 if there are
                                        * none), at most 64 MiB of floats, and none with an allocator of the caller */
        double base;                   /* > 1; 0 = 10000 */
        double factor;                 /* s >= 1; 0 = 1 */
        double attention_factor;       /* of cos and sin, so its square scales scores; 2^-64 .. 2^64; 0 = the scaling's */
        double mscale, mscale_all_dim; /* YARN: both set, attention factor = g(mscale) / g(mscale_all_dim); 0 = g(s) */
        double beta_fast, beta_slow;   /* YARN, BY_PARTS: revolutions over L above which a pair is kept, below which it is
                                        * divided; 0 = 32, 1 */
        double low_freq, high_freq;    /* LLAMA3; 0 = 1, 4 */
        double proportion;             /* PROPORTIONAL: fraction of the pairs that rotate; 0 = 1 */
        double mixed_exponent;         /* NTK_MIXED; 0 = 0.625 */
        int resonance;         /* 1 = every scaled wavelength is rounded to a whole number of positions: arXiv 2403.00071 */
        int fractional_bounds; /* YARN, BY_PARTS: 1 = do not round the ramp's ends ("truncate": false) */
        const double *short_factor, *long_factor; /* LONGROPE: [dim / 2] each, at least 2^-10; needed; copied */
        const double *frequencies; /* [dim / 2], 0 .. 1024 radians a position each: theta[i] of a model whose frequencies
                                    * follow no base; copied.  base is not used then.  Scalings that act on theta[i]
                                    * alone may follow: LINEAR, LLAMA3, BY_PARTS_PAPER, PROPORTIONAL, NTK_MIXED,
                                    * LONGROPE.  Exact angles, and no axis with its own scaling.  NULL =
                                    * base^(-2 i / dim) */
        double xpos_base;          /* xPos (Sun 2022, arXiv 2212.10554: 512), at least 4; 0 = none.  q times
                              * zeta^((m - xpos_center) / xpos_base), k divided by it, zeta[i] = (2 i + 0.4 dim) / (1.4 dim).
                              * Causal attention and one axis only */
        int64_t xpos_center; /* the position where those factors are 1, within 2^31 of 0; scores do not depend on it; 0 =
                              * position 0 */
        int64_t axes;        /* 0 = 1, at most GYRE_MAX_AXES */
        gyre_axes axes_layout;
        int64_t axis_pairs[4]; /* pairs of each axis, dim / 2 in all; needed with several axes */
        gyre_far far;
        int64_t far_window; /* CLAMPED, LEAKY, GROUPED: smaller distances rotate as trained; needed */
        double far_factor;  /* LEAKY: 2^-10 .. 2^32; GROUPED: a whole number, 1 .. 2^32; needed by both */
        gyre_angle_path angles;
        /* The scaling of one axis, if it differs from that of rope.  beta_fast, beta_slow, low_freq, high_freq,
         * proportion, mixed_exponent and fractional_bounds are those of rope, and so are short_factor and long_factor,
         * which have a number for each pair of the rotation: an axis reads those of its pairs.  All axes share one
         * attention factor, that of rope.scaling or rope.attention_factor: the scaling of an axis adds none. */
        struct gyre_axis_config {
            int own; /* 1 = the fields below, even if zero, replace those of rope and config */
            gyre_scaling scaling;
            double base;            /* 0 = rope.base */
            double factor;          /* 0 = 1 */
            int64_t trained_length; /* L; 0 = that of config */
            int64_t context_length; /* n; 0 = the length in use of the call */
            /* RIFLEX: the slowed pair, counted from 1 within the axis, as in its paper; 0 = the first whose period,
             * rounded to a whole number, is nearest to repeats_at, in latent frames: the first frame observed to repeat */
            int64_t intrinsic_pair, repeats_at;
        } axis[4];
        /* DyPE, arXiv 2510.20766: a scaling that fades as an image is denoised.  With kappa = strength time^exponent,
         * LINEAR and NTK use s^kappa for s, and BY_PARTS, BY_PARTS_PAPER, YARN and DYNAMIC_YARN use kappa beta_fast and
         * kappa beta_slow (all pairs are kept at 0).  At least one axis has one of these.  The attention factor is
         * unchanged.  An encoding for each step costs some powers */
        struct gyre_diffusion_config {
            int timed;                 /* 1 = on */
            double time;               /* t, from 1, pure noise, to the image; 0 = the image */
            double strength, exponent; /* lambda_s, lambda_t; 0 = 2 */
        } diffusion;
        struct gyre_chunk_config {   /* FAR_CHUNKED, FAR_CHUNKED_PAPER */
            int64_t size;            /* c: "chunk_size" of dual_chunk_attention_config; needed by FAR_CHUNKED */
            int64_t local;           /* w: "local_size", 1 .. size - 1; needed by FAR_CHUNKED */
            int64_t original_length; /* O: cos and sin are times max(1, 0.1 ln(n / O) + 1) at context length n, so scores are
                                      * times its square, as in vLLM ("original_max_position_embeddings"); 0 = no such
                                      * factor */
        } chunk;
        struct gyre_clip_config {
            gyre_clip mode;
            int64_t pairs; /* n, all if there are fewer; 0 = 20, as in the released code, for heads of 64 pairs */
        } clip;
        struct gyre_longrope_config { /* LONGROPE, one axis */
            /* n-hat: at a length in use past trained_length, positions below it rotate by theta[i], as without a scaling.
             * A cache keeps raw keys then.  0 = none */
            int64_t start_tokens;
            gyre_longrope_start starts; /* the attention factor of their cos and sin */
        } longrope;
    } rope;
    struct gyre_query_config {
        gyre_temperature temperature;
        int64_t reference_length; /* 0 = trained_length */
        double slope;             /* 0 = 0.1 */
    } query;
    struct gyre_score_config {
        const double *slopes;       /* ALIBI: [heads], within 2^64 of 0; NULL = the paper's; copied */
        const double *slopes_after; /* ALIBI: for keys after the query; NULL = the same; copied */
        double max_bias;            /* ALIBI: the paper's slopes end at 2^-max_bias (MPT); 0 = 8.  Ignored with slopes */
        int before_scale; /* ALIBI: 1 = slopes are divided by sqrt(head_dim): Falcon adds the bias before the scale */
        int64_t buckets;  /* T5: rows of the table, even; needed */
        int64_t position_buckets; /* DEBERTA: log buckets on each side, even; 0 = none (v1) */
        int64_t max_distance;     /* this and larger distances count as one.  T5: 0 = 128.  NEZHA: 0 = 64.  SHAW, DEBERTA,
                                   * TRANSFORMER_XL (clamp_len), MULTIPLICATIVE, INKLING (larger ones add nothing): needed */
        int64_t max_positions;    /* BERT: positions 0 .. this - 1; needed */
        int bidirectional;        /* T5: 1 = half the buckets for keys after the query; TRANSFORMER_XL: rows for them */
        int64_t hidden_units;     /* FIRE: of each head's network, at most 256; 0 = 32 */
        int64_t sinusoid_dim;     /* SANDWICH: channels, even, at most 65536; 0 = 128 */
        unsigned terms;           /* a set of gyre_term; 0 = BERT: QUERY; others: all that the scheme has */
        gyre_decay decay;         /* KERPLE */
        gyre_slope_scaling slope_scaling; /* ALIBI */
        double slope_factor; /* ALIBI: a >= 1, at every length; 0 = max(1, n / trained_length), n the length in use */
        int64_t amplitudes;  /* TAPA: channels of q_A and k_A, the first of a head; the others: q_P and k_P.  0 = half */
        double exponent;     /* TAPA: alpha of |m - n|^alpha, up to 2; 0 = 0.1 */
        int64_t relative_channels; /* INKLING: channels of r and P: the last of head_dim channels of queries ("d_rel"); keys
                                    * may lack them, and are not read there; 0 = 16, or half of up to 32 channels */
    } score;
} gyre_config;

/* out = "nope", "learned", ...: the name in the command and in config.json; NULL for other values.  Kinds start at 1. */
GYRE_API const char *gyre_kind_name(gyre_kind kind);
/* out = the kind of that name; 0, not a kind, if there is none.  gyre_fields.h describes the traits of a kind. */
GYRE_API gyre_kind gyre_kind_find(const char *name);
/* Fills in needed fields of config->kind that are zero, as in the papers, from head_dim, heads, trained_length and
 * input.dim: a learned table of trained_length rows, T5's 32 buckets, ...  Fields that are set do not change.
 * Errors: EINVAL (config NULL, or its kind invalid). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_config_suggest(gyre_config *config);

/* *out = the encoding that config describes.  Copies the arrays of config.  err names the field and its value.
 * Errors: EINVAL, ENOMEM, EUNSUPPORTED (ANGLE_PATH_TORCH without SLEEF, or for a scaling that transformers lacks). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_create(gyre_encoding **out, const gyre_config *config,
                                                          const gyre_alloc *alloc, gyre_error *err);
/* out = the config with defaults filled in; valid as long as the encoding.  A derived attention_factor, an open
 * input.resized_length and an open context_length stay 0, so that a changed copy derives its own;
 * gyre_encoding_frequencies returns the factor. */
GYRE_API const gyre_config *gyre_encoding_get_config(const gyre_encoding *encoding);
/* out = the set of gyre_places where the encoding acts. */
GYRE_API unsigned gyre_encoding_places(const gyre_encoding *encoding);
/* inv_freq[i] = radians per position of pair i, i < rope.dim / 2.  *attention_factor = factor of cos and sin.  Both at
 * context_length (0 = the encoding's own); either may be NULL.
 * Errors: EINVAL (context_length < 0), EUNSUPPORTED (the encoding does not rotate). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_frequencies(const gyre_encoding *encoding, int64_t context_length,
                                                               double *inv_freq, double *attention_factor);
/* increments[i] = turns per position of pair i, modulo 1, in units of 2^-64, i < rope.dim / 2: what the functions of
 * gyre_device.h rotate by on a device.  Negative, modulo 2^64, if the rotation is clockwise.  axes[i] = the axis whose
 * position rotates pair i, or NULL.  *attention_factor = factor of cos and sin, or NULL.  All at context_length (0 = the
 * encoding's own).  Without temperature, far distances and xPos's magnitudes, as gyre_cos_sin.
 * An increment is rounded once: its error is below 2^-64 for up to 1 rad per position if long double has 64 bits (x86); if
 * it is double, 2^-54.
 * Errors: EINVAL (also context_length 0 if the scaling follows a length that the encoding leaves open), EUNSUPPORTED (the
 * encoding does not rotate, its angles are those of another program, or LongRoPE's first tokens rotate otherwise). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_phases(const gyre_encoding *encoding, int64_t context_length,
                                                          uint64_t *increments, unsigned char *axes,
                                                          double *attention_factor, gyre_error *err);
/* Numbers of pairs that a scaling keeps as trained, blends, or divides by the factor (or stops). */
typedef struct gyre_scaling_parts {
    int64_t kept, blended, divided;
} gyre_scaling_parts;
/* *out = those of the encoding at context_length (0 = its own).  Errors: as gyre_encoding_frequencies. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_scaling_parts(const gyre_encoding *encoding, int64_t context_length,
                                                                 gyre_scaling_parts *out);
/* slopes[h] = ALiBi's slope of head h, h < heads, at context_length (0 = the encoding's own), which slopes may follow.
 * Errors: EINVAL (context_length < 0), EUNSUPPORTED (another kind). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_slopes(const gyre_encoding *encoding, int64_t context_length,
                                                          double *slopes);

/* The tables that a scheme trains: memory of the caller, F32 or F64.  data NULL if the scheme has none. */
typedef enum gyre_table {
    GYRE_TABLE_INPUT,        /* [1, 1, positions, dim]: added at the input.  With input.trained_scale [1, 1, 1, 1] */
    GYRE_TABLE_QUERY,        /* A, [1, 1 or heads, rows, head_dim]: s += scale q . A[r].  MULTIPLICATIVE:
                              * s = scale sum over c of q_c A[r]_c k_c.  INKLING: P, [1, 1, rows, relative_channels] */
    GYRE_TABLE_KEY,          /* B, shaped as A: s += scale k . B[r].  May be the same memory as A (BERT) */
    GYRE_TABLE_VALUE,        /* V, shaped as A: o += sum of a V[r]; values have head_dim channels too */
    GYRE_TABLE_BIAS,         /* [1, 1, rows, heads].  T5: s += row r(m, n).  KERPLE: rows r1, r2.
                              * FIRE, w = score.hidden_units: rows c | L | w weights | w biases | w outputs | 1 output bias;
                              * c and L by magnitude.  A network shared by all heads is repeated in every column, and its
                              * gradient is the sum over columns */
    GYRE_TABLE_CONTENT_BIAS, /* u, [1, heads, 1, head_dim]: s += scale u . k */
    GYRE_TABLE_POSITION_BIAS /* v, shaped as u: s += scale v . A[r] */
} gyre_table;
/* data NULL = none; needed if the scheme trains it (EINVAL). */
typedef struct gyre_tables {
    gyre_cview input, query, key, value, bias, content_bias, position_bias;
} gyre_tables;
/* shape = that of a table; all zeros if the scheme has none.  Errors: EINVAL (no such table). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_table_shape(const gyre_encoding *encoding, gyre_table which,
                                                               int64_t shape[4]);
/* *row = r(m, n): the row of the query, key, value or bias table for a query at m and a key at n; one after the last where
 * the scheme adds nothing (INKLING).
 * Errors: EUNSUPPORTED (no table is indexed so), ERANGE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_row(const gyre_encoding *encoding, int64_t m, int64_t n, int64_t *row);

/* -- complete: one place at a time -- */

typedef struct gyre_add_input_args {
    size_t size;               /* set by GYRE_INIT */
    const gyre_tables *tables; /* NULL = none; needed if the scheme trains one at the input */
    const gyre_positions *positions;
    gyre_cview in;
    gyre_view out;
} gyre_add_input_args;
/* out[b][t][0][:] = in[b][t][0][:] + p(position of t).  Views [batch, token, 1, dim] of one type: F32, F16, BF16 or F64.
 * p is computed in double and rounded once.  F32, F16 and BF16 are added in float if p is an unchanged row of a float
 * table, or a sinusoid of up to 8192 channels.  in == out is allowed, other overlap is not (EINVAL).
 * Errors: EUNSUPPORTED (the scheme adds nothing at the input), EINVAL (missing argument, memory or table), ESHAPE, EDTYPE,
 * ERANGE (outside the learned table, or past 2^31). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_add_input(const gyre_encoding *encoding, const gyre_add_input_args *args,
                                                    const gyre_exec *exec, gyre_error *err);

typedef enum gyre_direction { GYRE_DIRECTION_FORWARD, GYRE_DIRECTION_INVERSE, GYRE_DIRECTION_ADJOINT } gyre_direction;
typedef struct gyre_rotate_args {
    size_t size; /* set by GYRE_INIT */
    gyre_direction direction;
    gyre_role role; /* selects temperature and xPos magnitude; other rotations are alike for queries and keys */
    const gyre_positions *positions;
    gyre_cview in;
    gyre_view out;
} gyre_rotate_args;
/* out[b][t][h][:] = E(position of t) in[b][t][h][:].  Pair i rotates by position x inv_freq[i], counter-clockwise unless
 * rope.clockwise, and is scaled by the attention factor and xPos's magnitude (keys: its inverse).  The temperature scales
 * all channels of queries (TAPA: the amplitudes), also in schemes that do not rotate; those otherwise copy.
 * INVERSE undoes FORWARD.  ADJOINT is the transpose, hence the gradient; it differs from the inverse if E scales (YaRN,
 * LongRoPE, xPos, temperature).  With INTERLEAVED_TO_HALF both read halves and write interleaved pairs.
 * rope.far acts in attention only.
 * Positions of each head: a view with the heads as its batch, [heads, token, 1, head_dim], and stride_batch from head to
 * head.
 * Views [batch, token, head, head_dim] of one type: F32, F16, BF16 or F64.  in == out with equal strides is allowed, other
 * overlap is not (EINVAL).
 * Angles are computed in double: error below 2e-10 rad at position 2^31 if long double has 64 bits (x86), 3e-7 if it is
 * double; for pairs of more than 1 rad per position (LongRoPE's factors below 1) times those radians.  cos and sin, with
 * their factors, are rounded once; f16 and bf16 are computed in f32 and rounded once.  Channels that do not rotate are
 * copied bit for bit, or scaled by the temperature in double and rounded once.
 * Errors: ESHAPE, EDTYPE, EINVAL, ERANGE (past 2^31; xPos: so far from the centre that a pair's magnitude, with its factors,
 * leaves 2^-100 .. 2^100). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_rotate(const gyre_encoding *encoding, const gyre_rotate_args *args,
                                                 const gyre_exec *exec, gyre_error *err);

/* Slice index of count of gyre_rotate: some of the tokens, or of the heads if there are fewer tokens than slices.  All
 * slices together are the call, with its bits, and all fail if it does.  Errors: those of gyre_rotate; EINVAL (slice). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_rotate_slice(const gyre_encoding *encoding, const gyre_rotate_args *args,
                                                       gyre_slice slice, gyre_error *err);

/* A rotation that is checked once, for many runs: of one token it takes less time than its checks. */
typedef struct gyre_prepared_rotation gyre_prepared_rotation;
/* *out = gyre_rotate with these arguments.  encoding is borrowed and must outlive it, and so is the data of positions, which
 * each run reads.  The data of in and out may be NULL, and is then needed in each run.  exec is copied, and used in each
 * run.  Errors: those of gyre_rotate; ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_prepared_rotation_create(gyre_prepared_rotation **out,
                                                                   const gyre_encoding *encoding,
                                                                   const gyre_rotate_args *args, const gyre_exec *exec,
                                                                   const gyre_alloc *alloc, gyre_error *err);
GYRE_API void gyre_prepared_rotation_free(gyre_prepared_rotation *prepared); /* NULL is fine */
/* gyre_rotate of this memory, and its bits: in, out: the data of the views, NULL = that of creation; base: the position of
 * token 0, ignored if the positions of creation have data.  Allocates nothing.  Several threads may run it at once.
 * Errors: those of gyre_rotate; EINVAL (prepared NULL). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_prepared_rotation_run(const gyre_prepared_rotation *prepared, const void *in,
                                                                void *out, int64_t base, gyre_error *err);

/* cosine[b][t][0][i], sine[b][t][0][i] = cos and sin that rotate pair i of token t, attention factor included, for
 * programs with their own rotation.  At the context length in use; clockwise as the encoding.  Without temperature, far
 * distances and xPos's magnitudes.  Views [batch, token, 1, rope.dim / 2], both F32 or both F64.  No overlap (EINVAL).
 * Fastest for consecutive positions into F32 with last stride 1, one axis.
 * Errors: EUNSUPPORTED (the encoding does not rotate), EINVAL, ESHAPE, EDTYPE, ERANGE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cos_sin(const gyre_encoding *encoding, const gyre_positions *positions,
                                                  const gyre_view *cosine, const gyre_view *sine, const gyre_exec *exec,
                                                  gyre_error *err);

/* out = rows of a query or key projection, reordered from one layout to another (HALF, INTERLEAVED): the model has the same
 * scores when it rotates in the new layout.  Views [1, heads, head_dim, inputs] of one type, any (a bias: inputs 1; keys of
 * grouped queries: heads of the keys).  Only rotated channels move, bit for bit; the encoding's own layout does
 * not matter.  No overlap (EINVAL).
 * Errors: EUNSUPPORTED (the encoding does not rotate), EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_permute_rows(const gyre_encoding *encoding, gyre_layout from, gyre_layout to,
                                                       const gyre_cview *in, const gyre_view *out, gyre_error *err);

typedef struct gyre_add_bias_args {
    size_t size;               /* set by GYRE_INIT */
    const gyre_tables *tables; /* NULL = none; needed if the scheme trains one */
    const gyre_positions *queries, *keys;
    gyre_view scores; /* needed by gyre_add_bias; gyre_add_bias_gradient ignores it */
} gyre_add_bias_args;
/* scores[b][q][h][k] += b(h, position of q, position of k); ALiBi: -slope[h] |q - k|, with the slopes at
 * queries->context_length.  scores: [batch, query, heads, key] of
 * F32, F16, BF16 or F64; computed in double, rounded once.
 * Errors: EUNSUPPORTED (the scheme adds no number to scores), EINVAL, ESHAPE, EDTYPE, ERANGE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_add_bias(const gyre_encoding *encoding, const gyre_add_bias_args *args,
                                                   const gyre_exec *exec, gyre_error *err);

/* -- for trainers: gradients, and what a scheme trains -- */

/* Gradients are added to these views, which are never cleared.  data NULL = not wanted.  query and key may be one memory,
 * strided alike; no other overlap. */
typedef struct gyre_table_gradients {
    gyre_view input, query, key, value, bias, content_bias, position_bias;
    gyre_view sink_logits; /* of gyre_attention_args */
} gyre_table_gradients;

/* gradients->input += gradient of a loss to the input table, given dout.  Each row that contributes to p(position of t)
 * gets its weight times dout[b][t][0][:], in token order.  A trained scale gets dout . (the scaled row), summed in fixed
 * blocks of tokens.  The gradient to `in` is dout.  Schemes without an input table do nothing.  Errors: as
 * gyre_add_input. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_add_input_gradient(const gyre_encoding *encoding, const gyre_positions *positions,
                                                             const gyre_cview *dout, const gyre_table_gradients *gradients,
                                                             const gyre_exec *exec, gyre_error *err);
/* gradients->bias += gradient to the bias table, given dscores, shaped and typed as the scores of gyre_add_bias; in order of
 * batch and query.  The gradient to scores is dscores.  Schemes without a bias table do nothing.
 * Errors: as gyre_add_bias. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_add_bias_gradient(const gyre_encoding *encoding, const gyre_add_bias_args *args,
                                                            const gyre_cview *dscores, const gyre_table_gradients *gradients,
                                                            const gyre_exec *exec, gyre_error *err);
/* The source of the rows of the query, key and value tables. */
typedef enum gyre_row_source {
    GYRE_ROW_SOURCE_FREE,      /* each table is trained directly: Shaw */
    GYRE_ROW_SOURCE_SHARED,    /* query and key share one trained table: BERT */
    GYRE_ROW_SOURCE_PROJECTED, /* row r of head h = W[h] P[r], a W for each table; P is trained, shared by layers: DeBERTa */
    GYRE_ROW_SOURCE_SINUSOID   /* the same with P[r] fixed: sines, then cosines, of the distance m - n: Transformer-XL */
} gyre_row_source;
/* out = that of the scheme; FREE if it has no such tables or encoding is NULL. */
GYRE_API gyre_row_source gyre_encoding_row_source(const gyre_encoding *encoding);
/* One number of a table.  Training begins at a draw from normal(initial_mean, initial_deviation) and clamps to
 * minimum .. maximum. */
typedef struct gyre_table_entry {
    double initial_mean, initial_deviation, minimum, maximum;
} gyre_table_entry;
/* *out = entry [0, head, row, channel] of a table.  Errors: EINVAL (no such entry). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_encoding_table_entry(const gyre_encoding *encoding, gyre_table which, int64_t head,
                                                               int64_t row, int64_t channel, gyre_table_entry *out);

#ifdef __cplusplus
}
#endif
#include "gyre/gyre_attention.h"
#endif /* GYRE_H */

/* wasm_kernels.c: every kernel of the WebAssembly tier against its bound or the scalar tier, and the public functions on top
 * of them. A plain program without cmocka, which needs setjmp, which WASI does not have. */
#include "attention_setup.h"
#include "check_product_kernels.h"
#include "check_rotation_kernels.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>

static int failures, checks;
static void check(int right, const char *what) {
    checks++;
    if (right) return;
    failures++;
    printf("FAILED: %s\n", what);
}

static const gyre_kernels *wasm, *scalar;
static test_random source = {40};

static int within(double got, double want, double bound) {
    return fabs(got - want) <= bound;
}

/* gamma_(k + 1) of the sum of absolute values, in double, which is exact enough for floats. */
static void product(void) {
    enum { M = 15, N = 144, K = 37, GAP = 3 };
    static float a[M * K], b[K * (N + GAP)], c[M * (N + GAP)], was[M * (N + GAP)];
    int right = 1, apart = 1;
    for (int64_t m = 1; m <= M; m++)
        for (int64_t n = 16; n <= N; n += 16)
            for (int way = 0; way < 4; way++) {
                const int64_t k = 1 + (m * n) % K, a_row_stride = way & 1 ? 1 : k, a_col_stride = way & 1 ? m : 1;
                test_fill(&source, a, M * K);
                test_fill(&source, b, K * (N + GAP));
                test_fill(&source, c, M * (N + GAP));
                memcpy(was, c, sizeof c);
                wasm->matmul_f32(
                    &(gyre_matmul){m, n, k, a, a_row_stride, a_col_stride, b, N + GAP, c, N + GAP, way >> 1, 0});
                for (int64_t i = 0; i < m; i++) {
                    for (int64_t j = 0; j < n; j++) {
                        double exact = way >> 1 ? (double)was[i * (N + GAP) + j] : 0, size = fabs(exact);
                        for (int64_t l = 0; l < k; l++) {
                            const double term =
                                (double)a[i * a_row_stride + l * a_col_stride] * (double)b[l * (N + GAP) + j];
                            exact += term;
                            size += fabs(term);
                        }
                        right &= within((double)c[i * (N + GAP) + j], exact, (double)(k + 1) * 0x1p-24 * 1.001 * size);
                    }
                    for (int64_t j = n; j < N + GAP; j++)
                        apart &= c[i * (N + GAP) + j] == was[i * (N + GAP) + j];
                }
            }
    check(right, "matmul_f32 is within its bound");
    check(apart, "matmul_f32 writes its columns only");
}

static void products_of_rows(void) {
    const char *wrong = check_row_products(wasm);
    check(!wrong, wrong);
    wrong = check_quant_blocks(wasm, scalar);
    check(!wrong, wrong);
}

static void exponentials(void) {
    float y[16], x[16], sum;
    int right = 1;
    for (double at = -87.33; at < 80; at += 0.0137 * 16) {
        double total = 0;
        for (int i = 0; i < 16; i++) {
            x[i] = y[i] = (float)(at + 0.0137 * i);
            total += exp((double)x[i]);
        }
        wasm->exp_row_f32(y, 16, 0, &sum);
        for (int i = 0; i < 16; i++)
            right &= within((double)y[i], exp((double)x[i]), 0x1p-22 * exp((double)x[i]));
        right &= within((double)sum, total, 0x1p-19 * total);
    }
    check(right, "exp_row_f32 is within 2^-22");
    float edges[16] = {0, -INFINITY, NAN, -87.34f, -88, -104, -1e30f, -0.f, -1000, -90};
    wasm->exp_row_f32(edges, 16, 0, &sum);
    check(edges[0] == 1 && edges[7] == 1 && isnan(edges[2]) && isnan(sum), "exp_row_f32: 0 and NaN");
    int zeros = edges[1] == 0 && edges[8] == 0 && edges[9] == 0;
    for (int i = 3; i <= 6; i++)
        zeros &= edges[i] == 0;
    check(zeros, "exp_row_f32: what is too small is 0");
}

static void rows(void) {
    enum { MOST = 160 };
    static float a[MOST], b[MOST], c[MOST];
    int sums = 1, maxima = 1, finite = 1, scaled = 1, gradients = 1, leaks = 1;
    for (int64_t n = 0; n <= MOST; n += 16)
        for (int64_t odd = 0; odd < n || odd == 0; odd++) {
            float got, want;
            int is_finite;
            double dot = 0, size = 0;
            test_fill(&source, a, MOST);
            test_fill(&source, b, MOST);
            for (int64_t i = 0; i < n; i++) {
                dot += (double)a[i] * (double)b[i];
                size += fabs((double)a[i] * (double)b[i]);
            }
            wasm->dot_row_f32(a, b, n, &got);
            sums &= within((double)got, dot, (double)n * 0x1p-24 * 1.001 * size);
            wasm->finite_row_f32(a, n, &is_finite);
            finite &= is_finite;
            memcpy(c, b, sizeof c);
            wasm->scale_row_f32(c, n, 0.3f);
            for (int64_t i = 0; i < MOST; i++)
                scaled &= c[i] == (i < n ? (float)((double)b[i] * (double)0.3f) : b[i]);
            if (n == 0) continue;
            a[odd] = odd % 3 ? NAN : -INFINITY;
            a[(odd + 5) % n] = 0;
            b[(odd + 5) % n] = NAN;
            wasm->finite_row_f32(a, n, &is_finite);
            finite &= !is_finite;
            wasm->max_row_f32(a, n, &got);
            scalar->max_row_f32(a, n, &want);
            maxima &= got == want;
            memcpy(c, b, sizeof c);
            wasm->leaky_relu_row_f32(c, c, n, 0.25f, -0.3f);
            for (int64_t i = 0; i < n; i++) {
                const float unit = b[i] + 0.25f;
                leaks &= same_number((double)c[i], (double)(unit > 0 ? unit : -0.3f * unit));
            }
            memcpy(c, b, sizeof c);
            wasm->leaky_relu_gradient_row_f32(a, c, n, -0.3f);
            for (int64_t i = 0; i < n; i++)
                leaks &= same_number((double)c[i], (double)(a[i] > 0 ? b[i] : -0.3f * b[i]));
            memcpy(c, b, sizeof c);
            wasm->softmax_gradient_row_f32(a, c, n, 0.25f);
            for (int64_t i = 0; i < n; i++)
                gradients &= same_number((double)c[i] + 0.0, a[i] == 0 ? 0 : (double)(a[i] * (b[i] - 0.25f)) + 0.0);
        }
    check(sums, "dot_row_f32 is within its bound");
    check(maxima, "max_row_f32 finds the largest, NaNs or not");
    check(finite, "finite_row_f32 finds what is not");
    check(scaled, "scale_row_f32 rounds once");
    check(gradients, "softmax_gradient_row_f32 by its definition");
    check(leaks, "leaky_relu_row_f32 and its gradient by their definition");
}

static void picks(void) {
    enum { LINES = 3, WIDTH = 40, ROWS = 120, SIZE = LINES * (WIDTH + 1) };
    static float from[LINES * ROWS], to[SIZE], want[SIZE];
    static int32_t row[ROWS];
    int right = 1;
    for (int way = -1; way <= 2; way++)
        for (int64_t n = 0; n <= WIDTH; n++) {
            test_fill(&source, from, LINES * ROWS);
            test_fill(&source, to, SIZE);
            memcpy(want, to, sizeof to);
            for (int i = 0; i < ROWS; i++)
                row[i] = 1000 + (way == 2 ? (int)(test_next(&source) % ROWS) : way < 0 ? 90 - i : way * i);
            gyre_gather_add pick = {
                .lines = LINES, .n = n, .to = to, .to_row_stride = WIDTH + 1, .from = from, .from_row_stride = ROWS};
            pick.row = row;
            pick.base = 1000;
            pick.steady = way < 2;
            wasm->gather_add_f32(&pick);
            for (int l = 0; l < LINES; l++)
                for (int64_t j = 0; j < n; j++)
                    want[l * (WIDTH + 1) + j] += from[l * ROWS + row[j] - 1000];
            right &= memcmp(to, want, sizeof to) == 0;
        }
    check(right, "pick_f32 by its definition");
}

static void transposes(void) {
    enum { ROWS = 48, COLUMNS = 32, IN = COLUMNS + 3, OUT = ROWS + 5 };
    static float in[ROWS * IN], out[COLUMNS * OUT];
    int right = 1;
    for (int i = 0; i < ROWS * IN; i++)
        in[i] = (float)i;
    wasm->transpose_f32(&(gyre_transpose){ROWS, COLUMNS, in, IN, out, OUT});
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < OUT; r++)
            right &= out[c * OUT + r] == (r < ROWS ? in[r * IN + c] : 0);
    check(right, "transpose_f32");
}

static void adds(void) {
    enum { MOST = 70 };
    static float in[MOST], out[MOST], want[MOST], row[MOST]; /* of any type */
    void (*const kernels[])(const void *, void *, const float *, int64_t) = {wasm->add_f32, wasm->add_f16, wasm->add_bf16};
    for (int type = 0; type < 3; type++) {
        const gyre_dtype dtype = rotation_types[type].dtype;
        int right = 1;
        for (int64_t n = 0; n <= MOST; n++) {
            test_fill(&source, row, MOST);
            memset(out, 0x5A, sizeof out);
            memset(want, 0x5A, sizeof want);
            for (size_t i = 0; i < (size_t)n; i++) {
                test_put(in, dtype, i, test_uniform(&source));
                test_put(want, dtype, i, (double)(float)(test_get(in, dtype, i) + (double)row[i]));
            }
            kernels[type](in, out, row, n);
            right &= memcmp(out, want, sizeof out) == 0;
        }
        check(right, "add by its definition");
    }
}

/* -- few queries -- */
enum { FEW_KEYS = 13, FEW_CHANNELS = 75, FEW_PAD = 80 };

/* Elements of type i of f32, f16, bf16 and q8, and their values. */
static void fill_elements(int type, void *data, double *exact, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (type == 3) {
            exact[i] = ((int8_t *)data)[i] = (int8_t)((int)(test_next(&source) % 255) - 127);
        } else {
            const gyre_dtype dtype = type == 0 ? GYRE_DTYPE_F32 : type == 1 ? GYRE_DTYPE_F16 : GYRE_DTYPE_BF16;
            test_put(data, dtype, (size_t)i, test_uniform(&source));
            exact[i] = test_get(data, dtype, (size_t)i);
        }
}

static void few_rows(int type, int64_t rows, int64_t channels) {
    void (*const score[])(const gyre_key_scores *) = {wasm->score_rows_f32, wasm->score_rows_f16, wasm->score_rows_bf16,
                                                      wasm->score_rows_q8};
    void (*const weigh[])(const gyre_weighted_values *) = {wasm->weighted_sum_f32, wasm->weighted_sum_f16,
                                                           wasm->weighted_sum_bf16, wasm->weighted_sum_q8};
    static float k[FEW_KEYS * FEW_CHANNELS], q[9 * FEW_PAD], scores[9 * FEW_KEYS], out[9 * FEW_PAD];
    static double exact[FEW_KEYS * FEW_CHANNELS];
    int right = 1;
    fill_elements(type, k, exact, FEW_KEYS * channels);
    test_fill(&source, q, 9 * FEW_PAD);
    memset(out, 0, sizeof out);
    for (int64_t i = 0; i < rows * FEW_PAD; i++)
        q[i] = i % FEW_PAD < channels ? q[i] : 0;
    score[type](&(gyre_key_scores){rows, FEW_KEYS, channels, q, FEW_PAD, k, channels, NULL, scores, FEW_KEYS, 0, NULL, 0});
    weigh[type](&(gyre_weighted_values){rows, FEW_KEYS, channels, scores, FEW_KEYS, k, channels, out, FEW_PAD, 0});
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < FEW_KEYS; j++) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < channels; c++) {
                sum += (double)q[r * FEW_PAD + c] * exact[j * channels + c];
                size += fabs((double)q[r * FEW_PAD + c] * exact[j * channels + c]);
            }
            right &= within((double)scores[r * FEW_KEYS + j], sum, (double)(channels + 2) * 0x1p-24 * 1.001 * size);
        }
        for (int64_t c = 0; c < channels; c++) {
            double sum = 0, size = 0;
            for (int64_t j = 0; j < FEW_KEYS; j++) {
                sum += (double)scores[r * FEW_KEYS + j] * exact[j * channels + c];
                size += fabs((double)scores[r * FEW_KEYS + j] * exact[j * channels + c]);
            }
            right &= within((double)out[r * FEW_PAD + c], sum, (FEW_KEYS + 1) * 0x1p-24 * 1.001 * size);
        }
    }
    check(right, "score_rows and weigh_rows are within their bounds");
}

static void few_queries(void) {
    for (int type = 0; type < 4; type++)
        for (int64_t channels = 1; channels <= FEW_CHANNELS; channels++)
            few_rows(type, channels % 9 + 1, channels);
    int8_t whole[70];
    float wide[70];
    int right = 1;
    for (int i = 0; i < 70; i++)
        whole[i] = (int8_t)(i * 37 % 256 - 128);
    wasm->widen_q8(whole, wide, 70);
    for (int i = 0; i < 70; i++)
        right &= wide[i] == (float)whole[i];
    check(right, "widen_q8");
}

static void caps(void) {
    int right = 1;
    for (double at = -200; at < 200; at += 0.173 * 16) {
        float x[16], y[16], slope[16];
        for (int i = 0; i < 16; i++)
            x[i] = y[i] = (float)(at + 0.173 * i);
        wasm->softcap_row_f32(y, slope, 16, 30);
        for (int i = 0; i < 16; i++) {
            const double t = tanh((double)x[i] / 30);
            right &= within((double)y[i], 30 * t, 30 * 0x1p-22) && within((double)slope[i], 1 - t * t, 0x1p-21);
        }
    }
    check(right, "softcap_row_f32 is within 2^-22 of its cap");
    float edges[16] = {-INFINITY, INFINITY, NAN}, slope[16];
    wasm->softcap_row_f32(edges, slope, 16, 30);
    check(edges[0] == -INFINITY && slope[0] == 0 && edges[1] == 30 && isnan(edges[2]) && edges[3] == 0 && slope[3] == 1,
          "softcap_row_f32 at the edges");
}

/* An angle that is not a rounding tie must be the float nearest to the long double result. */
static void angles(void) {
    enum { ROWS = 64, PAIRS = 37 };
    static double step_cosine[ROWS * PAIRS], step_sine[ROWS * PAIRS], cosine[PAIRS], sine[PAIRS];
    static float c[ROWS * PAIRS], s[ROWS * PAIRS];
    unsigned char doubtful[ROWS] = {0};
    int doubts = 0, right = 1;
    for (int i = 0; i < PAIRS; i++) {
        cosine[i] = cos(i * 0.37 + 5);
        sine[i] = sin(i * 0.37 + 5);
        for (int j = 0; j < ROWS; j++) {
            step_cosine[j * PAIRS + i] = cos(j / (i + 1.7));
            step_sine[j * PAIRS + i] = sin(j / (i + 1.7));
        }
    }
    wasm->angle_rows(&(gyre_angle_block){.rows = ROWS,
                                         .pairs = PAIRS,
                                         .step_row_stride = PAIRS,
                                         .out_row_stride = PAIRS,
                                         .factor = 1.25,
                                         .sine_factor = -1.25,
                                         .cosine = cosine,
                                         .sine = sine,
                                         .step_cosine = step_cosine,
                                         .step_sine = step_sine,
                                         .cosine_out = c,
                                         .sine_out = s,
                                         .doubtful = doubtful});
    for (int j = 0; j < ROWS; j++) {
        doubts += doubtful[j];
        for (int i = 0; i < PAIRS && !doubtful[j]; i++) {
            const long double x = (long double)cosine[i], y = (long double)sine[i];
            const long double p = (long double)step_cosine[j * PAIRS + i], q = (long double)step_sine[j * PAIRS + i];
            right &= c[j * PAIRS + i] == (float)(1.25L * (x * p - y * q)) &&
                     s[j * PAIRS + i] == (float)(-1.25L * (y * p + x * q));
        }
    }
    check(right && doubts < ROWS / 4, "angle_rows rounds as the exact product does");
}

static void rotations(void) {
    for (int i = 0; i < ROTATION_TYPES; i++) {
        const rotation_type *type = &rotation_types[i];
        rotate_kernel *kernel = rotation_of(wasm, type->dtype);
        const rotation_verdict verdict = check_rotations(kernel, type->dtype);
        const char *odd = check_nonfinite_pairs(kernel, type->dtype);
        const char *rounding = gyre_dtype_size(type->dtype) == 2 ? check_all_roundings(kernel, type->dtype) : NULL;
        printf("rotate_%s wasm: %.2f of its bound\n", type->name, verdict.worst);
        check(!verdict.wrong, verdict.wrong);
        check(!odd, odd);
        check(!rounding, rounding);
    }
}

/* -- the public functions, under either tier -- */
enum { TOKENS = 100, QUERY_HEADS = 4, KEY_HEADS = 2, DIM = 64 };

static gyre_encoding *rope(const char *tier) {
    gyre_config config = GYRE_INIT(gyre_config);
    gyre_encoding *encoding = NULL;
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = DIM;
    check(setenv("GYRE_CPU", tier, 1) == 0, "setenv");
    check(!gyre_encoding_create(&encoding, &config, NULL, NULL), "gyre_encoding_create");
    return encoding;
}

static void rotate_publicly(const char *tier, gyre_dtype dtype, void *x) {
    gyre_encoding *encoding = rope(tier);
    gyre_view view = gyre_dense(x, dtype, 1, TOKENS, QUERY_HEADS, DIM);
    gyre_cview in = gyre_const(view);
    const gyre_positions positions = {.base = 1000000};
    check(!gyre_rotate(encoding,
                       GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = in, .out = view),
                       NULL, NULL),
          "gyre_rotate");
    gyre_encoding_free(encoding);
}

static void rotates_publicly(void) {
    enum { SIZE = TOKENS * QUERY_HEADS * DIM };
    static double x[SIZE], y[SIZE];
    for (int i = 0; i < ROTATION_TYPES; i++) {
        const gyre_dtype dtype = rotation_types[i].dtype;
        int same = 1;
        for (size_t at = 0; at < SIZE; at++)
            test_put(x, dtype, at, test_uniform(&source));
        memcpy(y, x, sizeof x);
        rotate_publicly("wasm", dtype, x);
        rotate_publicly("scalar", dtype, y);
        for (size_t at = 0; at < SIZE; at++) /* neither uses FMA, so their bits agree */
            same &= same_number(test_get(x, dtype, at), test_get(y, dtype, at));
        check(same, "gyre_rotate: wasm and scalar agree");
    }
}

/* Queries `first` to `end` - 1 over the keys before `end`. */
static void attend(const char *tier, gyre_order order, float *q, float *k, float *v, float *out, int64_t first,
                   int64_t end) {
    attention_setup args = GYRE_INIT(attention_setup);
    gyre_encoding *encoding = rope(tier);
    const int64_t at = first * QUERY_HEADS * DIM;
    args.encoding = encoding;
    args.order = order;
    args.q = gyre_const(gyre_dense(q + at, GYRE_DTYPE_F32, 1, end - first, QUERY_HEADS, DIM));
    args.k = gyre_const(gyre_dense(k, GYRE_DTYPE_F32, 1, end, KEY_HEADS, DIM));
    args.v = gyre_const(gyre_dense(v, GYRE_DTYPE_F32, 1, end, KEY_HEADS, DIM));
    args.q_pos.base = first;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out + at, GYRE_DTYPE_F32, 1, end - first, QUERY_HEADS, DIM);
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    check(bytes > 0 && scratch, "gyre_attention_scratch");
    check(!run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), "gyre_attention");
    free(scratch);
    gyre_encoding_free(encoding);
}

static void attends_publicly(void) {
    static float q[TOKENS * QUERY_HEADS * DIM], k[TOKENS * KEY_HEADS * DIM], v[TOKENS * KEY_HEADS * DIM];
    static float out[2][TOKENS * QUERY_HEADS * DIM];
    int same = 1, first = 1;
    test_fill(&source, q, TOKENS * QUERY_HEADS * DIM);
    test_fill(&source, k, TOKENS * KEY_HEADS * DIM);
    test_fill(&source, v, TOKENS * KEY_HEADS * DIM);
    attend("wasm", GYRE_ORDER_FAST, q, k, v, out[0], 0, TOKENS);
    attend("scalar", GYRE_ORDER_FAST, q, k, v, out[1], 0, TOKENS);
    for (int i = 0; i < TOKENS * QUERY_HEADS * DIM; i++)
        same &= within((double)out[0][i], (double)out[1][i], 1e-5);
    for (int h = 0; h < QUERY_HEADS; h++) /* the first token sees only itself: its value */
        for (int i = 0; i < DIM; i++)
            first &= within((double)out[0][h * DIM + i], (double)v[h / (QUERY_HEADS / KEY_HEADS) * DIM + i], 1e-6);
    check(same, "gyre_attention: wasm and scalar agree");
    check(first, "gyre_attention: the first token sees its own value");
    attend("wasm", GYRE_ORDER_FIXED, q, k, v, out[0], 0, TOKENS);
    for (int64_t at = 0, end; at < TOKENS; at = end) {
        end = at + 1 + at % 17 < TOKENS ? at + 1 + at % 17 : TOKENS;
        attend("wasm", GYRE_ORDER_FIXED, q, k, v, out[1], at, end);
    }
    check(memcmp(out[0], out[1], sizeof out[0]) == 0, "gyre_attention: in the fixed order a cut changes no bit");
}

static void pool_of_one(void) {
    gyre_pool *pool = NULL;
    check(gyre_pool_create(&pool, 2, NULL) == GYRE_EUNSUPPORTED && !pool, "two threads: EUNSUPPORTED");
    check(gyre_pool_create(&pool, -1, NULL) == GYRE_EINVAL && !pool, "-1 threads: EINVAL");
    check(!gyre_pool_create(&pool, 0, NULL) && gyre_pool_exec(pool).concurrency == 1, "a pool of one thread");
    gyre_pool_free(pool);
}

/* Two tiers generate the same random numbers from a counter and make the same dropout decisions, to the bit. */
static void dropping(void) {
    uint32_t numbers[2][GYRE_PHILOX_NUMBERS];
    float x[2][GYRE_PHILOX_NUMBERS];
    int right = 1, apart = 1;
    for (uint32_t round = 0; round < 100; round++) {
        const gyre_philox job = {{UINT32_MAX - round % 40, round, 7 * round, ~round}, {round << 20, 3}};
        wasm->philox(&job, numbers[0]);
        scalar->philox(&job, numbers[1]);
        right &= memcmp(numbers[0], numbers[1], sizeof numbers[0]) == 0;
        for (int64_t n = round % GYRE_PHILOX_NUMBERS, t = 0; t < 2; t++) {
            for (int i = 0; i < GYRE_PHILOX_NUMBERS; i++)
                x[t][i] = i % 9 == 4 ? NAN : i % 9 == 5 ? INFINITY : 1 + (float)i;
            (t ? scalar : wasm)->dropout_row_f32(&(gyre_dropout_row){numbers[1], 1u << 31, 1.25f}, x[t], n);
        }
        for (int i = 0; i < GYRE_PHILOX_NUMBERS; i++)
            apart &= (isnan(x[0][i]) && isnan(x[1][i])) || x[0][i] == x[1][i];
    }
    check(right, "philox is that of the scalar tier");
    check(apart, "drop_row_f32 is that of the scalar tier");
}

int main(void) {
    unsetenv("GYRE_CPU");
    wasm = gyre_kernels_tier("wasm");
    scalar = gyre_kernels_tier("scalar");
    check(wasm && gyre_kernels_select() == wasm, "the wasm tier is there, and picked");
    check(!gyre_kernels_tier("avx2") && !gyre_kernels_tier("neon"), "no other processor's tier");
    if (!wasm) return 1;
    product();
    products_of_rows();
    exponentials();
    rows();
    picks();
    transposes();
    adds();
    few_queries();
    dropping();
    caps();
    angles();
    rotations();
    rotates_publicly();
    attends_publicly();
    pool_of_one();
    printf("%d checks, %d failed\n", checks, failures);
    return failures > 0;
}

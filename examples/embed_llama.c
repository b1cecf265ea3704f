/* embed_llama.c: a decode loop in the manner of small Llama engines, once with plain loops for rotation and attention, once
 * with Gyre in the engine's own memory.  Weights are random numbers; both ways choose the same tokens. */
#include <gyre/gyre.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 4, KEY_HEADS = 2, DIM = 16, WIDTH = HEADS * DIM, KEY_WIDTH = KEY_HEADS * DIM };
enum { HIDDEN = 96, WORDS = 80, TOKENS = 48 };

/* What the engine has: weights, the state of one token, and keys and values of the tokens before. */
typedef struct layer {
    float q[WIDTH][WIDTH], k[KEY_WIDTH][WIDTH], v[KEY_WIDTH][WIDTH], o[WIDTH][WIDTH];
    float gate[HIDDEN][WIDTH], up[HIDDEN][WIDTH], down[WIDTH][HIDDEN];
} layer;
typedef struct engine {
    layer layers[LAYERS];
    float embedding[WORDS][WIDTH], logits[WORDS];
    float keys[LAYERS][TOKENS][KEY_WIDTH], values[LAYERS][TOKENS][KEY_WIDTH];
    const gyre_encoding *rope; /* NULL = plain loops */
    gyre_scratch scratch;
} engine;

static void fill(float *x, size_t n, float size, unsigned *seed) {
    for (size_t i = 0; i < n; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        x[i] = size * ((float)(*seed >> 8) / (float)(1 << 23) - 1);
    }
}

static void multiply(float *out, const float *w, const float *x, int rows, int n) {
    for (int r = 0; r < rows; r++) {
        out[r] = 0;
        for (int i = 0; i < n; i++)
            out[r] += w[r * n + i] * x[i];
    }
}

static void normalize(float *out, const float *x) {
    float squares = 0;
    for (int i = 0; i < WIDTH; i++)
        squares += x[i] * x[i];
    for (int i = 0; i < WIDTH; i++)
        out[i] = x[i] / sqrtf(squares / WIDTH + 1e-5f);
}

/* -- with plain loops -- */

static void rotate_plainly(float *x, int heads, int position) {
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < DIM / 2; i++) {
            float *pair = x + h * DIM + 2 * i;
            const float angle = (float)position * powf(10000, -2.0f * (float)i / DIM), a = pair[0], b = pair[1];
            pair[0] = a * cosf(angle) - b * sinf(angle);
            pair[1] = a * sinf(angle) + b * cosf(angle);
        }
}

static void attend_plainly(const engine *e, int l, int position, const float *q, float *out) {
    for (int h = 0; h < HEADS; h++) {
        const int from = h / (HEADS / KEY_HEADS) * DIM;
        float weights[TOKENS], most = -INFINITY, sum = 0;
        for (int t = 0; t <= position; t++) {
            weights[t] = 0;
            for (int c = 0; c < DIM; c++)
                weights[t] += q[h * DIM + c] * e->keys[l][t][from + c] / sqrtf(DIM);
            most = fmaxf(most, weights[t]);
        }
        for (int t = 0; t <= position; t++)
            sum += weights[t] = expf(weights[t] - most);
        for (int c = 0; c < DIM; c++) {
            out[h * DIM + c] = 0;
            for (int t = 0; t <= position; t++)
                out[h * DIM + c] += weights[t] / sum * e->values[l][t][from + c];
        }
    }
}

/* -- with Gyre -- */

/* One query over the keys and values of tokens 0 .. position, which lie where the engine keeps them. */
static gyre_attention_args attention_of(const engine *e, int l, int position, const float *q, float *out) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.k = gyre_cdense(e->keys[l], GYRE_DTYPE_F32, 1, position + 1, KEY_HEADS, DIM);
    args.v = gyre_cdense(e->values[l], GYRE_DTYPE_F32, 1, position + 1, KEY_HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    return args; /* no encoding: queries and keys are rotated already */
}

static gyre_status rotate_and_attend(engine *e, int l, int position, float *q, float *out, gyre_error *err) {
    const gyre_view query = gyre_dense(q, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    const gyre_view key = gyre_dense(e->keys[l][position], GYRE_DTYPE_F32, 1, 1, KEY_HEADS, DIM);
    gyre_status status = gyre_rotate_dense(e->rope, GYRE_ROLE_QUERY, query, position, 0, err);
    if (!status) status = gyre_rotate_dense(e->rope, GYRE_ROLE_KEY, key, position, 0, err);
    if (status) return status;
    const gyre_attention_args args = attention_of(e, l, position, q, out);
    return gyre_attention(&args, e->scratch, NULL, err);
}

/* Scratch memory, once: what the most keys need suffices for fewer. */
static gyre_status take_scratch(engine *e, gyre_error *err) {
    static float q[WIDTH], out[WIDTH];
    const gyre_attention_args args = attention_of(e, 0, TOKENS - 1, q, out);
    const gyre_status status = gyre_attention_scratch(&args, 0, NULL, &e->scratch.bytes, err);
    if (status) return status;
    e->scratch.bytes = (e->scratch.bytes + 63) / 64 * 64;
    e->scratch.memory = aligned_alloc(64, e->scratch.bytes);
    return e->scratch.memory ? GYRE_OK : GYRE_ENOMEM;
}

/* -- the loop -- */

static void feed_forward(const layer *w, float *x) {
    float normal[WIDTH], gate[HIDDEN], up[HIDDEN], down[WIDTH];
    normalize(normal, x);
    multiply(gate, w->gate[0], normal, HIDDEN, WIDTH);
    multiply(up, w->up[0], normal, HIDDEN, WIDTH);
    for (int i = 0; i < HIDDEN; i++)
        gate[i] *= up[i] / (1 + expf(-gate[i]));
    multiply(down, w->down[0], gate, WIDTH, HIDDEN);
    for (int i = 0; i < WIDTH; i++)
        x[i] += down[i];
}

static gyre_status read_token(engine *e, int token, int position, gyre_error *err) {
    float x[WIDTH], normal[WIDTH], q[WIDTH], attended[WIDTH], o[WIDTH];
    memcpy(x, e->embedding[token], sizeof x);
    for (int l = 0; l < LAYERS; l++) {
        const layer *w = &e->layers[l];
        normalize(normal, x);
        multiply(q, w->q[0], normal, WIDTH, WIDTH);
        multiply(e->keys[l][position], w->k[0], normal, KEY_WIDTH, WIDTH);
        multiply(e->values[l][position], w->v[0], normal, KEY_WIDTH, WIDTH);
        if (e->rope) {
            const gyre_status status = rotate_and_attend(e, l, position, q, attended, err);
            if (status) return status;
        } else {
            rotate_plainly(q, HEADS, position);
            rotate_plainly(e->keys[l][position], KEY_HEADS, position);
            attend_plainly(e, l, position, q, attended);
        }
        multiply(o, w->o[0], attended, WIDTH, WIDTH);
        for (int i = 0; i < WIDTH; i++)
            x[i] += o[i];
        feed_forward(w, x);
    }
    normalize(normal, x);
    multiply(e->logits, e->embedding[0], normal, WORDS, WIDTH);
    return GYRE_OK;
}

/* tokens[0] is the prompt; the others are the most likely ones. */
static gyre_status decode(engine *e, int *tokens, float (*logits)[WORDS], gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int t = 0; t < TOKENS && !status; t++) {
        status = read_token(e, tokens[t], t, err);
        memcpy(logits[t], e->logits, sizeof e->logits);
        int best = 0;
        for (int i = 1; i < WORDS; i++)
            if (e->logits[i] > e->logits[best]) best = i;
        if (t + 1 < TOKENS) tokens[t + 1] = best;
    }
    return status;
}

int main(void) {
    static engine e;
    static float plain[TOKENS][WORDS], with_gyre[TOKENS][WORDS];
    int plain_tokens[TOKENS] = {1}, tokens[TOKENS] = {1};
    gyre_error err = {0, ""};
    gyre_encoding *rope = NULL;
    unsigned seed = 7;
    fill((float *)e.layers, sizeof e.layers / (sizeof(float)), 0.2f, &seed);
    fill(e.embedding[0], (size_t)WORDS * WIDTH, 1, &seed);
    gyre_status status = decode(&e, plain_tokens, plain, &err);
    if (!status) status = gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_INTERLEAVED, &err);
    if (!status) status = take_scratch(&e, &err);
    e.rope = rope;
    if (!status) status = decode(&e, tokens, with_gyre, &err);
    float most = 0;
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < WORDS; i++)
            most = fmaxf(most, fabsf(plain[t][i] - with_gyre[t][i]));
    const int same = memcmp(plain_tokens, tokens, sizeof tokens) == 0;
    printf("%s: %d tokens, %s, logits at most %.1e apart\n", status ? err.text : "ok", (int)TOKENS,
           same ? "the same both ways" : "which differ", (double)most);
    free(e.scratch.memory);
    gyre_encoding_free(rope);
    return status || !same || most > 1e-3f;
}

/* fuzz_cache.c: feeds any bytes as a cache file to libFuzzer. A cache that loads is used in every possible way.
 *
 * The first byte selects the encoding that the file is read with (its low two bits) and whether the checksums are corrected
 * first (the next bit). Without the correction few inputs would pass the checksums. Half of the inputs are made from others
 * by changes of whole numbers. With the bit after that the file is one of all layers. */
#include "attention_setup.h"
#include "fuzz_support.h"
#include "gyre/gyre_cache.h"

#include <stdlib.h>
#include <string.h>

enum { DIM = 8, QUERIES = 10, MOST_BYTES = 1 << 22, MOST_TOKENS = 1 << 12 };
enum { NUMBERS = 12, DIM_AT = NUMBERS + 8 * 12, FACTOR_AT = NUMBERS + 8 * 19 }; /* src/cache/cache_file.h */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* -- files -- */

static void sign(uint8_t *bytes, size_t count) {
    uint32_t sum = 0xffffffffu;
    for (size_t i = 0; i < count; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78u : 0);
    }
    sum = ~sum;
    for (int i = 0; i < 4; i++)
        bytes[count + (size_t)i] = (uint8_t)(sum >> 8 * i);
}

/* out = where the header's checksum is, which follows the frequencies of `dim` channels; 0 = there is none. */
static size_t header_end(const uint8_t *bytes, size_t size) {
    int64_t dim = 0;
    if (size < FACTOR_AT + 24) return 0;
    memcpy(&dim, bytes + DIM_AT, sizeof dim);
    const size_t later = bytes[8] == 2 || bytes[8] == 3 ? 8 * (size_t)(bytes[8] - 1) : 0; /* a field more in each version */
    const size_t end = FACTOR_AT + later + (dim > 0 && dim <= 64 ? 8 + 4 * (size_t)dim : 0);
    return end + 8 > size ? 0 : end;
}

/* Corrects both checksums. */
static void sign_all(uint8_t *bytes, size_t size) {
    const size_t end = header_end(bytes, size);
    if (end == 0) return;
    sign(bytes, end);
    sign(bytes, size - 4);
}

/* Corrects the checksums of a file of all layers. */
static void sign_layers(uint8_t *bytes, size_t size) {
    enum { COUNT_END = NUMBERS + 8 };
    if (size < COUNT_END + 4) return;
    sign(bytes, COUNT_END);
    for (size_t at = COUNT_END + 4, left; size - at >= 8; at += left) {
        uint64_t length;
        memcpy(&length, bytes + at, sizeof length);
        at += 8;
        left = length < size - at ? (size_t)length : size - at;
        sign_all(bytes + at, left);
    }
}

/* -- files that differ in a number of the format -- */

enum { SEQUENCES = 6, RANGES = 16, PAGES = 17, BYTES = 18, RANGE_WORDS = 3 + GYRE_MAX_AXES };

static int64_t field(const uint8_t *bytes, size_t at) {
    int64_t value;
    memcpy(&value, bytes + at, sizeof value);
    return value;
}

static void set_field(uint8_t *bytes, size_t at, int64_t value) {
    memcpy(bytes + at, &value, sizeof value);
}

static uint64_t draw(uint64_t *state, uint64_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* out = numbers of the lists after the header, and as many positions as lie in the file of the 64 behind them. */
static size_t list_words(const uint8_t *bytes, size_t size, size_t end) {
    const size_t there = (size - 4 - end - 4) / 8;
    const int64_t sequences = field(bytes, NUMBERS + 8 * SEQUENCES), ranges = field(bytes, NUMBERS + 8 * RANGES),
                  pages = field(bytes, NUMBERS + 8 * PAGES), most = 1 << 20;
    if (sequences < 0 || sequences > most || ranges < 0 || ranges > most || pages < 0 || pages > most) return there;
    const size_t words = (size_t)(sequences + RANGE_WORDS * ranges + 2 * pages) + 64;
    return words < there ? words : there;
}

static void spoil_number(uint8_t *bytes, size_t size, size_t end, uint64_t *state) {
    static const int64_t edges[] = {0,           1,
                                    2,           3,
                                    4,           8,
                                    16,          63,
                                    64,          1024,
                                    1025,        -1,
                                    -2,          INT32_MAX,
                                    INT32_MIN,   1LL << 31,
                                    1LL << 32,   1LL << 33,
                                    1LL << 53,   INT64_MAX,
                                    INT64_MIN,   INT64_MAX - 7,
                                    -(1LL << 32)};
    const size_t header = (end - NUMBERS) / 8, lists = list_words(bytes, size, end);
    const size_t words[2] = {(size_t)draw(state, header + lists), (size_t)draw(state, header + lists)};
    size_t at[2];
    for (int i = 0; i < 2; i++)
        at[i] = words[i] < header ? NUMBERS + 8 * words[i] : end + 4 + 8 * (words[i] - header);
    const int64_t old = field(bytes, at[0]), other = field(bytes, at[1]);
    switch (draw(state, 5)) {
    case 0:
        set_field(bytes, at[0], edges[draw(state, sizeof edges / sizeof *edges)]);
        break;
    case 1:
        set_field(bytes, at[0], (int64_t)((uint64_t)old + 1));
        break;
    case 2:
        set_field(bytes, at[0], (int64_t)((uint64_t)old - 1));
        break;
    case 3:
        set_field(bytes, at[0], (int64_t)((uint64_t)old * 2));
        break;
    default:
        set_field(bytes, at[0], other);
    }
}

/* Doubles a range of the last sequence, whose lists then fit the header again; out = the size. */
static size_t double_range(uint8_t *bytes, size_t size, size_t room, size_t end, uint64_t *state) {
    const int64_t sequences = field(bytes, NUMBERS + 8 * SEQUENCES), ranges = field(bytes, NUMBERS + 8 * RANGES);
    const size_t each = 8 * RANGE_WORDS;
    if (sequences < 1 || sequences > 64 || ranges < 1 || ranges > 64 || size + each > room) return size;
    const size_t counts = end + 4, last = counts + 8 * (size_t)(sequences - 1),
                 from = last + 8 + each * (size_t)draw(state, (uint64_t)ranges), to = last + 8 + each * (size_t)ranges;
    if (to > size) return size;
    memmove(bytes + to + each, bytes + to, size - to);
    memcpy(bytes + to, bytes + from, each);
    set_field(bytes, last, (int64_t)((uint64_t)field(bytes, last) + 1));
    set_field(bytes, NUMBERS + 8 * RANGES, ranges + 1);
    return size + each;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

/* Half of the inputs differ in whole numbers of the format and have right checksums. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    uint64_t state = seed;
    const size_t end = size > 0 ? header_end(data + 1, size - 1) : 0;
    if (end == 0 || data[0] & 8 || draw(&state, 2) == 0) return LLVMFuzzerMutate(data, size, room);
    data[0] |= 4;
    if (draw(&state, 8) == 0) size = 1 + double_range(data + 1, size - 1, room - 1, end, &state);
    for (uint64_t i = draw(&state, 3); i > 0; i--)
        spoil_number(data + 1, size - 1, end, &state);
    if (draw(&state, 8) > 0) set_field(data + 1, NUMBERS + 8 * BYTES, (int64_t)(size - 1));
    return size;
}

/* -- memory: no more than a file of so many bytes may need -- */

static void *purse_alloc(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    return bytes > MOST_BYTES ? NULL : aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void purse_free(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

/* -- use -- */

static gyre_encoding *encoding_of(int which, double base) {
    gyre_config config = GYRE_INIT(gyre_config);
    gyre_encoding *encoding = NULL;
    config.kind = which == 3 ? GYRE_KIND_ALIBI : GYRE_KIND_ROPE;
    config.heads = 2;
    config.head_dim = DIM;
    config.rope.dim = which == 3 ? 0 : DIM;
    config.rope.base = which == 3 ? 0 : base;
    config.rope.axes = which == 2 ? 2 : 0;
    config.rope.axis_pairs[0] = config.rope.axis_pairs[1] = which == 2 ? DIM / 4 : 0;
    if (which > 0) fuzz_require(!gyre_encoding_create(&encoding, &config, NULL, NULL), "an encoding");
    return encoding;
}

static void attend(const gyre_cache *cache, int64_t sequence) {
    const gyre_cache_config *c = gyre_cache_get_config(cache);
    const int64_t heads = c->gate_heads > 0 ? c->gate_heads : c->heads;
    attention_setup args = GYRE_INIT(attention_setup);
    for (int64_t queries = 1; queries <= QUERIES; queries += QUERIES - 1) {
        float *q = calloc((size_t)(queries * heads * c->head_dim), sizeof *q),
              *out = calloc((size_t)(queries * heads * c->value_dim), sizeof *out);
        args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, queries, heads, c->head_dim);
        args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, queries, heads, c->value_dim);
        if (c->gate_heads > 0) args.q_gate_sums = gyre_cdense(q, GYRE_DTYPE_F32, 1, queries, heads, 1); /* zeros */
        args.causal = GYRE_CAUSAL_BY_POSITION;
        const size_t bytes = cache_attention_scratch(cache, &sequence, &args, NULL);
        void *scratch = bytes > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
        if (q && out && scratch) {
            const gyre_status status =
                run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, NULL);
            fuzz_require(!status || heads != 2 || heads % c->heads != 0, "a cache that is let in can be attended to");
        }
        free(scratch);
        free(q);
        free(out);
    }
}

/* Appends tokens of zeros. */
static void append(gyre_cache *cache, int64_t sequence, int64_t tokens) {
    const gyre_cache_config *c = gyre_cache_get_config(cache);
    float *k = calloc((size_t)(tokens * c->heads * c->head_dim), sizeof *k),
          *v = calloc((size_t)(tokens * c->heads * c->value_dim), sizeof *v),
          *sums = calloc((size_t)(tokens * (c->gate_heads + 1)), sizeof *sums);
    gyre_cache_append_args args = GYRE_INIT(gyre_cache_append_args);
    args.sequence = sequence;
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, tokens, c->heads, c->head_dim);
    if (!c->values_in_keys) args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, tokens, c->heads, c->value_dim);
    if (c->gate_heads > 0) args.gates = gyre_cdense(sums, GYRE_DTYPE_F32, 1, tokens, c->gate_heads, 1);
    args.positions = &(const gyre_positions){.base = 7};
    const int64_t before = gyre_cache_tokens(cache, sequence);
    if (k && v && sums) {
        const gyre_status status = gyre_cache_append(cache, &args, NULL, NULL);
        fuzz_require(!status || status == GYRE_ENOMEM, "zeros are appended, or there is no room");
        fuzz_require(gyre_cache_tokens(cache, sequence) == before + (!status ? tokens : 0), "all or nothing");
    }
    free(k);
    free(v);
    free(sums);
}

static void save_and_load(const gyre_cache *cache) {
    const gyre_cache_config *c = gyre_cache_get_config(cache);
    gyre_cache *again = NULL;
    gyre_error err = {0, ""};
    fuzz_require(!gyre_cache_save(cache, fuzz_path("cache"), &err), err.text);
    fuzz_require(!gyre_cache_load(&again, fuzz_path("cache"), c->encoding, NULL, &err), err.text);
    for (int64_t i = 0; i < c->sequences; i++)
        fuzz_require(gyre_cache_tokens(again, i) == gyre_cache_tokens(cache, i), "a cache that was saved is read back");
    gyre_cache_free(again);
    gyre_cache *const layers[2] = {NULL, (gyre_cache *)cache};
    const gyre_encoding *const encodings[2] = {NULL, c->encoding};
    gyre_cache *both[2];
    fuzz_require(!gyre_caches_save(layers, 2, fuzz_path("cache"), &err), err.text);
    fuzz_require(!gyre_caches_load(both, 2, fuzz_path("cache"), encodings, NULL, &err), err.text);
    fuzz_require(!both[0] && gyre_cache_tokens(both[1], 0) == gyre_cache_tokens(cache, 0), "layers are read back");
    gyre_cache_free(both[1]);
}

static void use(gyre_cache *cache, const gyre_encoding *other) {
    const gyre_cache_config *c = gyre_cache_get_config(cache);
    const int64_t last = c->sequences - 1, delta[GYRE_MAX_AXES] = {3, -5};
    if (c->max_tokens > MOST_TOKENS || c->heads > 8 || c->gate_heads > 64 || c->sequences > 64) return;
    attend(cache, 0);
    save_and_load(cache);
    append(cache, 0, 3);
    fuzz_require(gyre_cache_fork(cache, 0, last, NULL) != GYRE_EINVAL, "a fork");
    if (gyre_cache_tokens(cache, 0) > 2) {
        fuzz_require(gyre_cache_remove(cache, (gyre_cache_range){0, 1, 1}, NULL) != GYRE_EINVAL, "a drop");
        fuzz_require(gyre_cache_shift(cache, (gyre_cache_range){0, 1, 1}, delta, NULL) != GYRE_EINVAL, "a shift");
    }
    append(cache, 0, 17);
    fuzz_require(gyre_cache_slide(cache, last, 1, 4, NULL, NULL) != GYRE_EINVAL, "a slide");
    append(cache, last, 5);
    if (other) (void)!gyre_cache_set_encoding(cache, other, 0, NULL, NULL);
    for (int64_t i = 0; i < c->sequences; i++)
        attend(cache, i);
    save_and_load(cache);
    for (int64_t i = 0; i < c->sequences; i++)
        fuzz_require(!gyre_cache_remove(cache, (gyre_cache_range){i, 0, gyre_cache_tokens(cache, i)}, NULL),
                     "everything is dropped");
    const gyre_cache_usage usage = cache_usage(cache);
    fuzz_require(usage.tokens == 0 && usage.shared_tokens == 0 && usage.free_pages == usage.pages,
                 "an empty cache is empty");
}

/* Reads the file "cache": one cache, or those of LAYERS layers. */
enum { LAYERS = 2 };
static void load(gyre_cache *out[LAYERS], int layers, const gyre_encoding *encoding) {
    const gyre_alloc alloc = {purse_alloc, purse_free, NULL};
    const gyre_encoding *const encodings[LAYERS] = {encoding, encoding};
    gyre_error err = {0, ""};
    const gyre_status status = layers ? gyre_caches_load(out, LAYERS, fuzz_path("cache"), encodings, &alloc, &err)
                                      : gyre_cache_load(&out[0], fuzz_path("cache"), encoding, &alloc, &err);
    fuzz_require(layers || (!status) == (out[0] != NULL), "a failure leaves no cache");
    fuzz_require(!status || (!out[0] && !out[1]), "a failure leaves no layer");
    fuzz_require(!status || err.text[0] != '\0', "a failure has a text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gyre_cache *cache[LAYERS] = {NULL, NULL};
    if (size == 0) return 0;
    const int which = data[0] & 3, layers = data[0] & 8;
    uint8_t *bytes = malloc(size);
    if (!bytes) return 0;
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 4 && layers) sign_layers(bytes, size - 1);
    if (data[0] & 4 && !layers) sign_all(bytes, size - 1);
    fuzz_write("cache", bytes, size - 1);
    free(bytes);
    gyre_encoding *encoding = encoding_of(which, 100), *other = encoding_of(which, 200);
    load(cache, layers, encoding);
    for (int i = 0; i < LAYERS; i++) {
        if (cache[i]) use(cache[i], other);
        gyre_cache_free(cache[i]);
    }
    gyre_encoding_free(encoding);
    gyre_encoding_free(other);
    return 0;
}

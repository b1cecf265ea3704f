/* bench_schemes.c: the schemes that gyre bench compares, in the forms that papers and checkpoints use. */
#include "tools/bench/bench.h"
#include "util/suggest.h"
#include <stdlib.h>
#include <string.h>

/* As in a model: a table of angles for the trained positions. */
static void rope_table(gyre_config *config, int64_t tokens) {
    config->rope.table_positions = tokens;
}
static void rope_interleaved(gyre_config *config, int64_t tokens) {
    config->rope.table_positions = tokens;
    config->rope.layout = GYRE_LAYOUT_INTERLEAVED;
}
static void xpos(gyre_config *config, int64_t tokens) {
    config->rope.table_positions = tokens;
    config->rope.xpos_base = 512;
    config->rope.xpos_center = tokens / 2;
}
/* Far pairs from an eighth of the tokens on. */
static void rerope(gyre_config *config, int64_t tokens) {
    config->rope.table_positions = tokens;
    config->rope.far = GYRE_FAR_CLAMPED;
    config->rope.far_window = tokens < 16 ? 2 : tokens / 8;
}
/* Chunks of an eighth of the tokens. */
static void dual_chunk(gyre_config *config, int64_t tokens) {
    const int64_t chunk = tokens < 16 ? 2 : tokens / 8;
    config->rope.table_positions = tokens;
    config->rope.far = GYRE_FAR_CHUNKED;
    config->rope.chunk.local = chunk / 2;
    config->rope.chunk.size = chunk + chunk / 2;
}
static void t5_encoder(gyre_config *config, int64_t tokens) {
    (void)tokens;
    config->score.bidirectional = 1;
}
static void kerple_power(gyre_config *config, int64_t tokens) {
    (void)tokens;
    config->score.decay = GYRE_DECAY_POWER;
}
static void bert_key_query(gyre_config *config, int64_t tokens) {
    (void)tokens;
    config->score.terms = GYRE_TERM_QUERY | GYRE_TERM_KEY;
}
static void deberta_v1(gyre_config *config, int64_t tokens) {
    (void)tokens;
    config->score.max_distance = 512;
}
static void deberta_v3(gyre_config *config, int64_t tokens) {
    deberta_v1(config, tokens);
    config->score.position_buckets = 256;
}
/* Without clamping, as in language modelling without clamp_len. */
static void transformer_xl(gyre_config *config, int64_t tokens) {
    config->score.max_distance = tokens;
}

/* Encoders are bidirectional, decoders causal. */
static const bench_scheme schemes[] = {{"nope", "nope", 1, 0, 0, NULL},
                                       {"gates", "nope", 1, BENCH_GATES, 1.2, NULL},
                                       {"contextual", "nope", 1, BENCH_CONTEXTUAL, 0, NULL},
                                       {"fope", "nope", 1, BENCH_FOURIER, 0, NULL},
                                       {"pope", "nope", 1, BENCH_POLAR, 0, NULL},
                                       {"trained-frequencies", "nope", 1, BENCH_FREQUENCIES, 0, NULL},
                                       {"learned", "learned", 1, 0, 0, NULL},
                                       {"sinusoidal", "sinusoidal", 1, 0, 0, NULL},
                                       {"rope-no-table", "rope", 1, 0, 1.1, NULL},
                                       {"rope-table", "rope", 1, 0, 1.1, rope_table},
                                       {"rope-interleaved", "rope", 1, 0, 1.1, rope_interleaved},
                                       {"rope-xpos", "rope", 1, 0, 0, xpos},
                                       {"rope-rerope", "rope", 1, 0, 0, rerope},
                                       {"rope-dca", "rope", 1, 0, 0, dual_chunk},
                                       {"alibi-causal", "alibi", 1, 0, 1.2, NULL},
                                       {"alibi-bidirectional", "alibi", 0, 0, 1.2, NULL},
                                       {"t5-causal", "t5", 1, 0, 1.2, NULL},
                                       {"t5-bidirectional", "t5", 0, 0, 1.2, t5_encoder},
                                       {"kerple-log", "kerple", 1, 0, 1.2, NULL},
                                       {"adaptive-kerple", "kerple", 1, BENCH_ADAPTIVE, 0, NULL},
                                       {"kerple-power", "kerple", 1, 0, 1.2, kerple_power},
                                       {"shaw-causal", "shaw", 1, 0, 1.8, NULL},
                                       {"shaw-bidirectional", "shaw", 0, 0, 1.8, NULL},
                                       {"nezha", "nezha", 0, 0, 1.8, NULL},
                                       {"bert-relative-key", "bert", 0, 0, 2.3, NULL},
                                       {"bert-relative-key-query", "bert", 0, 0, 3.4, bert_key_query},
                                       {"deberta-v1", "deberta", 0, 0, 1.8, deberta_v1},
                                       {"deberta-v3", "deberta", 0, 0, 1.8, deberta_v3},
                                       {"transformer-xl", "transformer-xl", 1, 0, 2.5, transformer_xl}};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

/* Lists the forms above for each kind; a kind without an entry appears as gyre_config_suggest makes it. */
static int list_all(bench_scheme out[BENCH_MAX_SCHEMES]) {
    int count = 0;
    const char *name;
    for (int kind = 1; (name = gyre_kind_name((gyre_kind)kind)); kind++) {
        const int before = count;
        for (int i = 0; i < SCHEMES && count < BENCH_MAX_SCHEMES; i++)
            if (strcmp(schemes[i].scheme, name) == 0) out[count++] = schemes[i];
        if (count == before && count < BENCH_MAX_SCHEMES) out[count++] = (bench_scheme){name, name, 1, 0, 0, NULL};
    }
    return count;
}

/* Suggests names of kinds as well, because they are accepted too. */
static _Noreturn void unknown(const char *word, const bench_scheme *all, int count) {
    const char *names[2 * BENCH_MAX_SCHEMES];
    char known[1024] = "";
    for (int i = 0, used = 0; i < count; i++) {
        names[2 * i] = all[i].name;
        names[2 * i + 1] = all[i].scheme;
        if (used < (int)sizeof known)
            used += snprintf(known + used, sizeof known - (size_t)used, "%s%s", i ? ", " : "", all[i].name);
    }
    const char *nearest = gyre_closest_name(word, names, 2 * count);
    if (nearest) cli_usage_error("--schemes: \"%s\" is not a scheme; did you mean %s?", word, nearest);
    cli_usage_error("--schemes: \"%s\" is not one of %s", word, known);
}

int bench_choose_schemes(const char *list, bench_scheme out[BENCH_MAX_SCHEMES]) {
    bench_scheme all[BENCH_MAX_SCHEMES];
    int wanted[BENCH_MAX_SCHEMES] = {0}, chosen = 0;
    const int count = list_all(all);
    for (const char *from = list ? list : "all";; from += strcspn(from, ",") + 1) {
        char word[64];
        const size_t length = strcspn(from, ",");
        int found = 0;
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), from);
        for (int i = 0; i < count; i++) {
            const int named = strcmp(word, "all") == 0 || strcmp(word, all[i].name) == 0 || strcmp(word, all[i].scheme) == 0;
            found |= named;
            wanted[i] |= named;
        }
        if (!found) unknown(word, all, count);
        if (!from[length]) break;
    }
    for (int i = 0; i < count; i++)
        if (wanted[i]) out[chosen++] = all[i];
    return chosen;
}

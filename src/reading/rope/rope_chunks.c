/* rope_chunks.c: Dual Chunk Attention, which the authors' fork of vLLM and vLLM read from dual_chunk_attention_config. */
#include "reading/rope/read_rope.h"

#include <inttypes.h>

/* out = a number of tokens from the object, recorded as `name`; vLLM's default where the file has none.  usual 0: may be
 * left out. */
static int64_t read_tokens(const gyre_rope_source *source, const gyre_scope *chunks, gyre_layer_group *group,
                           const char *name, const char *key, int64_t usual) {
    const gyre_origin origin = gyre_scope_value(chunks, key) ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_READER;
    const int64_t value = gyre_scope_integer(chunks, key, usual > 0, usual);
    const gyre_place place = gyre_scope_place(chunks, key);
    if (value > 0) gyre_build_set_number(gyre_rope_build_of(source), group, name, origin, &place, NULL, (double)value);
    return value;
}

/* The factor of cos and sin at the length of the sequence; every query of a prompt has that of the whole prompt. */
static void read_original_length(const gyre_rope_source *source, const gyre_scope *chunks, gyre_layer_group *group) {
    static const char key[] = "original_max_position_embeddings";
    gyre_config *config = &group->config;
    config->rope.chunk.original_length = read_tokens(source, chunks, group, "chunk_length", key, 0);
    if (config->rope.chunk.original_length == 0) return;
    const gyre_place place = gyre_scope_place(chunks, key);
    const gyre_profile profile = gyre_build_profile(gyre_rope_build_of(source));
    config->length_policy = GYRE_LENGTH_POLICY_PREFIX;
    gyre_build_set_field(
        gyre_rope_build_of(source), group, "length_policy", GYRE_ORIGIN_READER, &place,
        gyre_profile_is_engine(profile)
            ? gyre_build_format(gyre_rope_build_of(source),
                                "at n tokens %s multiplies queries and keys by max(1, 0.1 ln(n / chunk_length) + 1); a key "
                                "keeps the factor of the length when it was stored",
                                gyre_profile_is_vllm(profile) ? "vLLM" : gyre_profile_program(profile))
            : "at n tokens the authors' fork of vLLM, which reads this key, multiplies queries and keys by max(1, 0.1 ln(n "
              "/ chunk_length) + 1); the paper of dual chunks has no such factor, and its code for Llama 0.05 for 0.1",
        "prefix");
}

int gyre_rope_read_chunks(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char key[] = "dual_chunk_attention_config";
    const gyre_scope chunks = gyre_scope_child(&source->root, key);
    struct gyre_chunk_config *chunk = &group->config.rope.chunk;
    if (json_object_size(chunks.object) == 0) return 0; /* an empty one is false in Python */
    const gyre_place place = gyre_scope_place(&source->root, key);
    group->config.rope.far = GYRE_FAR_CHUNKED;
    gyre_build_set_field(gyre_rope_build_of(source), group, "far", GYRE_ORIGIN_FILE, &place,
                         "Dual Chunk Attention: positions count within chunks of chunk_size - chunk_local tokens",
                         "chunked");
    chunk->size = read_tokens(source, &chunks, group, "chunk_size", "chunk_size", 8192);
    chunk->local = read_tokens(source, &chunks, group, "chunk_local", "local_size", 1024);
    read_original_length(source, &chunks, group);
    if (!gyre_build_status(gyre_rope_build_of(source)) && chunk->local >= chunk->size)
        gyre_scope_fail(&chunks, GYRE_EFORMAT, "local_size", "%" PRId64 " leaves no token of a chunk of %" PRId64,
                        chunk->local, chunk->size);
    return 1;
}

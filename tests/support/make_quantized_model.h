/* make_quantized_model.h: a GGUF of a small llama with matrices in ggml's block formats. */
#ifndef GYRE_TESTS_MAKE_QUANTIZED_MODEL_H
#define GYRE_TESTS_MAKE_QUANTIZED_MODEL_H
#include "make_gguf.h"
#include "make_quant_blocks.h"

#include <stdio.h>

/* A super-block holds 256 numbers of a row, so no row is shorter. */
enum { QUANT_MODEL_DIM = 256, QUANT_MODEL_MLP = 512, QUANT_MODEL_KV = 128, QUANT_MODEL_VOCAB = 96 };

static inline void made_blocks(made_gguf *made, test_random *random, const char *name, const quant_format *format,
                               uint64_t rows, uint64_t row) {
    const uint64_t dims[2] = {row, rows};
    const int64_t blocks = (int64_t)(rows * row) / format->numbers;
    made_info(made, name, 2, dims, (uint32_t)format->ggml_type, made->data_bytes);
    fill_quant_blocks(random, format, 1.0 / 512, blocks, made->data + made->data_bytes);
    made->data_bytes += (size_t)(blocks * format->bytes);
    while (made->data_bytes % made->alignment)
        made->data[made->data_bytes++] = 0;
}

static inline void made_ones(made_gguf *made, const char *name) {
    float ones[QUANT_MODEL_DIM];
    for (int i = 0; i < QUANT_MODEL_DIM; i++)
        ones[i] = 1;
    made_tensor(made, name, ones, QUANT_MODEL_DIM);
}

/* Writes a llama of one layer whose matrices all have one format. */
static inline void write_quantized_model(const quant_format *format, const char *path) {
    static const struct {
        const char *name;
        uint64_t rows, row;
    } matrices[] = {{"token_embd.weight", QUANT_MODEL_VOCAB, QUANT_MODEL_DIM},
                    {"blk.0.attn_q.weight", QUANT_MODEL_DIM, QUANT_MODEL_DIM},
                    {"blk.0.attn_k.weight", QUANT_MODEL_KV, QUANT_MODEL_DIM},
                    {"blk.0.attn_v.weight", QUANT_MODEL_KV, QUANT_MODEL_DIM},
                    {"blk.0.attn_output.weight", QUANT_MODEL_DIM, QUANT_MODEL_DIM},
                    {"blk.0.ffn_gate.weight", QUANT_MODEL_MLP, QUANT_MODEL_DIM},
                    {"blk.0.ffn_up.weight", QUANT_MODEL_MLP, QUANT_MODEL_DIM},
                    {"blk.0.ffn_down.weight", QUANT_MODEL_DIM, QUANT_MODEL_MLP}};
    made_gguf *made = made_begin(3);
    test_random random = {79};
    made_string(made, "general.architecture", "llama");
    made_u32(made, "llama.context_length", 1024);
    made_u32(made, "llama.embedding_length", QUANT_MODEL_DIM);
    made_u32(made, "llama.feed_forward_length", QUANT_MODEL_MLP);
    made_u32(made, "llama.block_count", 1);
    made_u32(made, "llama.attention.head_count", 4);
    made_u32(made, "llama.attention.head_count_kv", 2);
    made_f32(made, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    made_words(made, "tokenizer.ggml.tokens", QUANT_MODEL_VOCAB);
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        made_blocks(made, &random, matrices[i].name, format, matrices[i].rows, matrices[i].row);
    made_ones(made, "blk.0.attn_norm.weight");
    made_ones(made, "blk.0.ffn_norm.weight");
    made_ones(made, "output_norm.weight");
    made_finish(made);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(made->file, 1, made->file_bytes, file), made->file_bytes);
    assert_int_equal(fclose(file), 0);
    free(made);
}

#endif

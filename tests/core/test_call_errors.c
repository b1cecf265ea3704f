/* test_call_errors.c: what wrong calls of the places say: the argument, its value or shape, and what was expected. */
#include "support.h"

#include <string.h>

enum { BATCH = 2, TOKENS = 3, HEADS = 2, CHANNELS = 8, ROWS = 5, POSITIONS = 6, SIZE = 256 };

/* Everything that a call takes; a test spoils one thing. */
typedef struct arguments {
    gyre_encoding *rope, *xpos, *learned, *alibi, *t5, *nope;
    const gyre_encoding *encoding;
    gyre_direction direction;
    gyre_role role;
    gyre_layout from, to;
    gyre_positions positions, keys;
    const gyre_positions *at, *keys_at;
    gyre_cview in;
    gyre_view out, out2;
    const gyre_cview *in_given;
    const gyre_view *out_given, *out2_given;
    gyre_tables tables;
    gyre_table_gradients gradients;
    int no_args; /* 1: NULL in place of the struct that a call takes */
    const gyre_tables *tables_given;
    const gyre_table_gradients *gradients_given;
    float memory[3][SIZE];
    int64_t position[BATCH * TOKENS];
} arguments;

typedef struct wrong_call {
    void (*spoil)(arguments *);
    gyre_status status;
    const char *message;
} wrong_call;

#define SPOIL(name, change)                                                                                                 \
    static void name(arguments *a) {                                                                                        \
        change;                                                                                                             \
    }
SPOIL(no_encoding, a->encoding = NULL)
SPOIL(no_positions, a->at = NULL)
SPOIL(no_keys, a->keys_at = NULL)
SPOIL(no_args, a->no_args = 1)
SPOIL(no_in, a->in_given = NULL)
SPOIL(no_out, a->out_given = NULL)
SPOIL(no_out2, a->out2_given = NULL)
SPOIL(other_scheme, a->encoding = a->nope)
SPOIL(bad_direction, a->direction = (gyre_direction)7)
SPOIL(bad_role, a->role = (gyre_role)9)
SPOIL(bad_from, a->from = GYRE_LAYOUT_INTERLEAVED_TO_HALF)
SPOIL(bad_to, a->to = (gyre_layout)5)
SPOIL(in_of_integers, a->in.dtype = GYRE_DTYPE_I64)
SPOIL(unknown_type, a->in.dtype = (gyre_dtype)42)
SPOIL(out_of_halves, a->out.dtype = GYRE_DTYPE_F16)
SPOIL(out_of_integers, a->out.dtype = GYRE_DTYPE_I32)
SPOIL(out2_of_doubles, a->out2.dtype = GYRE_DTYPE_F64)
SPOIL(other_shape, a->out.shape[1] = 1)
SPOIL(out2_other_shape, a->out2.shape[1] = 1)
SPOIL(negative_extent, a->in.shape[1] = a->out.shape[1] = -1)
SPOIL(no_memory, a->in.data = NULL)
SPOIL(no_output_memory, a->out.data = NULL)
SPOIL(shared_output, a->out.stride[1] = 0)
SPOIL(other_strides, a->in.data = a->out.data; a->in.stride[0] = 1)
SPOIL(in_place, a->in.data = a->out.data)
SPOIL(more_channels, a->in.shape[3] = a->out.shape[3] = a->out2.shape[3] = 12)
SPOIL(more_heads, a->in.shape[2] = a->out.shape[2] = a->out2.shape[2] = 3)
SPOIL(negative_length, a->positions.context_length = -4)
SPOIL(float_positions, a->positions.data = a->position; a->positions.dtype = GYRE_DTYPE_F32; a->positions.stride_token = 1)
SPOIL(forgotten_stride, a->positions.data = a->position; a->positions.dtype = GYRE_DTYPE_I64;
      a->positions.stride_batch = TOKENS)
SPOIL(forgotten_key_stride, a->keys.data = a->position; a->keys.dtype = GYRE_DTYPE_I64)
SPOIL(base_too_far, a->positions.base = ((int64_t)1 << 31) - 1)
SPOIL(base_past_end, a->positions.base = (int64_t)1 << 40)
SPOIL(key_too_far, a->keys.base = ((int64_t)1 << 31) - 1)
SPOIL(one_too_far, a->positions.data = a->position; a->positions.dtype = GYRE_DTYPE_I64; a->positions.stride_batch = TOKENS;
      a->positions.stride_token = 1; a->position[TOKENS + 2] = -((int64_t)1 << 31) - 1)
SPOIL(outside_xpos, a->encoding = a->xpos; a->positions.base = 1000000)
SPOIL(outside_table, a->positions.base = POSITIONS - 2)
SPOIL(no_tables, a->tables_given = NULL)
SPOIL(table_of_halves, a->tables.input.dtype = a->tables.bias.dtype = GYRE_DTYPE_F16)
SPOIL(smaller_table, a->tables.input.shape[2] = a->tables.bias.shape[2] = 4)
SPOIL(no_gradients, a->gradients_given = NULL)
SPOIL(gradient_of_halves, a->gradients.input.dtype = a->gradients.bias.dtype = GYRE_DTYPE_F16)
SPOIL(smaller_gradient, a->gradients.input.shape[2] = a->gradients.bias.shape[2] = 4)
SPOIL(shared_gradient, a->gradients.input.stride[2] = a->gradients.bias.stride[2] = 0)
SPOIL(misaligned, a->in.data = (const char *)a->in.data + 1)
SPOIL(misaligned_output, a->out.data = (char *)a->out.data + 2)
SPOIL(far_strides, a->in.stride[1] = INT64_MIN)
SPOIL(far_output, a->out.stride[1] = (int64_t)1 << 60)
SPOIL(misaligned_table, a->tables.input.data = a->tables.bias.data = (const char *)a->tables.bias.data + 3)
SPOIL(far_table, a->tables.input.stride[2] = a->tables.bias.stride[2] = INT64_MAX)
SPOIL(misaligned_positions, a->positions.data = (char *)a->position + 4; a->positions.dtype = GYRE_DTYPE_I64;
      a->positions.stride_token = 1)
SPOIL(far_positions, a->positions.data = a->position; a->positions.dtype = GYRE_DTYPE_I64;
      a->positions.stride_token = INT64_MAX)

static arguments *prepare(gyre_config *config, int64_t heads, int64_t channels) {
    arguments *a = calloc(1, sizeof *a);
    *config = (gyre_config)GYRE_INIT(gyre_config);
    config->kind = GYRE_KIND_NOPE;
    config->head_dim = CHANNELS;
    config->heads = HEADS;
    a->nope = test_encoding(config);
    config->kind = GYRE_KIND_ROPE;
    a->rope = test_encoding(config);
    config->rope.xpos_base = 512;
    a->xpos = test_encoding(config);
    config->kind = GYRE_KIND_LEARNED;
    config->input.dim = CHANNELS;
    config->input.positions = POSITIONS;
    a->learned = test_encoding(config);
    config->kind = GYRE_KIND_ALIBI;
    a->alibi = test_encoding(config);
    config->kind = GYRE_KIND_T5;
    config->score.buckets = 8;
    a->t5 = test_encoding(config);
    a->direction = GYRE_DIRECTION_FORWARD;
    a->role = GYRE_ROLE_KEY;
    a->to = GYRE_LAYOUT_INTERLEAVED;
    a->in = gyre_cdense(a->memory[0], GYRE_DTYPE_F32, BATCH, TOKENS, heads, channels);
    a->out = gyre_dense(a->memory[1], GYRE_DTYPE_F32, BATCH, TOKENS, heads, channels);
    a->out2 = gyre_dense(a->memory[2], GYRE_DTYPE_F32, BATCH, TOKENS, heads, channels);
    a->at = &a->positions, a->keys_at = &a->keys;
    a->in_given = &a->in, a->out_given = &a->out, a->out2_given = &a->out2;
    a->tables.input = gyre_cdense(a->memory[2], GYRE_DTYPE_F32, 1, 1, POSITIONS, CHANNELS);
    a->tables.bias = gyre_cdense(a->memory[2], GYRE_DTYPE_F32, 1, 1, 8, HEADS);
    a->gradients.input = gyre_dense(a->memory[1], GYRE_DTYPE_F32, 1, 1, POSITIONS, CHANNELS);
    a->gradients.bias = gyre_dense(a->memory[1], GYRE_DTYPE_F32, 1, 1, 8, HEADS);
    a->tables_given = &a->tables;
    a->gradients_given = &a->gradients;
    return a;
}

static void discard(arguments *a) {
    gyre_encoding *all[] = {a->rope, a->xpos, a->learned, a->alibi, a->t5, a->nope};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gyre_encoding_free(all[i]);
    free(a);
}

static gyre_status rotate(const arguments *a, gyre_error *err) {
    const gyre_rotate_args *args = GYRE_ARGS(gyre_rotate_args, .direction = a->direction, .role = a->role,
                                             .positions = a->at, .in = a->in, .out = a->out);
    return gyre_rotate(a->encoding, a->no_args ? NULL : args, NULL, err);
}
static gyre_status cos_sin(const arguments *a, gyre_error *err) {
    return gyre_cos_sin(a->encoding, a->at, a->out_given, a->out2_given, NULL, err);
}
static gyre_status permute(const arguments *a, gyre_error *err) {
    return gyre_permute_rows(a->encoding, a->from, a->to, a->in_given, a->out_given, err);
}
static gyre_status add_input(const arguments *a, gyre_error *err) {
    const gyre_add_input_args *args =
        GYRE_ARGS(gyre_add_input_args, .tables = a->tables_given, .positions = a->at, .in = a->in, .out = a->out);
    return gyre_add_input(a->encoding, a->no_args ? NULL : args, NULL, err);
}
static gyre_status add_input_gradient(const arguments *a, gyre_error *err) {
    return gyre_add_input_gradient(a->encoding, a->at, a->in_given, a->gradients_given, NULL, err);
}
static gyre_status add_bias(const arguments *a, gyre_error *err) {
    const gyre_add_bias_args *args =
        GYRE_ARGS(gyre_add_bias_args, .tables = a->tables_given, .queries = a->at, .keys = a->keys_at, .scores = a->out);
    return gyre_add_bias(a->encoding, a->no_args ? NULL : args, NULL, err);
}
static gyre_status add_bias_gradient(const arguments *a, gyre_error *err) {
    const gyre_add_bias_args *args =
        GYRE_ARGS(gyre_add_bias_args, .tables = a->tables_given, .queries = a->at, .keys = a->keys_at);
    return gyre_add_bias_gradient(a->encoding, a->no_args ? NULL : args, a->in_given, a->gradients_given, NULL, err);
}

/* A call with views [BATCH, TOKENS, heads, channels], and the ways to spoil it. */
typedef struct call_kind {
    const char *name;
    gyre_status (*call)(const arguments *, gyre_error *);
    gyre_kind kind;
    int64_t heads, channels;
    const wrong_call *wrong;
} call_kind;

static const wrong_call rotate_calls[] = {
    {no_encoding, GYRE_EINVAL, "encoding: is NULL (gyre_rotate)"},
    {no_positions, GYRE_EINVAL, "positions: is NULL (gyre_rotate)"},
    {no_args, GYRE_EINVAL, "gyre_rotate_args: is NULL"},
    {forgotten_stride, GYRE_EINVAL,
     "positions.stride_token: is 0 over 3 tokens, so all have one position; set it to 1 for dense data, or set one_position "
     "(gyre_rotate)"},
    {bad_direction, GYRE_EINVAL, "direction: 7 is not a gyre_direction (gyre_rotate)"},
    {bad_role, GYRE_EINVAL, "role: 9 is neither QUERY nor KEY (gyre_rotate)"},
    {in_of_integers, GYRE_EDTYPE, "in: is I64, not F32, F16, BF16 or F64 (gyre_rotate)"},
    {unknown_type, GYRE_EDTYPE, "in: is an unknown type, not F32"},
    {out_of_halves, GYRE_EDTYPE, "out: is F16, but in is F32 (gyre_rotate)"},
    {other_shape, GYRE_ESHAPE, "out: [2, 1, 2, 8] is not the shape of in, [2, 3, 2, 8] (gyre_rotate)"},
    {negative_extent, GYRE_ESHAPE, "in: [2, -1, 2, 8] has a negative extent or more than 2^63 elements (gyre_rotate)"},
    {no_memory, GYRE_EINVAL, "in: has no memory for its shape [2, 3, 2, 8] (gyre_rotate)"},
    {no_output_memory, GYRE_EINVAL, "out: has no memory for its shape [2, 3, 2, 8] (gyre_rotate)"},
    {shared_output, GYRE_EINVAL, "out: stride[1] is 0, so 3 elements share one address (gyre_rotate)"},
    {other_strides, GYRE_EINVAL, "out: overlaps in, and is not in itself with the same strides (gyre_rotate)"},
    {more_channels, GYRE_ESHAPE, "in: 12 channels a head, the encoding has 8 (gyre_rotate)"},
    {negative_length, GYRE_EINVAL, "positions.context_length: -4 is negative (gyre_rotate)"},
    {float_positions, GYRE_EDTYPE, "positions.dtype: F32 is neither I32 nor I64 (gyre_rotate)"},
    {base_too_far, GYRE_ERANGE, "positions: 2147483649 of token 2 is past 2^31 (gyre_rotate)"},
    {base_past_end, GYRE_ERANGE, "positions: 1099511627776 of token 0 is past 2^31 (gyre_rotate)"},
    {one_too_far, GYRE_ERANGE, "positions: -2147483649 of token 2 of row 1 is past 2^31 (gyre_rotate)"},
    {outside_xpos, GYRE_ERANGE, "positions: 1000000 of token 0 in row 0 is too far from rope.xpos_center 0"},
    {misaligned, GYRE_EINVAL, "in: data is 1 bytes past a multiple of 4, the size of its F32 elements (gyre_rotate)"},
    {far_strides, GYRE_EINVAL, "in: its strides ["},
    {misaligned_output, GYRE_EINVAL, "out: data is 2 bytes past a multiple of 4"},
    {far_output, GYRE_EINVAL, "out: its strides ["},
    {misaligned_positions, GYRE_EINVAL,
     "positions: data is 4 bytes past a multiple of 8, the size of its I64 elements (gyre_rotate)"},
    {far_positions, GYRE_EINVAL,
     "positions: its strides 0 (batch), 9223372036854775807 (token), 0 (axis) and 0 (head) reach further than memory does"},
    {NULL, GYRE_OK, NULL}};
static const wrong_call cos_sin_calls[] = {
    {no_encoding, GYRE_EINVAL, "encoding: is NULL (gyre_cos_sin)"},
    {no_positions, GYRE_EINVAL, "positions: is NULL (gyre_cos_sin)"},
    {no_out, GYRE_EINVAL, "cosine: is NULL (gyre_cos_sin)"},
    {no_out2, GYRE_EINVAL, "sine: is NULL (gyre_cos_sin)"},
    {forgotten_stride, GYRE_EINVAL, "positions.stride_token: is 0 over 3 tokens"},
    {other_scheme, GYRE_EUNSUPPORTED, "encoding: nope rotates nothing (gyre_cos_sin)"},
    {out_of_halves, GYRE_EDTYPE, "cosine: is F16, neither F32 nor F64 (gyre_cos_sin)"},
    {out2_of_doubles, GYRE_EDTYPE, "sine: is F64, but cosine is F32 (gyre_cos_sin)"},
    {shared_output, GYRE_EINVAL, "cosine: stride[1] is 0"},
    {out2_other_shape, GYRE_ESHAPE, "sine: [2, 1, 1, 4] is not the shape of cosine, [2, 3, 1, 4] (gyre_cos_sin)"},
    {more_channels, GYRE_ESHAPE, "cosine: [2, 3, 1, 12] is not [batch, tokens, 1, rope.dim / 2 = 4] (gyre_cos_sin)"},
    {base_too_far, GYRE_ERANGE, "positions: 2147483649 of token 2 is past 2^31 (gyre_cos_sin)"},
    {misaligned_output, GYRE_EINVAL, "cosine: data is 2 bytes past a multiple of 4"},
    {far_output, GYRE_EINVAL, "cosine: its strides ["},
    {misaligned_positions, GYRE_EINVAL,
     "positions: data is 4 bytes past a multiple of 8, the size of its I64 elements (gyre_cos_sin)"},
    {far_positions, GYRE_EINVAL,
     "positions: its strides 0 (batch), 9223372036854775807 (token), 0 (axis) and 0 (head) reach further than memory does"},
    {NULL, GYRE_OK, NULL}};
static const wrong_call permute_calls[] = {
    {no_encoding, GYRE_EINVAL, "encoding: is NULL (gyre_permute_rows)"},
    {no_in, GYRE_EINVAL, "in: is NULL (gyre_permute_rows)"},
    {no_out, GYRE_EINVAL, "out: is NULL (gyre_permute_rows)"},
    {other_scheme, GYRE_EUNSUPPORTED, "encoding: nope rotates nothing (gyre_permute_rows)"},
    {bad_from, GYRE_EINVAL, "from: 2 is neither HALF nor INTERLEAVED (gyre_permute_rows)"},
    {bad_to, GYRE_EINVAL, "to: 5 is neither HALF nor INTERLEAVED (gyre_permute_rows)"},
    {out_of_halves, GYRE_EDTYPE, "out: is F16, but in is F32 (gyre_permute_rows)"},
    {other_shape, GYRE_ESHAPE, "out: [2, 1, 8, 3] is not the shape of in, [2, 3, 8, 3] (gyre_permute_rows)"},
    {no_memory, GYRE_EINVAL, "in: has no memory for its shape [2, 3, 8, 3] (gyre_permute_rows)"},
    {in_place, GYRE_ESHAPE, "in: [2, 3, 8, 3] is not [1, heads, head_dim = 8, inputs] (gyre_permute_rows)"},
    {misaligned, GYRE_EINVAL, "in: data is 1 bytes past a multiple of 4, the size of its F32 elements (gyre_permute_rows)"},
    {far_strides, GYRE_EINVAL, "in: its strides ["},
    {misaligned_output, GYRE_EINVAL, "out: data is 2 bytes past a multiple of 4"},
    {far_output, GYRE_EINVAL, "out: its strides ["},
    {NULL, GYRE_OK, NULL}};
static const wrong_call add_input_calls[] = {
    {no_encoding, GYRE_EINVAL, "encoding: is NULL (gyre_add_input)"},
    {no_positions, GYRE_EINVAL, "positions: is NULL (gyre_add_input)"},
    {no_args, GYRE_EINVAL, "gyre_add_input_args: is NULL"},
    {forgotten_stride, GYRE_EINVAL, "positions.stride_token: is 0 over 3 tokens"},
    {other_scheme, GYRE_EUNSUPPORTED, "encoding: nope adds nothing at the input (gyre_add_input)"},
    {in_of_integers, GYRE_EDTYPE, "in: is I64, not F32, F16, BF16 or F64 (gyre_add_input)"},
    {other_shape, GYRE_ESHAPE, "out: [2, 1, 1, 8] is not the shape of in"},
    {more_heads, GYRE_ESHAPE, "in: [2, 3, 3, 8] is not [batch, tokens, 1, input.dim = 8] (gyre_add_input)"},
    {no_tables, GYRE_EINVAL, "tables.input: missing; the encoding trains one (gyre_add_input)"},
    {table_of_halves, GYRE_EDTYPE, "tables.input: is F16, neither F32 nor F64 (gyre_add_input)"},
    {smaller_table, GYRE_ESHAPE, "tables.input: [1, 1, 4, 8], but the encoding's is [1, 1, 6, 8] (gyre_add_input)"},
    {outside_table, GYRE_ERANGE,
     "positions: 6 of token 2 is outside 0 .. 5, the positions of this encoding (gyre_add_input)"},
    {misaligned, GYRE_EINVAL, "in: data is 1 bytes past a multiple of 4, the size of its F32 elements (gyre_add_input)"},
    {far_strides, GYRE_EINVAL, "in: its strides ["},
    {misaligned_output, GYRE_EINVAL, "out: data is 2 bytes past a multiple of 4"},
    {far_output, GYRE_EINVAL, "out: its strides ["},
    {misaligned_table, GYRE_EINVAL, "tables.input: data is 3 bytes past a multiple of 4"},
    {far_table, GYRE_EINVAL, "tables.input: its strides ["},
    {misaligned_positions, GYRE_EINVAL,
     "positions: data is 4 bytes past a multiple of 8, the size of its I64 elements (gyre_add_input)"},
    {far_positions, GYRE_EINVAL,
     "positions: its strides 0 (batch), 9223372036854775807 (token), 0 (axis) and 0 (head) reach further than memory does"},
    {NULL, GYRE_OK, NULL}};
static const wrong_call add_input_gradient_calls[] = {
    {no_in, GYRE_EINVAL, "dout: is NULL (gyre_add_input_gradient)"},
    {forgotten_stride, GYRE_EINVAL, "positions.stride_token: is 0 over 3 tokens"},
    {other_scheme, GYRE_EUNSUPPORTED, "encoding: nope adds nothing at the input (gyre_add_input_gradient)"},
    {in_of_integers, GYRE_EDTYPE, "dout: is I64, not F32"},
    {no_memory, GYRE_EINVAL, "dout: has no memory for its shape [2, 3, 1, 8]"},
    {more_channels, GYRE_ESHAPE, "dout: [2, 3, 1, 12] is not [batch, tokens, 1, input.dim = 8]"},
    {no_gradients, GYRE_EINVAL, "gradients.input: missing; the encoding trains one (gyre_add_input_gradient)"},
    {gradient_of_halves, GYRE_EDTYPE, "gradients.input: is F16, neither F32 nor F64"},
    {smaller_gradient, GYRE_ESHAPE, "gradients.input: [1, 1, 4, 8], but the encoding's is [1, 1, 6, 8]"},
    {shared_gradient, GYRE_EINVAL, "gradients.input: stride[2] is 0, so 6 elements share one address"},
    {outside_table, GYRE_ERANGE, "positions: 6 of token 2 is outside 0 .. 5"},
    {misaligned, GYRE_EINVAL,
     "dout: data is 1 bytes past a multiple of 4, the size of its F32 elements (gyre_add_input_gradient)"},
    {far_strides, GYRE_EINVAL, "dout: its strides ["},
    {misaligned_positions, GYRE_EINVAL,
     "positions: data is 4 bytes past a multiple of 8, the size of its I64 elements (gyre_add_input_gradient)"},
    {far_positions, GYRE_EINVAL,
     "positions: its strides 0 (batch), 9223372036854775807 (token), 0 (axis) and 0 (head) reach further than memory does"},
    {NULL, GYRE_OK, NULL}};
static const wrong_call add_bias_calls[] = {
    {no_encoding, GYRE_EINVAL, "encoding: is NULL (gyre_add_bias)"},
    {no_positions, GYRE_EINVAL, "queries: is NULL (gyre_add_bias)"},
    {no_keys, GYRE_EINVAL, "keys: is NULL (gyre_add_bias)"},
    {no_args, GYRE_EINVAL, "gyre_add_bias_args: is NULL"},
    {forgotten_stride, GYRE_EINVAL, "queries.stride_token: is 0 over 3 tokens"},
    {forgotten_key_stride, GYRE_EINVAL, "keys.stride_token: is 0 over 5 tokens"},
    {other_scheme, GYRE_EUNSUPPORTED, "encoding: nope adds no bias to scores (gyre_add_bias)"},
    {out_of_integers, GYRE_EDTYPE, "scores: is I32, not F32, F16, BF16 or F64 (gyre_add_bias)"},
    {no_output_memory, GYRE_EINVAL, "scores: has no memory for its shape [2, 3, 2, 5] (gyre_add_bias)"},
    {shared_output, GYRE_EINVAL, "scores: stride[1] is 0, so 3 elements share one address (gyre_add_bias)"},
    {more_heads, GYRE_ESHAPE, "scores: 3 heads, the encoding has 2 (gyre_add_bias)"},
    {no_tables, GYRE_EINVAL, "tables.bias: missing; the encoding trains one (gyre_add_bias)"},
    {base_too_far, GYRE_ERANGE, "queries: 2147483649 of token 2 is past 2^31 (gyre_add_bias)"},
    {key_too_far, GYRE_ERANGE, "keys: 2147483649 of token 2 is past 2^31 (gyre_add_bias)"},
    {misaligned_output, GYRE_EINVAL, "scores: data is 2 bytes past a multiple of 4"},
    {far_output, GYRE_EINVAL, "scores: its strides ["},
    {misaligned_table, GYRE_EINVAL, "tables.bias: data is 3 bytes past a multiple of 4"},
    {far_table, GYRE_EINVAL, "tables.bias: its strides ["},
    {misaligned_positions, GYRE_EINVAL,
     "queries: data is 4 bytes past a multiple of 8, the size of its I64 elements (gyre_add_bias)"},
    {far_positions, GYRE_EINVAL,
     "queries: its strides 0 (batch), 9223372036854775807 (token), 0 (axis) and 0 (head) reach further than memory does"},
    {NULL, GYRE_OK, NULL}};
static const wrong_call add_bias_gradient_calls[] = {
    {no_in, GYRE_EINVAL, "dscores: is NULL (gyre_add_bias_gradient)"},
    {no_args, GYRE_EINVAL, "gyre_add_bias_args: is NULL"},
    {forgotten_stride, GYRE_EINVAL, "queries.stride_token: is 0 over 3 tokens"},
    {more_heads, GYRE_ESHAPE, "dscores: 3 heads, the encoding has 2 (gyre_add_bias_gradient)"},
    {table_of_halves, GYRE_EDTYPE, "tables.bias: is F16, neither F32 nor F64 (gyre_add_bias_gradient)"},
    {no_gradients, GYRE_EINVAL, "gradients.bias: missing; the encoding trains one (gyre_add_bias_gradient)"},
    {smaller_gradient, GYRE_ESHAPE, "gradients.bias: [1, 1, 4, 2], but the encoding's is [1, 1, 8, 2]"},
    {key_too_far, GYRE_ERANGE, "keys: 2147483649 of token 2 is past 2^31 (gyre_add_bias_gradient)"},
    {misaligned, GYRE_EINVAL,
     "dscores: data is 1 bytes past a multiple of 4, the size of its F32 elements (gyre_add_bias_gradient)"},
    {far_strides, GYRE_EINVAL, "dscores: its strides ["},
    {misaligned_table, GYRE_EINVAL, "tables.bias: data is 3 bytes past a multiple of 4"},
    {far_table, GYRE_EINVAL, "tables.bias: its strides ["},
    {misaligned_positions, GYRE_EINVAL,
     "queries: data is 4 bytes past a multiple of 8, the size of its I64 elements (gyre_add_bias_gradient)"},
    {far_positions, GYRE_EINVAL,
     "queries: its strides 0 (batch), 9223372036854775807 (token), 0 (axis) and 0 (head) reach further than memory does"},
    {NULL, GYRE_OK, NULL}};

static const call_kind calls[] = {
    {"gyre_rotate", rotate, GYRE_KIND_ROPE, HEADS, CHANNELS, rotate_calls},
    {"gyre_cos_sin", cos_sin, GYRE_KIND_ROPE, 1, CHANNELS / 2, cos_sin_calls},
    {"gyre_permute_rows", permute, GYRE_KIND_ROPE, CHANNELS, 3, permute_calls},
    {"gyre_add_input", add_input, GYRE_KIND_LEARNED, 1, CHANNELS, add_input_calls},
    {"gyre_add_input_gradient", add_input_gradient, GYRE_KIND_LEARNED, 1, CHANNELS, add_input_gradient_calls},
    {"gyre_add_bias", add_bias, GYRE_KIND_T5, HEADS, ROWS, add_bias_calls},
    {"gyre_add_bias_gradient", add_bias_gradient, GYRE_KIND_T5, HEADS, ROWS, add_bias_gradient_calls}};

static const gyre_encoding *encoding_of(const arguments *a, gyre_kind kind) {
    return kind == GYRE_KIND_ROPE ? a->rope : kind == GYRE_KIND_LEARNED ? a->learned : a->t5;
}

static void one_wrong_call(const call_kind *kind, const wrong_call *wrong) {
    gyre_config config;
    gyre_error err = {.offset = 7, .text = "as before"};
    arguments *a = prepare(&config, kind->heads, kind->channels);
    a->encoding = encoding_of(a, kind->kind);
    if (wrong->spoil) wrong->spoil(a);
    const gyre_status status = kind->call(a, &err), silent = kind->call(a, NULL);
    if (status != wrong->status || silent != status || !strstr(err.text, wrong->message))
        fail_msg("%s: status %d and %d, \"%s\"; expected %d, \"%s\"", kind->name, (int)status, (int)silent, err.text,
                 (int)wrong->status, wrong->message);
    discard(a);
}

static void every_call_says_why(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (const wrong_call *wrong = calls[i].wrong; wrong->spoil; wrong++)
            one_wrong_call(&calls[i], wrong);
}

static void a_good_call_leaves_the_error(void **state) {
    const wrong_call nothing = {NULL, GYRE_OK, "as before"};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].call != permute) one_wrong_call(&calls[i], &nothing);
}

/* Rows of a projection have no batch. */
static void rows_in_place(void **state) {
    gyre_config config;
    gyre_error err;
    (void)state;
    arguments *a = prepare(&config, CHANNELS, 3);
    a->encoding = a->rope;
    a->in.shape[0] = a->out.shape[0] = 1;
    assert_ok(permute(a, &err));
    in_place(a);
    assert_int_equal(permute(a, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "out: overlaps in (gyre_permute_rows)");
    discard(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_says_why),
        cmocka_unit_test(a_good_call_leaves_the_error),
        cmocka_unit_test(rows_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

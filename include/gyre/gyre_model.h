/* gyre_model.h: a decoder, its files and tokenizer, and its evaluation: perplexity, passkeys, copying.
 *
 *     gyre_model_open      a model, mapped and run in the type it is stored in
 *     gyre_context_*       one sequence: tokens in, logits out
 *     gyre_tokenizer_*     text to ids and back
 *     gyre_sample          logits to a token
 *     gyre_evaluate        perplexity over windows of a text
 *     gyre_passkey         retrieval of keys hidden in a text
 *     gyre_copying         repetition of segments hidden in a text
 *     gyre_convert         one format to another
 *
 * gyre_model_create makes Llamas (RMSNorm before each block, SwiGLU, no biases, tied embeddings) with any gyre_encoding,
 * for training.  Opened models may be of many families (docs/models.md); their positions are those of gyre_reading.
 * Results do not depend on the number of threads, nor, with GYRE_ORDER_FIXED, on the split of a text into calls.  The
 * conventions of gyre.h hold.  Unstable until 1.0. */
#ifndef GYRE_MODEL_H
#define GYRE_MODEL_H
#include "gyre/gyre_reading.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- the model -- */
/* How the position row p of an encoding at the input is combined with an embedding x. */
typedef enum gyre_position_form {
    GYRE_POSITION_FORM_SUM,         /* x + p */
    GYRE_POSITION_FORM_PRODUCT,     /* x p, channel by channel */
    GYRE_POSITION_FORM_CONCATENATED /* [x p]: a sinusoid of model_dim / 4 channels replaces the last channels */
} gyre_position_form;
/* Trained parts of layers besides the tables of their encoding. */
typedef enum gyre_layer_part {
    /* Forget gates: log f = log sigmoid(w_h . x + b_h) for each token and query head, x the input of the query projection.
     * Running sums of log f are gate sums of attention: Forgetting Transformer, arXiv 2503.02130 */
    GYRE_LAYER_PART_FORGET_GATES = 1,
    /* PoPE, arXiv 2509.10534: the D channels of queries and keys are D complex numbers, of magnitude softplus(x), and keys
     * have trained phases (gyre_polar_rotate).  position is a ROPE over their 2 D channels: position.head_dim is twice
     * head_dim.  Phases are clamped to -2 pi .. 0.  Not with rotates_input */
    GYRE_LAYER_PART_POLAR = 2,
    /* The frequencies of a ROPE, for each key head and the query heads that share it.  They begin as those of position,
     * which may have no scaling, axes, far distances, xPos or temperature.  Contexts accept no other rotation, and no
     * window.  Not with rotates_input or POLAR */
    GYRE_LAYER_PART_FREQUENCIES = 4,
    /* FoPE, arXiv 2412.17739: a Fourier series for each pair (gyre_fourier_rotate), for each key head and the query heads
     * that share it, in place of the rotation of a ROPE.  Its frequencies of 2 pi / trained_length and above are the
     * terms, and the first pairs, as many as there are terms and at most rope.dim / 4, have a series.  Coefficients begin
     * as in the released code; the frequencies are fixed.  Conditions as for FREQUENCIES, and a trained_length of at least
     * 7 */
    GYRE_LAYER_PART_FOURIER = 8,
    /* With FOURIER: pairs without a series pass through, as in the paper.  Otherwise as in the released code */
    GYRE_LAYER_PART_FOURIER_STILL = 16,
    /* CoPE, arXiv 2405.18719: queries count positions by gates (gyre_contextual_attention, its default scales), with
     * position.score.max_positions embeddings, shared by all heads, as in the released code; 0 = trained_length + 1, at
     * most the paper's 64.  position is NOPE without a temperature.  Contexts accept no other encoding.  Not with any
     * other part */
    GYRE_LAYER_PART_CONTEXTUAL = 32,
    /* DAPE, arXiv 2405.14722: a network adapts the biases of ALIBI, T5, KERPLE, FIRE or SANDWICH to queries and keys
     * (gyre_adaptive_attention, its default form, slope and scale), with position.score.hidden_units hidden units, 0 = 32,
     * at most 65536; FIRE's own networks have as many.  Its outputs have no bias, because softmax would cancel it.
     * position has no temperature.  Contexts accept any encoding that is valid for this part.  Not with any other part */
    GYRE_LAYER_PART_ADAPTIVE = 64,
    GYRE_LAYER_PART_ADAPTIVE_CONCAT = 128, /* with ADAPTIVE: in the form A + f([A, B]) */
    GYRE_LAYER_PART_ADAPTIVE_ADD = 256,    /* with ADAPTIVE: A + B + f(A + B); with a NOPE too, A + f(A) */
    /* RoPE++, arXiv 2512.07525: the map of queries makes half of the heads.  Head 2 h of attention is head h of the map,
     * and head 2 h + 1 the same rotated by -90 degrees: its scores are the imaginary part of the complex product of which
     * RoPE takes the real part.  Both read one key head, so heads is a multiple of 2 kv_heads.  position is a ROPE over all
     * channels of a head, under any scaling.  Not with rotates_input, POLAR, FREQUENCIES or FOURIER */
    GYRE_LAYER_PART_IMAGINARY = 512,
    /* HARoPE, arXiv 2510.10489: a trained matrix M for each key head and the query heads that share it, in front of the
     * rotation: M q and M^-T k, M = U S V^T with U, V exponentials of skew matrices and S > 0, as in the released code.
     * They begin as 1.  position is a ROPE over all channels of a head, at most 256, under any scaling.  Not with
     * rotates_input, POLAR, FREQUENCIES, FOURIER or IMAGINARY */
    GYRE_LAYER_PART_HEAD_MATRICES = 1024,
    /* RePo, arXiv 2512.14391: a network of the layer's input x gives each key head, and the query heads that share it, a
     * position z = w . (silu(G x) * C x), which need not be whole.  They rotate by it in place of the token's.  G and C have
     * model_dim / 8 rows.  Layers have it from ceil(5 layers / 16) on, as in the released model, or the last alone; those
     * before rotate by the token's position.  Conditions as for FREQUENCIES; not with another part that makes queries and
     * keys */
    GYRE_LAYER_PART_REPOSITIONED = 2048,
    /* CARoPE, arXiv 2507.23083: pair i of a key head, and of the query heads that share it, rotates by the sum of f^i over
     * the tokens up to its own, f = 1 / (softplus(w . x) + 1), x the input of the query projection.  w begins at 0.  Only
     * the pairs of position are used, which is a ROPE without scaling, axes, far distances, xPos or temperature.  Contexts
     * keep a sum for each pair and key head of every token, and accept no other rotation and no window.  Not with
     * rotates_input or another part that makes queries and keys */
    GYRE_LAYER_PART_TOKEN_FREQUENCIES = 4096,
    /* Selective RoPE, arXiv 2511.17388, in the paper's form for softmax attention: a map of the queries that share a key
     * head, each divided by its norm, gives a number for each pair; a convolution over 4 tokens mixes it; a gate
     * sigmoid(w . x / |x| + b) of the key head multiplies it, x the input of the query projection; and the sum over tokens,
     * times the frequency of the pair, is its angle.  The frequencies are those of position and are not trained.  Otherwise
     * as TOKEN_FREQUENCIES, with four numbers for each pair of a token */
    GYRE_LAYER_PART_SELECTIVE = 8192
} gyre_layer_part;
typedef struct gyre_model_config {
    size_t size;         /* set by GYRE_INIT */
    int64_t vocab;       /* 0 = 256: bytes */
    int64_t model_dim;   /* channels of the residual stream; 0 = 128 */
    int64_t layers;      /* 0 = 5 */
    int64_t heads;       /* 0 = 4 */
    int64_t kv_heads;    /* 0 = heads */
    int64_t head_dim;    /* 0 = model_dim / heads */
    int64_t mlp_dim;     /* 0 = 8/3 model_dim, rounded up to a multiple of 32 */
    double norm_epsilon; /* 0 = 1e-5 */
    /* For experiments (docs/questions.md), with models made here. */
    int64_t position_form; /* a gyre_position_form; other than SUM: SINUSOIDAL in its default layout, model_dim a multiple
                             * of 8, at most 4096.  0 = SUM */
    int64_t shared_tables; /* 1: all layers use, and train, the tables of layer 0; not for projected ones.  0 = one for each
                        * layer */
    int64_t rotates_input; /* 1: ROPE rotates the input of the query and key projections instead of their outputs: the
                            * normalized x, as model_dim / head_dim heads.  0 = their outputs */
    int64_t layer_parts;   /* a set of gyre_layer_part; 0 = none */
    gyre_config position;  /* its size may be 0; its kind is needed; head_dim (POLAR: twice), heads and input.dim are taken
                            * from above */
    /* The base of the rotation of layer i is layer_bases[i % layer_bases_count]; a layer with the base 0 does not rotate.  At
     * most one for each layer, up to 12 different ones, not all 0.  position is a ROPE without a list of frequencies or a
     * temperature; its base is 0, or that of the first layer that rotates.  Not with rotates_input, nor with layer_parts
     * other than FORGET_GATES.  Copied.  In the config of a model: one for each layer.  NULL = all layers rotate alike */
    const double *layer_bases;
    int64_t layer_bases_count; /* 0 = none: layer_bases is NULL */
} gyre_model_config;

typedef struct gyre_model gyre_model;

/* Tensors of a model made here, beside a llama's: one for each table of its encoding (gyre_encoding_table_shape).
 *
 *     model.embed_positions.weight                       input  [rows, model_dim], or a factor [1, 1]; one for the model
 *     model.layers.N.self_attn.position_query.weight     query  [heads rows, head_dim]; each layer trains its own
 *     model.layers.N.self_attn.position_key.weight       key    the same; absent where query and key share a table
 *     model.layers.N.self_attn.position_value.weight     value  the same
 *     model.layers.N.self_attn.position_bias.weight      bias   [rows, heads]
 *     model.layers.N.self_attn.position_content.weight   u      [heads, head_dim]
 *     model.layers.N.self_attn.position_position.weight  v      [heads, head_dim]
 *
 * With IMAGINARY, q_proj is [heads / 2 head_dim, model_dim].  Those of layer_parts:
 *
 *     model.layers.N.self_attn.fgate_proj.weight, .bias  FORGET_GATES  w [heads, model_dim], b [heads]
 *     model.layers.N.self_attn.key_phases.weight         POLAR         [kv_heads, head_dim], radians
 *     model.layers.N.self_attn.frequencies.weight        FREQUENCIES   [kv_heads, rope.dim / 2], radians per position
 *     model.layers.N.self_attn.fourier_cosines.weight    FOURIER       [kv_heads terms, pairs with a series]
 *     model.layers.N.self_attn.fourier_sines.weight                    the same
 *     model.layers.N.self_attn.head_matrices.left.weight HEAD_MATRICES [kv_heads head_dim, head_dim]; .right too
 *     model.layers.N.self_attn.head_matrices.scales.weight             [kv_heads, head_dim]
 *     model.layers.N.self_attn.gate_map.weight           REPOSITIONED  G [model_dim / 8, model_dim]; .content_map is C
 *     model.layers.N.self_attn.final_map.weight                        w [kv_heads, model_dim / 8]
 *     model.layers.N.self_attn.token_frequencies.weight  TOKEN_FREQUENCIES [kv_heads, model_dim]
 *     model.layers.N.self_attn.selective.angles.weight   SELECTIVE     [kv_heads pairs, heads / kv_heads head_dim]
 *     model.layers.N.self_attn.selective.taps.weight                   [kv_heads pairs, 4], the token itself first
 *     model.layers.N.self_attn.selective.gate.weight                   [kv_heads, model_dim]; .bias [kv_heads, 1]
 *     model.layers.N.self_attn.contextual.weight         CONTEXTUAL    [score.max_positions, head_dim]
 *     model.layers.N.self_attn.adaptive.hidden.weight    ADAPTIVE      [score.hidden_units, 2 heads]; ADAPTIVE_ADD: heads
 *     model.layers.N.self_attn.adaptive.hidden.bias                    [score.hidden_units]
 *     model.layers.N.self_attn.adaptive.output.weight                  [heads, score.hidden_units]
 *
 * If gyre_encoding_row_source is PROJECTED or SINUSOID, query, key and value are the matrices W, [heads head_dim,
 * model_dim], and model.rel_embeddings.weight, [rows, model_dim], is P if it is trained. */

/* *out = a model with random weights.  Matrices: normal(0, 1 / sqrt(inputs)); output projections of blocks are divided by
 * sqrt(2 layers).  Norms: 1.  Biases, phases, contextual embeddings and token frequencies: 0.  Tables: as
 * gyre_encoding_table_entry, most normal(0, 0.05).  Networks of adaptive biases and selective gates: normal(0, 1 / sqrt(3
 * inputs)), biases too; selective taps normal(0, 1 / sqrt(12)).  Series: term i ceil(terms / series) of pair i is 1 and the
 * others 0, plus normal(0, 0.3 sqrt(2 / ((terms + kv_heads) series))).  The same seed gives the same bits on every machine.
 * Errors: EINVAL, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_create(gyre_model **out, const gyre_model_config *config, uint64_t seed,
                                                       gyre_error *err);
/* *out = the model in a Hugging Face folder (config.json; model.safetensors whole or in shards with an index: F32, F16,
 * BF16, F64) or in a GGUF (those types and ggml's blocks), of a family in docs/models.md.  Files are mapped, and
 * matrices stay in their stored type: the files must not change while the model is open.  Every offset and size is
 * checked; NaN and infinite weights are refused.
 * options: how positions are read (gyre_reading_open); NULL = zeros.  Without a context_length, dynamic NTK and LongRoPE
 * end at the trained length: a longer context is EINVAL.  To read more, open the model for that length, or give contexts
 * an encoding with that context_length.  vLLM and llama.cpp choose LongRoPE's list for the model's longest context.
 * Errors: EIO, EFORMAT, EUNSUPPORTED, ENOMEM, EINVAL (options). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_open(gyre_model **out, const char *path, const gyre_reading_options *options,
                                                     gyre_error *err);
/* out = GYRE_OK if a model's config.json, or the metadata of its GGUF, is one that gyre_model_open runs; no weight is read.
 * path: as for gyre_model_open.
 * Errors: EUNSUPPORTED (a family or a setting, with its line), EFORMAT, EIO, EINVAL, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_check(const char *path, gyre_error *err);
/* *out = a model for training, its weights floats in memory, from a folder of gyre_model_save or of a llama with tied
 * embeddings and no biases.  Errors: as gyre_model_open. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_open_to_train(gyre_model **out, const char *folder, gyre_error *err);
/* Writes a model of gyre_model_create or gyre_model_open_to_train to a folder, weights as F32, F16 or BF16.  It replaces
 * `folder` atomically.
 * Errors: EINVAL, EIO, ENOMEM, EUNSUPPORTED (a model of gyre_model_open; gyre_convert writes those). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_save(const gyre_model *model, const char *folder, gyre_dtype dtype,
                                                     gyre_error *err);
GYRE_API void gyre_model_free(gyre_model *model); /* NULL is fine */
/* out = the config of the model, defaults filled in; valid as long as the model. */
GYRE_API const gyre_model_config *gyre_model_get_config(const gyre_model *model);
/* out = the encoding of the model: that of the layers that see all keys, if layers differ; valid as long as the model. */
GYRE_API const gyre_encoding *gyre_model_get_encoding(const gyre_model *model);
/* out = number of weights. */
GYRE_API int64_t gyre_model_parameters(const gyre_model *model);
/* *out (begun with GYRE_INIT) = the config of gyre_model_get_encoding at another context length, as the model's profile
 * reads its files; only the config, or a GGUF's metadata, is read again.  Its arrays are valid as long as *reading, which
 * the caller frees; *reading NULL for a model of gyre_model_create.  Errors: those of gyre_reading_open. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_position_for_length(const gyre_model *model, int64_t context_length,
                                                                    gyre_config *out, gyre_reading **reading,
                                                                    gyre_error *err);
/* The source of a model, for reports. */
typedef struct gyre_model_source {
    size_t size;                        /* set by GYRE_INIT */
    const char *path, *family, *format; /* family "llama", format "safetensors", "GGUF" or "memory"; path NULL =
                                         * gyre_model_create */
    gyre_profile profile;               /* that read its positions */
    int64_t bytes;                      /* of its files */
    int64_t weight_bytes;               /* of all matrices as stored: the bytes that one token reads */
    const char *stored;                 /* the type of most weights of its layers: "F32", "BF16", "Q4_K" */
} gyre_model_source;
/* out = the table of positions added at the input, [1, 1, positions, dim], of any type; data NULL = the model has none.
 * Valid as long as the model. */
GYRE_API gyre_cview gyre_model_get_input_table(const gyre_model *model);
/* out = the trained GYRE_TABLE_BIAS of a layer of a model in Gyre's own format: [1, 1, rows, heads] in F32, as
 * gyre_add_bias takes it; data NULL = the model trained none, has no such layer, or is of another format.  Valid as long
 * as the model. */
GYRE_API gyre_cview gyre_model_get_bias_table(const gyre_model *model, int64_t layer);
/* *out = the trained biases of the buckets of a layer in a checkpoint of another program: T5, mT5, UMT5, LongT5, Switch
 * Transformers, MPNet, and T5 in a GGUF.  Gyre need not be able to run the model.  T5 has one table for all layers of a
 * stack.  path: a folder, .safetensors or GGUF.  group: its gyre_layer_reading's name ("encoder", "decoder", "all");
 * out: dense F32 [1, 1, rows, heads], config.score.buckets and config.heads of that group, as gyre_add_bias takes it.
 * Errors: ESHAPE, EDTYPE (out); EUNSUPPORTED (no such tensor, or an unsupported type); EFORMAT (another shape, a damaged
 * file, a number that is not finite); EINVAL (no such layer); EIO; ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_checkpoint_bias(const char *path, const char *group, int64_t layer,
                                                          const gyre_view *out, gyre_error *err);
/* The positional content of a tensor of a checkpoint. */
typedef enum gyre_stored_position_kind {
    GYRE_STORED_POSITION_FREQUENCIES, /* radians per position of each pair, [pairs]: rotary_emb.inv_freq */
    GYRE_STORED_POSITION_ROWS,        /* rows added at the input, [rows, model_dim]: wpe, embed_positions */
    GYRE_STORED_POSITION_BUCKETS,     /* biases of buckets of distances, [buckets, heads] */
    GYRE_STORED_POSITION_DISTANCES,   /* vectors of distances, [distances, channels] */
    GYRE_STORED_POSITION_TRAINED      /* trained parts of Gyre's own layers: gates, frequencies, phases, series, embeddings,
                                       * tables, networks of adaptive biases */
} gyre_stored_position_kind;
typedef struct gyre_stored_position {
    gyre_stored_position_kind kind;
    const char *name, *file, *dtype; /* dtype as named in the file: "F16" */
    int64_t layer;                   /* from the name; -1 = none */
    int64_t rank, shape[4];          /* slowest first */
    const float *frequencies;        /* [shape[0]]; NULL = another kind, or an unsupported type */
    const char *key;                 /* TRAINED: the key of a config.json that says what it is; NULL = another kind */
} gyre_stored_position;
/* The tensors of a checkpoint that hold positions.  The library owns it and all it points to. */
typedef struct gyre_stored_positions {
    const gyre_stored_position *tensors; /* [count], by name */
    int64_t count;
    int64_t tensors_in_all; /* of the checkpoint */
} gyre_stored_positions;
/* *out = the tensors that hold positions of the text, by their names in transformers, llama.cpp or Gyre; those of vision
 * and audio towers are left out.  Gyre need not be able to run the model, and a GGUF may end within the data of its
 * tensors.  path: as for gyre_checkpoint_bias.
 * Errors: EFORMAT (a damaged file, frequencies that are not finite); EUNSUPPORTED; EIO; ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_stored_positions_open(gyre_stored_positions **out, const char *path,
                                                                gyre_error *err);
GYRE_API void gyre_stored_positions_free(gyre_stored_positions *positions); /* NULL is fine */
/* *out = the source of the model; strings valid as long as the model.  Errors: EINVAL (out without its size). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_get_source(const gyre_model *model, gyre_model_source *out);
/* *out = FNV-1a, 64 bits, of its weight files in order of their names, read completely; 0 for a model of
 * gyre_model_create.
 * Errors: EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_hash(const gyre_model *model, uint64_t *out, gyre_error *err);

/* -- one sequence -- */
/* Raw keys and values of every layer, and scratch memory.  Borrows the model, whose weights must not change while it
 * exists. */
typedef struct gyre_context gyre_context;

/* Products with matrices stored as BF16. */
typedef enum gyre_products {
    GYRE_PRODUCTS_F32, /* of floats */
    GYRE_PRODUCTS_BF16 /* of floats rounded to BF16, as other libraries compute them; sums stay floats.  An error of up to
                        * 2^-8 sum |x w| in place of about 2^-24, for speed where the processor has AMX */
} gyre_products;

typedef struct gyre_context_options {
    size_t size;                   /* set by GYRE_INIT */
    const gyre_encoding *encoding; /* replaces the model's encoding, to extend its context; borrowed; NULL = the model's
                                    * own.  Its tables must have the shapes of the model's (a projected sinusoid may have
                                    * other rows).  If layers differ in positions, it replaces gyre_model_get_encoding, and
                                    * every group with exactly the same rotation: Gemma 3's local layers keep theirs */
    int64_t max_tokens;            /* needed */
    gyre_dtype cache_dtype;        /* of keys and values: F32, F16, BF16 or Q8 */
    const gyre_exec *exec;         /* runs the tasks of every forward pass; same bits; borrowed; NULL = this thread */
    gyre_order order;              /* of attention; FIXED: the same order of sums for any split of the tokens into reads */
    int64_t first_position;        /* of the first token, at most 2^31 - max_tokens; scores that see only distances stay, up
                                    * to rounding; a length in use is the last position + 1; 0 = positions from 0 */
    gyre_products products;
} gyre_context_options;
/* *out = an empty sequence.  Errors: EINVAL, ESHAPE (an encoding of other heads), EDTYPE (cache_dtype), EUNSUPPORTED
 * (first_position of a model whose layers have their own attention; PRODUCTS_BF16 of a model without such matrices),
 * ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_create(gyre_context **out, const gyre_model *model,
                                                         const gyre_context_options *options, gyre_error *err);
GYRE_API void gyre_context_free(gyre_context *context); /* NULL is fine */
/* Reads n more tokens.  logits[i * vocab + w] = log-odds of w after token n - rows + i of these, i < rows <= n; only the
 * last `rows` are computed.  logits may be NULL if rows is 0.  For any split of the tokens into calls, the logits are the
 * same: bit-identical with GYRE_ORDER_FIXED, up to rounding otherwise.  GYRE_LENGTH_POLICY_PREFIX is the exception: one
 * read has one length in use, that after its last token, and layers after the first remember shorter lengths.  After an
 * error the sequence is unchanged.
 * Errors: EINVAL (a token outside the vocabulary, no room left, no logits to write to), ERANGE (the encoding has no such
 * position), EIO (a file of the model was truncated or changed since it was opened), EFORMAT (weights so large that
 * results are not finite: the text names the first token, the layer and the tensor).  After the last two the logits are
 * invalid. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_forward(gyre_context *context, const int32_t *tokens, int64_t n,
                                                          int64_t rows, float *logits, gyre_error *err);
/* As gyre_context_forward, with the vectors that logits are computed from: states[i * model_dim + c] = channel c after the
 * last norm, of token n - rows + i of these.  No logits are computed.  Errors: as gyre_context_forward. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_embed(gyre_context *context, const int32_t *tokens, int64_t n,
                                                        int64_t rows, float *states, gyre_error *err);
/* out = tokens read so far. */
GYRE_API int64_t gyre_context_tokens(const gyre_context *context);
/* Keeps only the first `tokens`.  Errors: EINVAL (more than were read, or a window is set). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_truncate(gyre_context *context, int64_t tokens);
/* Forgets all tokens. */
GYRE_API void gyre_context_reset(gyre_context *context);
/* Makes an empty context endless: StreamingLLM (Xiao 2023, arXiv 2309.17453).  Once `window` tokens are held, a new token
 * sees the first `sinks` and the last window - sinks, itself included, at positions 0 .. window - 1; tokens are then read
 * one by one.  sinks + 2 <= window <= max_tokens; max_tokens of several windows avoids moving the cache at every token.
 * 0, 0: no window.  A read that fails after the window has moved drops all tokens.
 * Errors: EINVAL (also a context that is not empty); EUNSUPPORTED (positions added at the input, watched weights or heads,
 * a first_position). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_stream(gyre_context *context, int64_t sinks, int64_t window,
                                                         gyre_error *err);
/* Every later read also writes the attention weights of one layer, for pictures: weights[t][h][n] = softmax of query t at
 * key n in head h, t and n counted from the first token; entries of keys after the query are 0 or not written.
 * weights: [max_tokens][heads][max_tokens] floats of the caller, until the context is freed or watching ends; NULL = stop
 * watching.
 * Errors: EINVAL (no such layer), EUNSUPPORTED (a window of gyre_context_stream is set). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_watch(gyre_context *context, int64_t layer, float *weights,
                                                        gyre_error *err);
/* Every later read also writes the queries and keys of one layer as they are before they rotate, t counted from the first
 * token: queries[t][heads][head_dim], keys[t][kv_heads][head_dim], with room for max_tokens, until the context is freed or
 * watching ends; NULL, NULL = stop watching.
 * Errors: EINVAL (no such layer, one of the two is NULL), EUNSUPPORTED (a window of gyre_context_stream is set; a model
 * that rotates keys before they are cached, or has IMAGINARY; a layer that reads the keys of another one, or whose heads
 * have other sizes than those of gyre_model_get_config). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_watch_heads(gyre_context *context, int64_t layer, float *queries,
                                                              float *keys, gyre_error *err);
/* out = bytes of keys, values, activations and scratch.  Half of a cache is address space that is never written. */
GYRE_API int64_t gyre_context_bytes(const gyre_context *context);

/* -- tokenizers -- */
/* Token ids in memory, from the gyre_text_* calls, gyre_tokenize or the caller. */
typedef struct gyre_text {
    int32_t *ids;
    int64_t count; /* 0 = no tokens: most calls need some */
    uint64_t hash; /* FNV-1a, 64 bits, of the bytes read, file after file; 0 = unknown: a resumed run on another text is not
                    * detected */
    int64_t files; /* 0 = unknown */
    int64_t bytes; /* total bytes read; 0 = unknown (ids) */
} gyre_text;

/* Never changes; threads may share it. */
typedef struct gyre_tokenizer gyre_tokenizer;
typedef enum gyre_tokenizer_kind {
    GYRE_TOKENIZER_BYTES,      /* ids are bytes: models of gyre_model_create */
    GYRE_TOKENIZER_BYTE_LEVEL, /* byte-level BPE behind a pre-tokenizer pattern: gpt2, llama3, qwen2 */
    GYRE_TOKENIZER_PIECES      /* sentencepiece's BPE with byte fallback: llama2, mistral, gemma */
} gyre_tokenizer_kind;
typedef struct gyre_tokenizer_info {
    size_t size; /* set by GYRE_INIT */
    gyre_tokenizer_kind kind;
    int64_t vocab;                    /* ids are below it */
    int32_t begin, end, unknown, pad; /* special tokens; -1 = none */
    int adds_begin;                   /* 1 = texts of this model start with `begin` */
    const char *notes; /* settings that Gyre handles differently ("normalizer NFC: ..."), separated by "; "; "" = none */
    const char *chat_template; /* of the model's files: a program in Jinja that writes the turns of a chat; "" = none */
} gyre_tokenizer_info;
typedef enum gyre_tokenize_flags {
    GYRE_TOKENIZE_BEGIN = 1,   /* the begin token first, if the model's texts have one */
    GYRE_TOKENIZE_SPECIAL = 2, /* the text of an added token ("<|eot|>") is that token, not its characters */
    GYRE_TOKENIZE_INSIDE = 4   /* a piece of a text, not its start: no space is put before it */
} gyre_tokenize_flags;

/* *out = the tokenizer of a model folder (its tokenizer.json; bytes for a vocabulary of 256 without one), of a
 * tokenizer.json, or of a GGUF (gpt2 and llama kinds).  Errors: EIO; EFORMAT (names file, field and offset); EUNSUPPORTED
 * (names the kind or step); ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_tokenizer_open(gyre_tokenizer **out, const char *path, gyre_error *err);
/* *out = a tokenizer whose ids are bytes.  Errors: ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_tokenizer_create_bytes(gyre_tokenizer **out, gyre_error *err);
GYRE_API void gyre_tokenizer_free(gyre_tokenizer *tokenizer); /* NULL is fine */
/* *out = its properties; notes and chat_template valid as long as the tokenizer.  Errors: EINVAL (out without its size). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_tokenizer_get_info(const gyre_tokenizer *tokenizer, gyre_tokenizer_info *out);
/* *out = the tokens of any bytes, text[0 .. bytes - 1], with their hash and count.  flags: a set of gyre_tokenize_flags.
 * gyre_detokenize with the same flags returns the same bytes, except white space consumed by a special token and, with
 * SPECIAL, the begin token.
 * Errors: EINVAL (a byte without a token; 2^31 - 1 bytes or more), EUNSUPPORTED (a pattern that needs too much work on this
 * text), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_tokenize(const gyre_tokenizer *tokenizer, const char *text, size_t bytes,
                                                   unsigned flags, gyre_text *out, gyre_error *err);
/* *text = the *bytes bytes of tokens->ids, then a NUL; the caller frees it.  Special tokens are left out without
 * GYRE_TOKENIZE_SPECIAL.  GYRE_TOKENIZE_INSIDE keeps the space before the first word.  Of tokens only ids and count are
 * read.
 * Errors: EINVAL (an id outside the vocabulary), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_detokenize(const gyre_tokenizer *tokenizer, const gyre_text *tokens,
                                                     unsigned flags, char **text, size_t *bytes, gyre_error *err);

/* -- sampling -- */
typedef struct gyre_sampling {
    size_t size;        /* set by GYRE_INIT */
    double temperature; /* 0 = the likeliest token */
    double top_p;       /* sample from the likeliest tokens with this total probability; 0 = all */
    int64_t top_k;      /* sample from at most this many; 0 = all */
} gyre_sampling;
/* out = a token sampled from logits[vocab], which are overwritten; -1 if one is NaN or none is finite, and for invalid
 * arguments.  sampling NULL = zeros. state: of the generator, advanced once by every call.  The same logits and state give
 * the same token on every machine. */
GYRE_API int32_t gyre_sample(float *logits, int64_t vocab, const gyre_sampling *sampling, uint64_t *state);

/* -- texts -- */
/* Selects files by the FNV-1a hash of their content: hash % 10 == 0 is held out. */
typedef enum gyre_text_split { GYRE_TEXT_SPLIT_ALL, GYRE_TEXT_SPLIT_TRAIN, GYRE_TEXT_SPLIT_HELD_OUT } gyre_text_split;

/* *out = the bytes of `paths` in order.  A folder means all regular files below it, sorted by path; symbolic links and
 * special files are skipped.  minimum: total bytes needed.
 * Errors: EIO (missing, unreadable), EINVAL (empty, too short), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_text_open(gyre_text *out, const char *const *paths, int64_t count,
                                                    gyre_text_split split, int64_t minimum, gyre_error *err);
/* *out = the same files through a tokenizer, each separately; the first begins with the begin token if the model's texts
 * have one.  minimum: tokens.  Errors: as gyre_text_open and gyre_tokenize; EFORMAT (a file of more than 2^31 - 2
 * bytes). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_text_tokenize(gyre_text *out, const gyre_tokenizer *tokenizer,
                                                        const char *const *paths, int64_t count, int64_t minimum,
                                                        gyre_error *err);
/* *out = decimal ids below vocab, separated by white space or commas.  Errors: as gyre_text_open; EFORMAT (names the
 * byte; or more than 2^31 - 2 bytes). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_text_open_ids(gyre_text *out, const char *path, int64_t vocab, int64_t minimum,
                                                        gyre_error *err);
GYRE_API void gyre_text_free(gyre_text *text); /* leaves it empty */

/* -- perplexity and retrieval -- */
/* Callbacks of a long call, both from any thread; NULL = none. */
typedef struct gyre_watcher {
    void (*progress)(void *ctx, int64_t done, int64_t all); /* tokens, unless said otherwise; NULL = none */
    int (*stop)(void *ctx); /* polled regularly; a nonzero result ends the call with EIO.  NULL = none */
    void *ctx;              /* of both; NULL = none */
} gyre_watcher;

/* Which predictions count, shown for windows of 8 tokens (x = scored, . = context only).
 *
 *     SLIDING, stride 2   ......xx       TRUNCATE   xxxxxxxx              LAST, stride 8   ....xxxx
 *                           ......xx                       xxxxxxxx                              ....xxxx  */
typedef enum gyre_eval_protocol {
    GYRE_EVAL_PROTOCOL_SLIDING,  /* windows start every `stride`; the last `stride` predictions of each are scored */
    GYRE_EVAL_PROTOCOL_TRUNCATE, /* windows side by side, all scored; mean of the windows' means: YaRN's tables */
    GYRE_EVAL_PROTOCOL_LAST      /* windows start every `stride`; the last 200 predictions (or half, if fewer) are scored */
} gyre_eval_protocol;
/* -- several processes -- */
/* Processes that share the work of a call: each makes the same calls with the same arguments, and gets the bits of a
 * single process.  Work is distributed in whole items: rank r has items ceil(r count / ranks) .. ceil((r + 1) count /
 * ranks) - 1.  The program provides the communication; the gyre command has a team over MPI. */
typedef struct gyre_team {
    size_t size;   /* set by GYRE_INIT */
    int64_t rank;  /* 0 = the first */
    int64_t ranks; /* needed */
    /* items[count] of `bytes` bytes each, with those of this rank filled in: on return all are.  status: of this rank's
     * work, with its error in err.  out = GYRE_OK, or the failure of a rank, the same on all of them, with *err.
     * needed */
    gyre_status (*gather)(void *ctx, gyre_status status, void *items, int64_t count, size_t bytes, gyre_error *err);
    /* items[0][n] = the sum of the items of all ranks, added in their order, one after the other.  items[own][n]: those of
     * this rank, in order; room for one if it has none (never on rank 0).  status, out: as above.
     * needed */
    gyre_status (*sum)(void *ctx, gyre_status status, float *items, int64_t own, int64_t n, gyre_error *err);
    void *ctx; /* of both; NULL = none */
} gyre_team;

typedef struct gyre_eval_options {
    size_t size;                   /* set by GYRE_INIT */
    const gyre_encoding *encoding; /* NULL = the model's own */
    int64_t context;               /* tokens of a window; needed */
    int64_t stride;                /* 0 = context / 2 */
    int64_t windows;               /* at most, spread evenly over the text; 0 = all */
    gyre_eval_protocol protocol;
    const int64_t *starts;  /* [windows] the start of each window, instead of every stride; NULL = none */
    double *by_position;    /* [buckets] mean nats per token by position in the window, all predictions; NULL = not wanted */
    int64_t buckets;        /* equal parts of the context; 0 = by_position is not written */
    double *by_window;      /* [windows read] mean nats per scored prediction; NULL = not wanted */
    gyre_dtype cache_dtype; /* of keys and values: F32, F16, BF16 or Q8 */
    gyre_watcher watcher;
    const gyre_team *team;        /* processes that share the windows; NULL = this one reads all */
    const unsigned char *counted; /* [text.count] of the scored predictions, only those of tokens with a 1 count, at least
                                   * one in each window; NULL = all */
    int64_t first_position;       /* of the first token of every window, as gyre_context_options.first_position; 0 =
                                   * positions from 0 */
    gyre_products products;       /* as gyre_context_options.products */
} gyre_eval_options;
typedef struct gyre_eval_result {
    double nats; /* per token: perplexity is exp(nats), bits per token nats / ln 2 */
    int64_t windows, scored;
} gyre_eval_result;
/* *out = the loss of the model on the text.  Windows are read in parallel, 512 tokens at a time, with ORDER_FIXED; the
 * result does not depend on the number of threads.  Under LENGTH_POLICY_PREFIX each read has its own length in use, as
 * during generation: tokens before the first scored one at once, then 64 at a time.  This holds for passkeys too.
 * Errors: EINVAL (a text shorter than context + 1), EIO (stopped), EFORMAT (a perplexity that is infinite; the text names
 * the window), those of gyre_context_forward. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_evaluate(const gyre_model *model, const gyre_text *text,
                                                   const gyre_eval_options *options, gyre_eval_result *out,
                                                   const gyre_exec *exec, gyre_error *err);

/* Passkeys over byte tokens.  Each key is MARK d d d d END, with a unique marker that no UTF-8 text contains:
 *
 *     text text M1 4 7 1 1 END text text M2 0 9 3 5 END text ...   M2 ? ? ? ? END M1 ? ? ? ? END
 *
 * All four digits of an answer must be the likeliest next bytes, given the right ones before. */
typedef struct gyre_passkey_options {
    size_t size;                   /* set by GYRE_INIT */
    const gyre_encoding *encoding; /* NULL = the model's own */
    int64_t context;               /* bytes of a window; needed */
    int64_t trials;                /* minimum number of queried keys, in windows of at most 2^32 bytes in all; 0 = 104 */
    int64_t keys;                  /* in a window, at most GYRE_PASSKEY_KEYS; 0 = all of them */
    uint64_t seed;                 /* 0 = the seed 0 */
    gyre_watcher watcher;
    const gyre_team *team; /* processes that share the windows; NULL = this one reads all */
    int64_t *by_window;    /* [windows read, at most `trials`] right answers of each; NULL = not wanted */
} gyre_passkey_options;
enum {
    GYRE_PASSKEY_KEYS = 8,
    GYRE_PASSKEY_LENGTH = 6, /* bytes of MARK d d d d END */
    GYRE_PASSKEY_MARK = 0xF5 /* the first of eight markers; END is the byte after the last */
};
typedef struct gyre_passkey_result {
    int64_t trials, right, windows;
} gyre_passkey_result;
/* *out = numbers of trials and of right answers.
 * Errors: EINVAL, EIO (stopped), EUNSUPPORTED (a vocabulary without bytes), those of gyre_context_forward. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_passkey(const gyre_model *model, const gyre_text *text,
                                                  const gyre_passkey_options *options, gyre_passkey_result *out,
                                                  const gyre_exec *exec, gyre_error *err);
/* Copying over byte tokens.  Segments of 8 random printable bytes are hidden in the text, one in each of as many equal
 * parts, and repeated at the end in another order; no two segments share a byte:
 *
 *     text text q7]Kz.4R text text text W&b2:eG( text ... W&b2:eG( q7]Kz.4R
 *                                                           ^^^^^^   ^^^^^^     scored, given the right ones before */
enum {
    GYRE_COPYING_LENGTH = 8, /* bytes of a segment */
    GYRE_COPYING_GIVEN = 2   /* the first bytes of a copy, which identify it and are not scored */
};
/* *out = the scored bytes (trials) and those that were the likeliest (right).
 * options: of passkeys, with trials = minimum number of segments (0 = 104), and keys = segments in a window (0 = 4, at
 * most 8).
 * Errors: those of gyre_passkey. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_copying(const gyre_model *model, const gyre_text *text,
                                                  const gyre_passkey_options *options, gyre_passkey_result *out,
                                                  const gyre_exec *exec, gyre_error *err);
/* -- formats -- */
typedef enum gyre_model_format { GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_MODEL_FORMAT_GGUF } gyre_model_format;
typedef struct gyre_convert_options {
    size_t size; /* set by GYRE_INIT */
    gyre_model_format format;
    const gyre_dtype *dtype;   /* type of the written matrices: F32, F16, BF16; in a GGUF also Q8 (Q8_0).  NULL = matrices
                              * keep theirs (quantized ones become F16 in safetensors) */
    const gyre_layout *layout; /* pairs of channels in the result.  NULL = as readers of its format expect */
    const gyre_layout *source_layout; /* pairs of channels in the source, overriding its files.  NULL = as in its files */
    gyre_watcher watcher;             /* counts bytes; stopped: nothing is written */
    void (*lost)(void *ctx, const char *what); /* called with each loss in the target; NULL = EUNSUPPORTED */
    void *ctx;                                 /* of lost; NULL = none */
    int64_t *written; /* set to the written bytes of the GGUF, or of the folder's weights; NULL = not wanted */
} gyre_convert_options;
/* Writes the model at `path` (a folder, a GGUF, or a folder with a checkpoint of llama2.c) to `target`, a folder of
 * safetensors or a GGUF, with config and tokenizer.  The target is replaced atomically.  Rows of query and key are
 * permuted head by head if the layout changes.  options NULL = zeros.  `lost` is called once for each loss, before the
 * target exists: a window shorter than the model's length; merges that scores cannot express, or scores that merges
 * cannot; spaces that an added token consumes, and the search order of added tokens; behaviour of a decoder, a template of
 * the post-processor, dropout or a model without byte fallback that readers of the target lack.  Anything else that the
 * target cannot express is an error.
 * Errors: those of gyre_model_open; EIO (also if a file of the model changes during the call); EUNSUPPORTED (the target
 * cannot express something, named); EINVAL (target holds something else). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_convert(const char *path, const char *target, const gyre_convert_options *options,
                                                  gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_MODEL_H */

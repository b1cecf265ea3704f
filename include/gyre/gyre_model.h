/* gyre_model.h: a decoder driven by a model's config, its files, the texts it reads and the figures it is judged by.
 *
 * Models made here (gyre_model_create) are Llamas (RMSNorm before each block, SwiGLU, no biases, embedding shared with the
 * output) whose positions come from a gyre_encoding alone, and can be trained.  Models that are opened may be of many
 * families (docs/models.md); their weights stay in the type they are stored in, and their positions are those that
 * gyre_reading tells of.  Matrix products go to OpenBLAS in single-threaded calls over fixed blocks, so results do not
 * depend on the number of threads. */
#ifndef GYRE_MODEL_H
#define GYRE_MODEL_H
#include "gyre/gyre_reading.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- the model -- */
typedef struct gyre_model_config {
    size_t size; /* set by GYRE_MODEL_CONFIG_INIT */
    int64_t vocab, model_dim, layers, heads, kv_heads, head_dim, mlp_dim;
    double norm_epsilon;
    gyre_config position; /* its head_dim, heads and input.dim are filled in from the fields above */
} gyre_model_config;

typedef struct gyre_model gyre_model;

/* Beside a llama's tensors, a model holds those tables that its encoding has (gyre_encoding_table_shape), as
 *
 *     model.embed_positions.weight                        input   [rows, width], a factor [1, 1]; one for the model
 *     model.layers.N.self_attn.position_query.weight      query   [heads rows, head_dim]; each layer trains its own
 *     model.layers.N.self_attn.position_key.weight        key     the same; none where query and key share theirs
 *     model.layers.N.self_attn.position_value.weight      value   the same
 *     model.layers.N.self_attn.position_bias.weight       bias    [rows, heads]
 *     model.layers.N.self_attn.position_content.weight    u       [heads, head_dim]
 *     model.layers.N.self_attn.position_position.weight   v       [heads, head_dim]
 *
 * where gyre_encoding_row_source says that an embedding of positions is projected, query, key and value are the matrices W,
 * [heads head_dim, width], and model.rel_embeddings.weight, [rows, width], is P if it is trained. */

/* *out = a model with random weights: tables as gyre_encoding_table_entry has it, most normal(0, 0.05); a matrix normal(0, 1
 * / sqrt(inputs)), those that end a block divided by sqrt(2 layers), norms 1.  The same seed gives the same bits everywhere.
 * Errors: EINVAL, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_create(gyre_model **out, const gyre_model_config *config, uint64_t seed,
                                                       gyre_error *err);
/* *out = the model in a Hugging Face style folder (config.json and model.safetensors, whole or in shards with an index, of
 * F32, F16 or BF16) or in a GGUF file (those types, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K), of the families that docs/models.md
 * lists. Files are mapped and matrices stay as they are stored: nobody may shorten them while the model lives.  Every offset
 * and size is checked, NaN and infinite weights are refused.  Errors: EIO, EFORMAT, EUNSUPPORTED, ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_open(gyre_model **out, const char *path, gyre_error *err);
/* The same, its positions as a program or version reads them.  length: the context length in use, as for gyre_reading_open;
 * 0 = none is said, as by gyre_model_open.  Dynamic NTK and LongRoPE then turn as within the trained length, however much is
 * read (vLLM and llama.cpp choose LongRoPE's list as for the longest context of the model): to read more, open for that
 * length, or give contexts an encoding whose rope.context_length it is. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_open_as(gyre_model **out, const char *path, gyre_profile profile,
                                                        int64_t length, gyre_error *err);
/* *out = a model like those of gyre_model_create from a folder, its weights as floats in memory so that it can be trained: a
 * llama with tied embeddings and no biases, or what gyre_model_save wrote. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_open_to_train(gyre_model **out, const char *folder, gyre_error *err);
/* Writes such a folder with weights as F32, F16 or BF16, under a temporary name, synced, then renamed over `folder`.
 * EUNSUPPORTED for a model of gyre_model_open: gyre_convert writes those. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_save(const gyre_model *model, const char *folder, gyre_dtype dtype,
                                                     gyre_error *err);
GYRE_API void gyre_model_free(gyre_model *model); /* NULL is fine */
/* out = its config, complete; valid as long as the model. */
GYRE_API const gyre_model_config *gyre_model_get_config(const gyre_model *model);
/* out = the encoding it was made with, or that of its layers that see all keys, if any; valid as long as the model. */
GYRE_API const gyre_encoding *gyre_model_get_encoding(const gyre_model *model);
/* out = number of weights. */
GYRE_API int64_t gyre_model_parameters(const gyre_model *model);
/* *out = the config of gyre_model_get_encoding as the same profile reads the model's files at another length in use (as for
 * gyre_model_open_as; only the config, or a GGUF's metadata, is read again).  Its arrays live as long as *reading, which the
 * caller frees; NULL for a model made here, whose positions are read from no file.  Errors: those of gyre_reading_open. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_position_for_length(const gyre_model *model, int64_t length,
                                                                    gyre_config *out, gyre_reading **reading,
                                                                    gyre_error *err);
/* Where a model came from, for what is written about a run. */
typedef struct gyre_model_source {
    const char *path, *family, *format; /* "llama"; "safetensors", "GGUF", "memory"; path NULL = made here */
    gyre_profile profile;               /* whose reading its positions are */
    int64_t bytes, weight_bytes;        /* of its files; of one reading of every matrix, as stored */
    const char *stored;                 /* the type most weights of its layers are in: "F32", "BF16", "Q4_K" */
} gyre_model_source;
/* out = it; valid as long as the model. */
GYRE_API gyre_model_source gyre_model_get_source(const gyre_model *model);
/* *out = FNV-1a, 64 bits, of its weight files in order of their names; reads them whole.  0 for a model made here.  EIO. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_model_hash(const gyre_model *model, uint64_t *out, gyre_error *err);

/* -- reading a sequence -- */
/* One sequence being read: the keys and values of every layer, raw (turned when read), and scratch. */
typedef struct gyre_context gyre_context;

typedef struct gyre_context_options {
    size_t size;                   /* set by GYRE_CONTEXT_INIT */
    const gyre_encoding *encoding; /* as below */
    int64_t max_tokens;
    gyre_dtype cache_dtype; /* F32, F16, BF16 or Q8: what keys and values are kept as */
    const gyre_exec *exec;  /* every read is split over it, the bits the same; borrowed; NULL = this thread */
} gyre_context_options;
/* *out = an empty sequence of at most max_tokens tokens.  encoding: another than the model's own (a context extension), or
 * NULL; borrowed, as the model is, whose weights must not change while the context lives.  Every table that it has must be
 * one that the model has, of the same shape; of a projected sinusoid the number of rows may be another.  Where layers differ
 * in their positions it takes the place of gyre_model_get_encoding's, which is that of layers that see all keys, and of
 * every other group that turns just so: Gemma 3's local layers keep their own. Errors: EINVAL, ESHAPE (an encoding of other
 * heads), EDTYPE (a type that no cache has), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_create(gyre_context **out, const gyre_model *model,
                                                         const gyre_context_options *options, gyre_error *err);
/* out = bytes of keys, values, activations and scratch that it holds.  Of a cache half are address space that nothing is
 * written to. */
GYRE_API int64_t gyre_context_bytes(const gyre_context *context);
/* Forgets all but the first `tokens` (EINVAL: more than were read, or a window is set). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_truncate(gyre_context *context, int64_t tokens);

GYRE_API void gyre_context_free(gyre_context *context); /* NULL is fine */
/* Forgets all tokens. */
GYRE_API void gyre_context_reset(gyre_context *context);
/* out = tokens read so far. */
GYRE_API int64_t gyre_context_tokens(const gyre_context *context);
/* Reads n more tokens.  logits[i * vocab + w] = log-odds of w following token n - rows + i of these, i < rows <= n: only the
 * last `rows` are computed.  Token by token equals all at once up to rounding, but under
 * GYRE_LENGTH_POLICY_PREFIX, where the length in use is that up to the last token of a read, for all of the read: there one
 * attention does so, given the same inputs, and layers after the first remember shorter lengths.  After an error the
 * sequence is as it was. Errors: EINVAL (a token outside the vocabulary, no room left), ERANGE (the encoding ends before
 * that position). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_forward(gyre_context *context, const int32_t *tokens, int64_t n,
                                                          int64_t rows, float *logits, gyre_error *err);

/* Lets a context that has read nothing yet (EINVAL) read without end: StreamingLLM (Xiao 2023, arXiv 2309.17453).  Once
 * `window` tokens are held, of each further one only the first `sinks` and the last window - sinks, itself among them, are
 * seen, at positions 0 .. window - 1 within the cache; such tokens are read one by one, however they come.  sinks + 2 <=
 * window <= max_tokens; a max_tokens of several windows spares moving what is held once a token.  0, 0: no window.  A read
 * that fails once the window has moved forgets all.  Errors: EINVAL; EUNSUPPORTED where positions are added at the input. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_context_stream(gyre_context *context, int64_t sinks, int64_t window,
                                                         gyre_error *err);

/* -- tokenizers -- */
/* Text to ids and back.  Never changes; share it between threads freely. */
typedef struct gyre_tokenizer gyre_tokenizer;
typedef enum gyre_tokenizer_kind {
    GYRE_TOKENIZER_BYTES,      /* ids are bytes: models made here */
    GYRE_TOKENIZER_BYTE_LEVEL, /* byte-level BPE with a pattern that cuts words: gpt2, llama3, qwen2 */
    GYRE_TOKENIZER_PIECES      /* sentencepiece's BPE with byte fallback: llama2, mistral, gemma */
} gyre_tokenizer_kind;
typedef struct gyre_tokenizer_info {
    gyre_tokenizer_kind kind;
    int64_t vocab;                    /* ids are below it */
    int32_t begin, end, unknown, pad; /* -1 = none */
    int adds_begin;                   /* 1: a text of this model starts with `begin` */
    const char *notes; /* what a file asks for that is done otherwise here ("normalizer NFC: ..."); "" = nothing */
} gyre_tokenizer_info;
enum {
    GYRE_TOKENIZE_BEGIN = 1,   /* the begin token first, where the model's texts have one */
    GYRE_TOKENIZE_SPECIAL = 2, /* the text of an added token ("<|eot|>") is that token, not its characters */
    GYRE_TOKENIZE_INSIDE = 4   /* a piece of text that others stand before: no space is put before it */
};

/* *out = the tokenizer of a model folder (its tokenizer.json; a vocabulary of 256 without one is bytes), of a
 * tokenizer.json, or inside a GGUF (gpt2 and llama kinds).  EFORMAT names file, field and offset.  Errors: EIO, EFORMAT,
 * EUNSUPPORTED (a kind or step that is not known: said which), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_tokenizer_open(gyre_tokenizer **out, const char *path, gyre_error *err);
GYRE_API GYRE_MUST_CHECK gyre_status gyre_tokenizer_create_bytes(gyre_tokenizer **out, gyre_error *err); /* ids are bytes */
GYRE_API void gyre_tokenizer_free(gyre_tokenizer *tokenizer);                                            /* NULL is fine */
GYRE_API gyre_tokenizer_info gyre_tokenizer_get_info(const gyre_tokenizer *tokenizer);
/* *ids = the tokens of text[0 .. bytes - 1], any bytes at all, which the caller frees; *count of them.  Back through
 * gyre_detokenize, with the same flags, they are the same bytes, but for white space that a special token takes in and,
 * where special tokens are shown, the begin token.  flags: of GYRE_TOKENIZE_*.  Errors: EINVAL (a byte that no token stands
 * for; 2^31
 * - 1 bytes or more), EUNSUPPORTED (a pattern that is too much work on this text), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_tokenize(const gyre_tokenizer *tokenizer, const char *text, size_t bytes,
                                                   unsigned flags, int32_t **ids, int64_t *count, gyre_error *err);
/* *text = what ids stand for, a NUL after it, which the caller frees; *bytes of it.  Special tokens are left out unless
 * flags has GYRE_TOKENIZE_SPECIAL; GYRE_TOKENIZE_INSIDE: a space before the first word stays.  Errors: EINVAL (an id outside
 * the vocabulary), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_detokenize(const gyre_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                                     unsigned flags, char **text, size_t *bytes, gyre_error *err);

/* -- what comes next -- */
typedef struct gyre_sampling {
    size_t size;        /* set by GYRE_SAMPLING_INIT */
    double temperature; /* 0 = the likeliest token */
    double top_p;       /* of the likeliest tokens that together have this share; 1 = all */
    int64_t top_k;      /* at most so many; 0 = all */
} gyre_sampling;
/* out = a token drawn from logits[vocab], which are overwritten; state: of the generator, advanced once whatever is drawn.
 * The same logits and state give the same token everywhere.  -1 where a logit is NaN or none is finite. */
GYRE_API int32_t gyre_sample(float *logits, int64_t vocab, const gyre_sampling *sampling, uint64_t *state);

/* -- texts -- */
/* Token ids in memory. */
typedef struct gyre_text {
    int32_t *ids;
    int64_t count;
    uint64_t hash; /* FNV-1a, 64 bits, of the bytes read, file after file */
    int64_t files;
    int64_t bytes; /* read in all: tokens of a tokenizer stand for several; 0 = not known (ids) */
} gyre_text;

/* Which files to take, by the FNV-1a hash of their content: those with hash % 10 == 0 are held out. */
typedef enum gyre_text_split { GYRE_TEXT_SPLIT_ALL, GYRE_TEXT_SPLIT_TRAIN, GYRE_TEXT_SPLIT_HELD_OUT } gyre_text_split;

/* out = the bytes of `paths` in order; a folder stands for all regular files under it, sorted by path (symbolic links and
 * special files are passed over).  Needs at least `least` bytes in all.  Errors: EIO (missing, unreadable), EINVAL (empty,
 * too short), ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_text_open(gyre_text *out, const char *const *paths, int64_t count,
                                                    gyre_text_split split, int64_t least, gyre_error *err);
/* out = the same files through a tokenizer, each file on its own, with the token that begins a text before the first of them
 * where the model has one.  Needs at least `least` tokens.  Errors: those, and of gyre_tokenize. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_text_tokenize(gyre_text *out, const gyre_tokenizer *tokenizer,
                                                        const char *const *paths, int64_t count, int64_t least,
                                                        gyre_error *err);
/* out = decimal token ids separated by white space or commas, each below vocab.  EFORMAT names the byte. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_text_open_ids(gyre_text *out, const char *path, int64_t vocab, int64_t least,
                                                        gyre_error *err);
GYRE_API void gyre_text_free(gyre_text *text); /* leaves it empty */

/* -- figures -- */
typedef enum gyre_eval_protocol {
    GYRE_EVAL_PROTOCOL_SLIDING, /* windows of `context` tokens starting every `stride`; the last `stride` predictions of each
                                   are scored */
    GYRE_EVAL_PROTOCOL_TRUNCATE, /* windows side by side, every prediction scored, mean over windows of the window's mean
                                  * (YaRN's tables) */
    GYRE_EVAL_PROTOCOL_LAST      /* windows starting every `stride`; only the last 200 predictions (or half, if fewer) are
                             * scored */
} gyre_eval_protocol;
typedef struct gyre_eval_options {
    size_t size; /* set by GYRE_EVAL_INIT */
    int64_t context, stride /* 0 = context / 2 */, windows /* at most, spread evenly; 0 = all */;
    gyre_eval_protocol protocol;
    const int64_t *starts;  /* [windows] where each window begins, instead of every stride; or NULL */
    double *by_position;    /* [buckets] mean nats per token by position in the window, every prediction; or NULL */
    int64_t buckets;        /* equal shares of the context */
    double *by_window;      /* [windows read] mean nats per scored prediction of each; or NULL */
    gyre_dtype cache_dtype; /* F32, F16, BF16 or Q8: what keys and values are kept as */
    void (*progress)(void *ctx, int64_t done, int64_t all); /* tokens, from any thread; or NULL */
    void *progress_ctx;
} gyre_eval_options;
typedef struct gyre_eval_result {
    double nats; /* per token: perplexity is exp(nats), bits per token nats / ln 2 */
    int64_t windows, scored;
} gyre_eval_result;

/* out = how well the model predicts ids[0 .. count - 1] under `encoding` (NULL = its own).  Windows are read in parallel, by
 * gyre_context_forward of 512 tokens at a time; under GYRE_LENGTH_POLICY_PREFIX, where each read has its own length in use,
 * as an engine that generates: those before the first prediction asked for at once, then 64 at a time (passkeys likewise).
 * The result does not depend on how many at once.  Errors: EINVAL (a text shorter than context + 1), those of
 * gyre_context_forward. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_evaluate(const gyre_model *model, const gyre_encoding *encoding,
                                                   const gyre_text *text, const gyre_eval_options *options,
                                                   gyre_eval_result *out, const gyre_exec *exec, gyre_error *err);

/* Passkey retrieval over byte tokens.  A window of text hides `keys` keys, each MARK d d d d END with its own marker byte;
 * it ends with the markers again, in another order, and after each the four digits must all be the likeliest next bytes
 * (given the digits before).  Markers are bytes that no UTF-8 text contains.  One key asked for is one trial. */
typedef struct gyre_passkey_options {
    size_t size; /* set by GYRE_PASSKEY_INIT */
    int64_t context, trials /* at least */, keys /* in a window, at most GYRE_PASSKEY_KEYS */;
    uint64_t seed;
    void (*progress)(void *ctx, int64_t done, int64_t all); /* tokens, from any thread; or NULL */
    void *progress_ctx;
} gyre_passkey_options;
enum {
    GYRE_PASSKEY_KEYS = 8,
    GYRE_PASSKEY_LENGTH = 6, /* bytes of MARK d d d d END */
    GYRE_PASSKEY_MARK = 0xF5 /* the markers are this byte and the seven after it, END the next */
};
typedef struct gyre_passkey_result {
    int64_t trials, right, windows;
} gyre_passkey_result;
GYRE_API GYRE_MUST_CHECK gyre_status gyre_passkey(const gyre_model *model, const gyre_encoding *encoding,
                                                  const gyre_text *text, const gyre_passkey_options *options,
                                                  gyre_passkey_result *out, const gyre_exec *exec, gyre_error *err);

/* out[0 .. length - 1] = a window of text from a random place with `keys` keys hidden and asked for; weight[i] (or NULL) = 1
 * where out[i] is a digit asked for.  state: of the generator, advanced. */
GYRE_API void gyre_passkey_window(const gyre_text *text, int64_t keys, int64_t length, uint64_t *state, int32_t *out,
                                  unsigned char *asked);

/* -- between formats -- */
typedef enum gyre_model_format { GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_MODEL_FORMAT_GGUF } gyre_model_format;
typedef struct gyre_convert_options {
    size_t size; /* set by GYRE_CONVERT_INIT */
    gyre_model_format format;
    int has_dtype;    /* 1: matrices become `dtype`; 0: they stay what they are (quantized ones in safetensors become F16) */
    gyre_dtype dtype; /* F32, F16, BF16; GGUF also Q8 (Q8_0) */
    int has_layout;   /* 1: rotated pairs lie as `layout` in the result; 0: as its format's readers expect */
    gyre_layout layout;
    int has_source_layout; /* 1: they lie as `source_layout` in the source, whatever its files say: mends a wrong one */
    gyre_layout source_layout;
    void (*progress)(void *ctx, int64_t done, int64_t all); /* bytes; or NULL */
    int (*stop)(void *ctx); /* asked now and then: not 0 = end with EIO, nothing written; or NULL */
    void *progress_ctx;     /* of both */
} gyre_convert_options;
/* Writes the model at `path` (a folder, a GGUF, or a folder with a checkpoint of llama2.c) to `target`, a folder of
 * safetensors or a GGUF file, config and tokenizer with it, under a temporary name until it is whole.  Rows of query and key
 * are permuted, head by head, where the layout of pairs changes.  Errors: those of gyre_model_open; EUNSUPPORTED (what the
 * target cannot say, said which); EINVAL (target is there and holds something else). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_convert(const char *path, const char *target, const gyre_convert_options *options,
                                                  gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_MODEL_H */

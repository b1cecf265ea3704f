/* test_convert_fields.c: every field of a tokenizer.json that changes ids or texts.  A conversion to GGUF keeps both, or
 * tells the loss, or refuses. */
#include "make_convert_models.h"
#include "tokenizer_info.h"

typedef enum outcome {
    SAME,       /* nothing is told, and both files give the same ids and texts */
    SAME_PLAIN, /* the same where no text is a special token */
    TOLD,       /* a loss; EUNSUPPORTED where nobody is told */
    REFUSED
} outcome;

typedef struct field {
    const char *where; /* members joined by dots; "" = none is changed */
    const char *value; /* JSON; NULL = without the member */
    outcome outcome;
    const char *says; /* of TOLD and REFUSED */
    const char *note; /* of the source's tokenizer; NULL = it has none */
} field;

/* -- files -- */
#define TOKEN(id, text, more)  "{\"id\": " #id ", \"content\": \"" text "\", " more "}"
#define SPECIAL(id, text)      TOKEN(id, text, "\"special\": true, \"normalized\": false")
#define ADDED(more)            "[" SPECIAL(0, "<unk>") ", " SPECIAL(1, "<s>") ", " SPECIAL(2, "</s>") more "]"
#define PIECE(text)            "{\"SpecialToken\": {\"id\": \"" text "\", \"type_id\": 0}}"
#define TEXT(which)            "{\"Sequence\": {\"id\": \"" which "\", \"type_id\": 0}}"
#define NAMED(text, id)        "\"" text "\": {\"id\": \"" text "\", \"ids\": [" #id "], \"tokens\": [\"" text "\"]}"
#define TEMPLATE(single, pair) TEMPLATE_OF(single, pair, NAMED("<s>", 1) ", " NAMED("</s>", 2))
#define TEMPLATE_OF(single, pair, names)                                                                                    \
    "{\"type\": \"TemplateProcessing\", \"single\": [" single "], \"pair\": [" pair "], \"special_tokens\": {" names "}}"
#define BEGINS    TEMPLATE(PIECE("<s>") ", " TEXT("A"), PIECE("<s>") ", " TEXT("A") ", " PIECE("<s>") ", " TEXT("B"))
#define ALL(list) "{\"type\": \"Sequence\", \"decoders\": [" list "]}"
#define TWO(list) "{\"type\": \"Sequence\", \"processors\": [" list "]}"
#define SPACE     "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\xE2\x96\x81\"}, \"content\": \" \"}"
#define FALLBACK  "{\"type\": \"ByteFallback\"}"
#define FUSE      "{\"type\": \"Fuse\"}"
#define STRIP(content, start, stop)                                                                                         \
    "{\"type\": \"Strip\", \"content\": \"" content "\", \"start\": " #start ", \"stop\": " #stop "}"
#define STEPS          SPACE ", " FALLBACK ", " FUSE
#define MARK(more)     "{\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\", " more "}"
#define CLS_SEP(type)  "{\"type\": \"" type "\", \"sep\": [\"</s>\", 2], \"cls\": [\"<s>\", 1]}"
#define REPLACE        "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xE2\x96\x81\"}"
#define BEFORE(text)   "{\"type\": \"Prepend\", \"prepend\": \"" text "\"}"
#define STEPS_OF(list) "{\"type\": \"Sequence\", \"normalizers\": [" list "]}"
#define BYTE_LEVEL     "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}"

/* As of llama 2.  Rows 10 and up of the embedding have no token. */
static const char pieces[] = "{\"truncation\": null, \"padding\": null, \"added_tokens\": " ADDED(
    "") ", \"normalizer\": {\"type\": \"Sequence\", "
        "\"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"\xE2\x96\x81\"}, " REPLACE "]}, \"pre_tokenizer\": null, "
        "\"post_processor\": " BEGINS ", \"decoder\": " ALL(
            STEPS ", " STRIP(" ", 1, 0)) ", \"model\": {\"type\": \"BPE\", "
                                         "\"dropout\": null, \"unk_token\": \"<unk>\", \"continuing_subword_prefix\": null, "
                                         "\"end_of_word_suffix\": null, "
                                         "\"fuse_unk\": true, \"byte_fallback\": true, \"ignore_merges\": false, \"vocab\": "
                                         "{\"<unk>\": 0, \"<s>\": 1, "
                                         "\"</s>\": 2, \"\xE2\x96\x81\": 3, \"a\": 4, \"b\": 5, \"ab\": 6, \"\xE2\x96\x81"
                                         "ab\": 7, \"<0x41>\": 8, "
                                         "\"<0x0A>\": 9}, \"merges\": [\"a b\", \"\xE2\x96\x81 ab\"]}}";
/* As of gpt2. */
static const char bytes[] = "{\"truncation\": null, \"padding\": null, \"added_tokens\": " ADDED(
    "") ", \"normalizer\": null, \"pre_tokenizer\": " BYTE_LEVEL ", \"post_processor\": " BYTE_LEVEL
        ", \"decoder\": " BYTE_LEVEL ", \"model\": {\"type\": \"BPE\", "
        "\"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": \"\", \"end_of_word_suffix\": \"\", "
        "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false, \"vocab\": {\"<unk>\": 0, \"<s>\": 1, "
        "\"</s>\": 2, \"\xC4\xA0\": 3, \"a\": 4, \"b\": 5, \"ab\": 6, \"\xC4\xA0"
        "ab\": 7, \"A\": 8, \"\xC4\x8A\": 9}, "
        "\"merges\": [\"a b\", \"\xC4\xA0 ab\"]}}";
static const char settings[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"unk_token\": \"<unk>\"}";

static const field of_pieces[] = {
    {"", NULL, SAME, NULL, NULL},
    /* decoder */
    {"decoder", ALL(ALL(SPACE ", " FALLBACK) ", " FUSE ", " STRIP(" ", 1, 0)), SAME, NULL, NULL},
    {"decoder", ALL(MARK("\"prepend_scheme\": \"always\"") ", " FALLBACK ", " FUSE), SAME, NULL, NULL},
    {"decoder", ALL(MARK("\"add_prefix_space\": true") ", " FALLBACK), SAME, NULL, NULL},
    {"decoder", "null", TOLD, "decoder: ", "decoder: "},
    {"decoder", NULL, TOLD, "none, which puts a space between tokens", "decoder: "},
    {"decoder", "{}", TOLD, "a step without a type", "decoder: "},
    {"decoder", ALL(STEPS), TOLD, "no Strip of the space before a text", "no Strip"},
    {"decoder", ALL(STEPS ", " STRIP(" ", 2, 0)), TOLD, "Strip", "decoder: "},
    {"decoder", ALL(STEPS ", " STRIP(" ", 1, 1)), TOLD, "Strip", "decoder: "},
    {"decoder", ALL(STEPS ", " STRIP("a", 1, 0)), TOLD, "Strip", "decoder: "},
    {"decoder", ALL(SPACE ", " FALLBACK ", " STRIP(" ", 1, 0) ", " FUSE), TOLD, "Strip", "decoder: "},
    {"decoder", ALL(STEPS ", " STRIP(" ", 1, 0) ", " STRIP(" ", 1, 0)), TOLD, "Strip", "decoder: "},
    {"decoder", ALL(FALLBACK ", " FUSE ", " STRIP(" ", 1, 0)), TOLD, "no Replace", "decoder: "},
    {"decoder", ALL(SPACE ", " FUSE ", " STRIP(" ", 1, 0)), TOLD, "no ByteFallback", "decoder: "},
    {"decoder", ALL(FALLBACK ", " SPACE ", " FUSE ", " STRIP(" ", 1, 0)), TOLD, "Replace", "decoder: "},
    {"decoder",
     ALL(SPACE ", {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"b\"}, " FALLBACK ", " FUSE
               ", " STRIP(" ", 1, 0)),
     TOLD, "Replace", "decoder: "},
    {"decoder", ALL("{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"\xE2\x96\x81\"}, \"content\": \" \"}, " FALLBACK),
     TOLD, "Replace", "decoder: "},
    {"decoder", ALL(MARK("\"prepend_scheme\": \"never\"") ", " FALLBACK ", " FUSE), TOLD, "no Strip", "decoder: "},
    {"decoder", MARK("\"prepend_scheme\": \"always\""), TOLD, "no ByteFallback", "decoder: "},
    {"decoder", "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}", TOLD, "WordPiece", "decoder: "},
    {"decoder", "{\"type\": \"BPEDecoder\", \"suffix\": \"</w>\"}", TOLD, "BPEDecoder", "decoder: "},
    {"decoder", ALL(STEPS ", {\"type\": \"CTC\", \"pad_token\": \"a\"}"), TOLD, "CTC", "decoder: "},
    {"decoder", BYTE_LEVEL, TOLD, "ByteLevel", "decoder: "},
    {"normalizer", REPLACE, TOLD, "Strip of a space that no text gets", "decoder: "},
    {"normalizer", "{\"type\": \"Lowercase\"}", REFUSED, "normalizer Lowercase", "normalizer Lowercase"},
    {"normalizer", STEPS_OF(REPLACE ", " BEFORE("\xE2\x96\x81")), SAME, NULL, NULL},
    {"normalizer", STEPS_OF(BEFORE(" ") ", " REPLACE), SAME, NULL, NULL},
    {"normalizer", STEPS_OF(REPLACE ", " BEFORE(" ")), REFUSED, "normalizer Prepend", "taken for one of them"},
    {"normalizer", STEPS_OF(BEFORE(" ") ", " BEFORE(" ") ", " REPLACE), REFUSED, "normalizer Prepend", "more than one"},
    /* post_processor */
    {"post_processor", "null", SAME, NULL, NULL},
    {"post_processor", NULL, SAME, NULL, NULL},
    {"post_processor", TEMPLATE(PIECE("<s>") ", " TEXT("A"), PIECE("<s>") ", " TEXT("A") ", " TEXT("B")), SAME, NULL, NULL},
    {"post_processor", TEMPLATE(TEXT("A"), TEXT("A") ", " TEXT("B")), SAME, NULL, NULL},
    {"post_processor", TWO(BYTE_LEVEL ", " BEGINS), SAME, NULL, NULL},
    {"post_processor", TEMPLATE(PIECE("<s>") ", " TEXT("A") ", " PIECE("</s>"), ""), SAME, NULL, "no token is added at"},
    {"post_processor", TEMPLATE(TEXT("A") ", " PIECE("</s>"), ""), SAME, NULL, "no token is added at the end"},
    {"post_processor", CLS_SEP("RobertaProcessing"), SAME, NULL, "no token is added at the end"},
    {"post_processor", CLS_SEP("BertProcessing"), SAME, NULL, "no token is added at the end"},
    {"post_processor", "{\"type\": \"BertProcessing\", \"sep\": [\"b\", 5], \"cls\": [\"<s>\", 1]}", TOLD, "eos_token",
     "no token is added at the end"},
    {"post_processor", TEMPLATE(TEXT("A") ", " PIECE("<s>"), ""), TOLD, "eos_token", "no token is added at the end"},
    {"post_processor", TEMPLATE(TEXT("A") ", " PIECE("</s>") ", " PIECE("</s>"), ""), TOLD, "eos_token", "at the end"},
    {"post_processor", TEMPLATE(PIECE("<s>") ", " PIECE("</s>") ", " TEXT("A"), ""), TOLD, "one token that is put before",
     "only the first of the tokens"},
    {"post_processor", TWO(BEGINS ", " BEGINS), TOLD, "one token that is put before", "only the first of the tokens"},
    {"post_processor", TEMPLATE(PIECE("</s>") ", " TEXT("A"), ""), TOLD, "another token than bos_token", NULL},
    {"post_processor", TEMPLATE_OF(PIECE("<s>") ", " TEXT("A"), "", NAMED("<s>", 2)), TOLD, "another token than bos_token",
     NULL},
    {"post_processor", TEMPLATE_OF(PIECE("<s>") ", " TEXT("A"), "", NAMED("<s>", 47)), TOLD, "not a token of the file",
     "it puts an unknown token before a text"},
    {"post_processor", TEMPLATE_OF(PIECE("<t>") ", " TEXT("A"), "", ""), TOLD, "a name that is no token", "no token"},
    {"post_processor", TEMPLATE(TEXT("A"), PIECE("<s>") ", " TEXT("A") ", " PIECE("<s>") ", " TEXT("B")), TOLD, "two texts",
     NULL},
    {"post_processor", TEMPLATE(TEXT("A") ", " PIECE("</s>") ", " TEXT("A"), ""), TOLD, "within the text", "within"},
    {"post_processor", TEMPLATE(PIECE("<s>"), ""), TOLD, "no text in", "no text in"},
    {"post_processor", "{\"type\": \"Tomorrow\"}", TOLD, "Tomorrow", "Tomorrow"},
    {"post_processor", TEMPLATE_OF(PIECE("a") ", " TEXT("A"), "", NAMED("a", 4)), TOLD, "bos_token", "ordinary one"},
    /* model */
    {"model.dropout", "0.0", SAME, NULL, NULL},
    {"model.dropout", "0.1", TOLD, "model.dropout", "model.dropout"},
    {"model.fuse_unk", "false", SAME, NULL, NULL},
    {"model.unk_token", "null", SAME, NULL, NULL},
    {"model.unk_token", "\"b\"", SAME, NULL, NULL},
    {"model.unk_token", "\"nothing\"", SAME, NULL, NULL},
    {"model.byte_fallback", "false", TOLD, "model.byte_fallback", NULL},
    {"model.ignore_merges", "true", REFUSED, "model.ignore_merges", NULL},
    {"model.merges", "[\"a b\"]", TOLD, "model.merges", NULL},
    {"model.vocab.ab", "5", REFUSED, "two tokens have the same id", NULL},
    {"truncation", "{\"max_length\": 1, \"strategy\": \"LongestFirst\", \"stride\": 0}", SAME, NULL, "truncation: "},
    {"padding", "{\"strategy\": {\"Fixed\": 64}, \"pad_id\": 0, \"pad_token\": \"<unk>\"}", SAME, NULL, "padding: "},
    /* added_tokens */
    {"added_tokens", "[]", TOLD, "an ordinary one", "begin token is an ordinary one"},
    {"added_tokens", "[" SPECIAL(1, "<s>") ", " SPECIAL(2, "</s>") "]", SAME, NULL, NULL},
    {"added_tokens", "[" TOKEN(0, "<unk>", "\"special\": false") ", " SPECIAL(1, "<s>") "]", SAME, NULL, NULL},
    {"added_tokens", ADDED(", " TOKEN(10, "<x>", "\"special\": false")), SAME, NULL, NULL},
    {"added_tokens", ADDED(", " TOKEN(6, "ab", "\"special\": false")), SAME, NULL, NULL},
    {"added_tokens", ADDED(", " TOKEN(10, "<x>", "\"normalized\": true")), TOLD, "as the normalizer writes",
     "added_tokens.norm"},
    {"added_tokens", ADDED(", " TOKEN(10, "<s>a", "\"normalized\": true")), TOLD, "two tokens that overlap",
     "added_tokens.norm"},
    {"added_tokens", ADDED(", " TOKEN(10, "s>b", "\"normalized\": true")), TOLD, "two tokens that overlap",
     "added_tokens.norm"},
    {"added_tokens", ADDED(", " TOKEN(10, "a</", "\"normalized\": true")), TOLD, "two tokens that overlap",
     "added_tokens.norm"},
    {"added_tokens", ADDED(", " TOKEN(10, "<x>", "\"special\": true, \"lstrip\": true")), TOLD, "lstrip", NULL},
    {"added_tokens", ADDED(", " TOKEN(10, "<x>", "\"special\": true, \"rstrip\": true")), TOLD, "rstrip", NULL},
    {"added_tokens", ADDED(", " TOKEN(10, "<x>", "\"rstrip\": true")), TOLD, "rstrip", "lstrip and rstrip"},
    {"added_tokens", ADDED(", " TOKEN(10, "<x>", "\"single_word\": true")), TOLD, "single_word", NULL},
    {"added_tokens",
     ADDED(", " TOKEN(7,
                      "\xE2\x96\x81"
                      "ab",
                      "\"special\": false")),
     SAME, NULL, NULL},
    {"added_tokens", ADDED(", " TOKEN(10, "b\xE2\x96\x81", "\"special\": false")), TOLD, "U+2581", NULL},
    {"added_tokens", ADDED(", " TOKEN(10, "b a", "\"special\": false")), SAME, NULL, NULL},
    {"added_tokens", ADDED(", " TOKEN(2, "<x>", "\"special\": false")), REFUSED, "the same id", NULL},
    {"added_tokens", ADDED(", " TOKEN(10, "ab", "\"special\": true")), TOLD, "two tokens with the same text", "another id"},
    {"added_tokens", ADDED(", " TOKEN(10, "<s>", "\"special\": true")), TOLD, "two tokens with the same text",
     "another id"}};

static const field of_bytes[] = {
    {"", NULL, SAME, NULL, NULL},
    {"normalizer", "{\"type\": \"NFC\"}", SAME, NULL, "normalizer NFC"}, /* qwen2's */
    {"decoder", ALL(BYTE_LEVEL ", " FUSE), SAME, NULL, NULL},
    {"decoder", "null", TOLD, "decoder: ", "decoder: "},
    {"decoder", ALL(STEPS), TOLD, "no ByteLevel", "decoder: "},
    {"decoder", ALL(FUSE), TOLD, "no ByteLevel", "decoder: "},
    {"decoder", ALL(BYTE_LEVEL ", " FUSE ", " STRIP(" ", 1, 0)), TOLD, "Strip", "decoder: "},
    {"decoder", "{\"type\": \"WordPiece\"}", TOLD, "WordPiece", "decoder: "},
    {"post_processor", "null", SAME, NULL, NULL},
    {"post_processor", BEGINS, SAME, NULL, NULL},
    {"post_processor", TWO(BYTE_LEVEL ", " BEGINS), SAME, NULL, NULL}, /* llama 3's */
    {"post_processor", CLS_SEP("RobertaProcessing"), SAME, NULL, "no token is added at the end"},
    {"post_processor", TWO(BEGINS ", " CLS_SEP("BertProcessing")), TOLD, "one token that is put before", "only the first"},
    {"model.unk_token", "\"<unk>\"", SAME, NULL, NULL},
    {"model.unk_token", "\"a\"", SAME, NULL, NULL},
    {"model.byte_fallback", "true", SAME, NULL, NULL},
    {"model.dropout", "0.5", TOLD, "model.dropout", "model.dropout"},
    {"model.ignore_merges", "true", REFUSED, "pre_tokenizer", NULL},
    {"model.continuing_subword_prefix", "\"##\"", REFUSED, "model.continuing_subword_prefix", NULL},
    {"model.end_of_word_suffix", "\"</w>\"", REFUSED, "model.end_of_word_suffix", NULL},
    {"truncation", "{\"max_length\": 1}", SAME, NULL, "truncation: "},
    {"added_tokens", ADDED(", " TOKEN(10, "<x>", "\"special\": false")), SAME, NULL, NULL},
    {"added_tokens", ADDED(", " TOKEN(10, "s>b", "\"normalized\": true")), TOLD, "added_tokens.normalized", NULL},
    {"added_tokens",
     ADDED(", " TOKEN(7,
                      "\xC4\xA0"
                      "ab",
                      "\"special\": false")),
     SAME, NULL, "of other bytes"},
    {"added_tokens", ADDED(", " TOKEN(9, "\xC4\x8A", "\"special\": false")), SAME, NULL, "of other bytes"},
    {"added_tokens",
     ADDED(", " SPECIAL(7, "\xC4\xA0"
                           "ab")),
     REFUSED, "the result, read back: tokenizer.ggml.token_type: 7", NULL},
    {"added_tokens", ADDED(", " SPECIAL(10, "aaab") ", " TOKEN(11, "aab", "\"normalized\": true")), TOLD, "normalized",
     NULL},
    {"added_tokens", ADDED(", " SPECIAL(10, "xaba") ", " TOKEN(11, "abac", "\"normalized\": true")), TOLD, "normalized",
     NULL},
    {"added_tokens", ADDED(", " SPECIAL(10, "ababx") ", " TOKEN(11, "abac", "\"normalized\": true")), SAME, NULL, NULL}};

/* -- forms that models have, none of which loses anything -- */
#define GEMMA "{\"normalizer\": " REPLACE ", \"decoder\": " ALL(STEPS) "}"
#define GEMMA_WITH(token)                                                                                                   \
    "{\"normalizer\": " REPLACE ", \"decoder\": " ALL(STEPS) ", \"added_tokens\": " ADDED(", " token) "}"
static const struct {
    const char *name, *base, *changes;
    outcome outcome;
} published[] = {
    {"llama 2", pieces, "{}", SAME},
    {"mistral", pieces,
     "{\"normalizer\": null, \"pre_tokenizer\": " MARK("\"prepend_scheme\": \"first\", \"split\": false") "}", SAME_PLAIN},
    {"gemma", pieces, GEMMA, SAME},
    /* A normalizer that leaves the written token as it is, or none. */
    {"gemma with a token", pieces, GEMMA_WITH(TOKEN(10, "<x>", "\"normalized\": true")), SAME},
    {"gemma with a space", pieces, GEMMA_WITH(TOKEN(10, "<x> b", "\"normalized\": true")), TOLD},
    {"mistral with a token", pieces,
     "{\"normalizer\": null, \"added_tokens\": " ADDED(", " TOKEN(
         10, "<x>",
         "\"normalized\": true")) ", \"pre_tokenizer\": " MARK("\"prepend_scheme\": \"always\", \"split\": false") "}",
     SAME},
    {"gpt2", bytes, "{}", SAME},
    {"gpt-neox", bytes, "{\"normalizer\": {\"type\": \"NFC\"}}", SAME},
    {"llama 3", bytes, "{\"post_processor\": " TWO(BYTE_LEVEL ", " BEGINS) "}", SAME}};

/* -- readings -- */
static void keep_loss(void *ctx, const char *what) {
    char *told = ctx;
    const size_t used = strlen(told);
    snprintf(told + used, 4096 - used, "%s\n", what);
}

static gyre_tokenizer *open_tokens(const char *path) {
    gyre_tokenizer *t = NULL;
    gyre_error err = {0, ""};
    if (gyre_tokenizer_open(&t, path, &err)) return NULL;
    return t;
}

static void compare_text(const gyre_tokenizer *a, const gyre_tokenizer *b, const char *text, unsigned flags,
                         const char *who) {
    const gyre_tokenizer *const both[] = {a, b};
    gyre_text ids[2] = {{0}};
    char *back[2] = {NULL, NULL};
    size_t size[2] = {0, 0};
    gyre_status status[2];
    for (int i = 0; i < 2; i++) {
        status[i] = gyre_tokenize(both[i], text, strlen(text), flags, &ids[i], NULL);
        if (status[i] == GYRE_OK) assert_ok(gyre_detokenize(both[i], &ids[i], flags, &back[i], &size[i], NULL));
    }
    if (status[0] != status[1] || ids[0].count != ids[1].count || size[0] != size[1] ||
        (status[0] == GYRE_OK &&
         (memcmp(ids[0].ids, ids[1].ids, (size_t)ids[0].count * sizeof(int32_t)) || strcmp(back[0], back[1]))))
        fail_msg("%s: \"%s\", flags %u: %d tokens \"%s\", then %d \"%s\"", who, text, flags, (int)ids[0].count,
                 back[0] ? back[0] : "", (int)ids[1].count, back[1] ? back[1] : "");
    for (int i = 0; i < 2; i++) {
        gyre_text_free(&ids[i]);
        free(back[i]);
    }
}

static void compare_readings(const char *from, const char *to, int plain, const char *who) {
    static const char *const texts[] = {"",       "ab",     " ab",  "  ab ab", "a b",   "A\n",          "<s>ab</s>",
                                        "<unk>a", "<x> ab", "abab", "b a",     "<s>bs", "a</s><s>ab<x", "ab ab<s> ab"};
    gyre_tokenizer *a = open_tokens(from), *b = open_tokens(to);
    if (!a || !b) fail_msg("%s: one of the two does not open", who);
    const gyre_tokenizer_info x = tokenizer_info(a), y = tokenizer_info(b);
    if (x.adds_begin != y.adds_begin || x.begin != y.begin || x.end != y.end || (x.unknown >= 0 && x.unknown != y.unknown) ||
        x.kind != y.kind)
        fail_msg("%s: begin %d (%d), end %d, unknown %d, then %d (%d), %d, %d", who, (int)x.begin, x.adds_begin, (int)x.end,
                 (int)x.unknown, (int)y.begin, y.adds_begin, (int)y.end, (int)y.unknown);
    for (unsigned flags = 0; flags < 8; flags++)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            if (!plain || !(flags & GYRE_TOKENIZE_SPECIAL)) compare_text(a, b, texts[i], flags, who);
    gyre_tokenizer_free(a);
    gyre_tokenizer_free(b);
}

static void check_note(const char *path, const char *note, const char *who) {
    gyre_tokenizer *t = open_tokens(path);
    if (!t && !note) return; /* refused by the reader too */
    if (!t) fail_msg("%s: does not open", who);
    const char *notes = tokenizer_info(t).notes;
    if (note ? !strstr(notes, note) : *notes && !strstr(notes, "Metaspace")) fail_msg("%s: notes \"%s\"", who, notes);
    gyre_tokenizer_free(t);
}

static void check(outcome want, const char *says, const char *who) {
    gyre_convert_options gguf = GYRE_INIT(gyre_convert_options);
    gyre_error err = {0, ""};
    char told[4096] = "";
    gguf.format = GYRE_MODEL_FORMAT_GGUF;
    const gyre_status alone = gyre_convert(in_folder("f"), in_folder("f.gguf"), &gguf, &err);
    if ((alone == GYRE_OK) != (want == SAME || want == SAME_PLAIN)) fail_msg("%s: %d \"%s\"", who, (int)alone, err.text);
    if (alone && (alone != GYRE_EUNSUPPORTED && alone != GYRE_EFORMAT)) fail_msg("%s: %d \"%s\"", who, alone, err.text);
    if (alone == GYRE_OK) {
        compare_readings(in_folder("f"), in_folder("f.gguf"), want == SAME_PLAIN, who);
        convert(in_folder("f.gguf"), in_folder("back"), NULL);
        compare_readings(in_folder("f.gguf"), in_folder("back"), 0, who);
        return;
    }
    gguf.lost = keep_loss;
    gguf.ctx = told;
    const gyre_status status = gyre_convert(in_folder("f"), in_folder("f.gguf"), &gguf, &err);
    if ((status == GYRE_OK) != (want == TOLD)) fail_msg("%s: %d \"%s\"", who, (int)status, err.text);
    if (!strstr(want == TOLD ? told : err.text, says)) fail_msg("%s: told \"%s\", \"%s\"", who, told, err.text);
}

/* Puts the value at members joined by dots. */
static void change(json_t *root, const field *f) {
    char key[64];
    const char *dot;
    const char *where = f->where;
    for (; (dot = strchr(where, '.')) != NULL; where = dot + 1) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - where), where);
        root = json_object_get(root, key);
    }
    json_t *value = f->value ? json_loads(f->value, JSON_DECODE_ANY, NULL) : NULL;
    if (f->value && !value) fail_msg("%s: %s", f->where, f->value);
    assert_int_equal(value ? json_object_set_new(root, where, value) : json_object_del(root, where), 0);
}

static void put_root(json_t *root) {
    char *text = json_dumps(root, 0);
    put_text(in_folder("f/tokenizer.json"), text);
    free(text);
    json_decref(root);
}

static void check_fields(const char *base, const field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char who[800];
        json_t *root = json_loads(base, 0, NULL);
        assert_non_null(root);
        if (*fields[i].where) change(root, &fields[i]);
        put_root(root);
        snprintf(who, sizeof who, "%s %s", fields[i].where, fields[i].value ? fields[i].value : "left out");
        check_note(in_folder("f"), fields[i].note, who);
        check(fields[i].outcome, fields[i].says, who);
    }
}

static int make_model(void **state) {
    if (make_empty_folder(state)) return -1;
    made_model_free(make_folder_of(in_folder("f"), "llama", TIED, "", GYRE_DTYPE_F32));
    put_text(in_folder("f/tokenizer_config.json"), settings);
    return 0;
}

static void test_fields_of_pieces(void **state) {
    (void)state;
    check_fields(pieces, of_pieces, sizeof of_pieces / sizeof *of_pieces);
}

static void test_fields_of_bytes(void **state) {
    (void)state;
    check_fields(bytes, of_bytes, sizeof of_bytes / sizeof *of_bytes);
}

static void test_published_forms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        json_t *root = json_loads(published[i].base, 0, NULL), *changes = json_loads(published[i].changes, 0, NULL);
        assert_true(root && changes);
        assert_int_equal(json_object_update(root, changes), 0);
        json_decref(changes);
        put_root(root);
        check(published[i].outcome, "", published[i].name);
    }
}

/* Without a template tokenizer_config.json says what is put around a text. */
static void test_settings(void **state) {
    (void)state;
    static const struct {
        const char *text, *note;
        int begins;
    } cases[] = {
        {"{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_bos_token\": true, \"add_eos_token\": true}",
         "tokenizer_config.json add_eos_token: no token is added at the end", 1},
        {"{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_eos_token\": true}", "no token is added at the end", 0},
        {"{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_bos_token\": true}", "", 1}};
    put_text(in_folder("f/tokenizer.json"), bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text(in_folder("f/tokenizer_config.json"), cases[i].text);
        check(SAME, "", cases[i].text);
        gyre_tokenizer *all[] = {open_tokens(in_folder("f")), open_tokens(in_folder("f.gguf")),
                                 open_tokens(in_folder("back"))};
        for (int k = 0; k < 3; k++) {
            assert_non_null(all[k]);
            const gyre_tokenizer_info info = tokenizer_info(all[k]);
            assert_int_equal(info.adds_begin, cases[i].begins);
            if (k == 0)
                assert_string_equal(info.notes, cases[i].note[0] == 'n' ? strstr(info.notes, "tokenizer") : cases[i].note);
            assert_int_equal(strstr(info.notes, "no token is added at the end") != NULL, *cases[i].note != '\0');
            gyre_tokenizer_free(all[k]);
        }
    }
    put_text(in_folder("f/tokenizer_config.json"), settings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_of_pieces),
        cmocka_unit_test(test_fields_of_bytes),
        cmocka_unit_test(test_published_forms),
        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, make_model, remove_folder);
}

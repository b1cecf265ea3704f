/* test_plot_files.c: gyre plot on files that other programs, and the lab, wrote. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "read_plot_table.h"
#include "tools/cli/cli.h"

#include <math.h>

/* T5's bucket of a distance, with `rows` of them up to distance 128: half count one by one, the others grow. */
static int bucket(double d, int rows) {
    const double exact = 0.5 * rows;
    return (int)(d < exact ? d : fmin(rows - 1, exact + floor(log(d / exact) / log(128 / exact) * (rows - exact))));
}

/* A T5 as transformers writes it, which Gyre cannot run: its encoder sees keys on both sides, its decoder those before. */
static void t5_of_transformers(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"t5\", \"d_model\": 16, \"d_kv\": 8, \"num_heads\": 2, "
                                 "\"num_layers\": 1, \"relative_attention_num_buckets\": 32}";
    static const char header[] = "{\"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight\": "
                                 "{\"dtype\": \"F32\", \"shape\": [32, 2], \"data_offsets\": [0, 256]}, "
                                 "\"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight\": "
                                 "{\"dtype\": \"F32\", \"shape\": [32, 2], \"data_offsets\": [256, 512]}}";
    unsigned char file[8 + sizeof header - 1 + 512] = {(sizeof header - 1) & 0xff, (sizeof header - 1) >> 8};
    float learned[2][32][2];
    for (int stack = 0; stack < 2; stack++)
        for (int row = 0; row < 32; row++)
            for (int h = 0; h < 2; h++)
                learned[stack][row][h] = (float)(100 * stack + row) + 0.5F * (float)h;
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, learned, sizeof learned);
    assert_int_equal(mkdir(in_folder("hf-t5"), 0700), 0);
    write_file("hf-t5/config.json", config, sizeof config - 1);
    write_file("hf-t5/model.safetensors", file, sizeof file);
    static const char *const stacks[] = {"encoder", "decoder"};
    for (int s = 0; s < 2; s++) {
        char line[128], label[64];
        snprintf(line, sizeof line, "bias @hf-t5 --tokens 24 --layer-type %s", stacks[s]);
        snprintf(label, sizeof label, "T5 %s, layer 0", stacks[s]);
        table t = table_of(line);
        const int head = column_of(&t, "head", ""), query = column_of(&t, "query", "tokens"),
                  key = column_of(&t, "key", "tokens"), value = column_of(&t, "value", "");
        assert_int_equal(rows_of(&t), s ? 24 * 25 / 2 + 24 : 24 * 24 + 24);
        for (int64_t r = 0; r < rows_of(&t); r++) {
            const double d = number(&t, r, query) - number(&t, r, key);
            /* The encoder has 16 rows for keys before the query and 16 for those after it. */
            const int row = s ? bucket(d, 32) : bucket(fabs(d), 16) + (d < 0 ? 16 : 0);
            test_close(number(&t, r, value), (double)learned[s][row][(int)number(&t, r, head)], 1e-9, stacks[s]);
            assert_string_equal(text(&t, r, column_of(&t, "encoding", "")), label);
            /* Of the second head one query: the last, or the middle one if there are keys on both sides. */
            if (number(&t, r, head) > 0) assert_true(number(&t, r, query) == (s ? 23 : 12));
        }
        table_free(&t);
    }
    assert_fails("plot bias @hf-t5 --layer 3 --csv", CLI_FAILED, "no layer 3 in the encoder");
    write_file("hf-t5/model.safetensors", file, 100);
    assert_fails("plot bias @hf-t5 --csv", CLI_FAILED, "model.safetensors");
    assert_int_equal(unlink(in_folder("hf-t5/model.safetensors")), 0);
    table t = table_of("bias @hf-t5 --tokens 8");
    assert_string_equal(text(&t, 0, column_of(&t, "encoding", "")), "T5, row of the table");
    table_free(&t);
}

/* Methods of a RoPE that is the only encoding: the row of none stands for it, unless --methods leaves none out. */
static void lab_of_one_encoding(void **state) {
    (void)state;
    static const char cells[] = "\"cells\": [{\"context\": 256, \"perplexity\": 4, \"passkey\": 1}]}";
    char written[512];
    snprintf(written, sizeof written,
             "{\"trained_length\": 256, \"encodings\": [{\"name\": \"rope\", %s], "
             "\"methods\": [{\"name\": \"none\", %s, {\"name\": \"yarn\", %s]}",
             cells, cells, cells);
    write_file("one.json", written, strlen(written));
    table t = table_of("perplexity @one.json");
    const int method = column_of(&t, "method", "");
    assert_int_equal(rows_of(&t), 2);
    assert_string_equal(text(&t, 0, method), "none");
    table_free(&t);
    t = table_of("perplexity @one.json --methods yarn");
    assert_int_equal(rows_of(&t), 2);
    assert_string_equal(text(&t, 0, method), "rope");
    table_free(&t);
}

/* What the lab wrote: encodings, methods as they are and fine-tuned are runs; --methods picks among the methods. */
static void lab(void **state) {
    (void)state;
    static const char written[] =
        "{\"trained_length\": 256, \"encodings\": [{\"name\": \"alibi\", \"cells\": [{\"context\": 256, "
        "\"perplexity\": 4, \"perplexity_least\": 3.5, \"perplexity_greatest\": 4.5, \"passkey\": 0.25}, "
        "{\"context\": 512, \"perplexity\": null, \"passkey\": null}]}], "
        "\"methods\": [{\"name\": \"yarn\", \"cells\": [{\"context\": 512, \"perplexity\": 5, \"passkey\": 0.5}]}, "
        "{\"name\": \"yarn:4\", \"cells\": [{\"context\": 512, \"perplexity\": 6, \"passkey\": 0.75}]}], "
        "\"fine_tuned\": [{\"name\": \"ntk\", \"cells\": [{\"context\": 512, \"perplexity\": 3, \"passkey\": 1}]}], "
        "\"alibi_methods\": [{\"name\": \"ntk\", \"cells\": [{\"context\": 512, \"perplexity\": 7, \"passkey\": 0}]}]}";
    write_file("lab.json", written, sizeof written - 1);
    table t = table_of("perplexity @lab.json");
    const int name = column_of(&t, "run", ""), method = column_of(&t, "method", ""), value = column_of(&t, "perplexity", "");
    assert_int_equal(rows_of(&t), 5);
    assert_string_equal(text(&t, 0, name), "lab: encodings");
    assert_string_equal(text(&t, 0, method), "alibi");
    assert_true(number(&t, 0, column_of(&t, "low", "")) == 3.5 && number(&t, 0, column_of(&t, "high", "")) == 4.5);
    assert_string_equal(text(&t, 2, name), "lab: methods, not fine-tuned");
    assert_true(number(&t, 2, value) == 6);
    assert_string_equal(text(&t, 3, name), "lab: methods, fine-tuned");
    assert_string_equal(text(&t, 4, name), "lab: methods, ALiBi");
    assert_true(number(&t, 4, value) == 7);
    table_free(&t);
    t = table_of("passkey @lab.json --methods yarn:4");
    assert_int_equal(rows_of(&t), 2);
    assert_true(number(&t, 0, column_of(&t, "right", "%")) == 25 && number(&t, 1, column_of(&t, "right", "%")) == 75);
    table_free(&t);
    static const char wrong[] =
        "{\"results\": [{\"label\": \"none\", \"method\": \"none\", \"context\": 64, \"perplexity\": -3}]}";
    write_file("wrong.json", wrong, strlen(wrong));
    assert_fails("plot perplexity @wrong.json", CLI_FAILED, "results: -3 is no perplexity");
    assert_fails("plot copying @lab.json", CLI_FAILED, "results: no copies in it");
    static const char intervals[] =
        "{\"trained_length\": 256, \"encodings\": [{\"name\": \"alibi\", \"cells\": [{\"context\": 256, "
        "\"perplexity\": 4, \"perplexity_interval\": [3.75, 4.25], \"perplexity_least\": 3.5, \"perplexity_greatest\": 4.5, "
        "\"passkey\": 0.25, \"passkey_interval\": [0.125, 0.5], \"copied\": 0.75, \"copied_interval\": [0.5, 1]}, "
        "{\"context\": 512, \"perplexity\": null, \"perplexity_interval\": null, \"passkey\": null, "
        "\"passkey_interval\": null, \"copied\": null, \"copied_interval\": null}]}]}";
    write_file("new.json", intervals, sizeof intervals - 1);
    static const struct {
        const char *kind, *column, *unit;
        double value, low, high;
    } kinds[] = {{"perplexity", "perplexity", "", 4, 3.75, 4.25},
                 {"passkey", "right", "%", 25, 12.5, 50},
                 {"copying", "right", "%", 75, 50, 100}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char line[64];
        snprintf(line, sizeof line, "%s @new.json", kinds[k].kind);
        t = table_of(line);
        assert_int_equal(rows_of(&t), 1);
        assert_true(number(&t, 0, column_of(&t, kinds[k].column, kinds[k].unit)) == kinds[k].value);
        assert_true(number(&t, 0, column_of(&t, "low", kinds[k].unit)) == kinds[k].low);
        assert_true(number(&t, 0, column_of(&t, "high", kinds[k].unit)) == kinds[k].high);
        table_free(&t);
        snprintf(line, sizeof line, "plot %s @new.json -o @band.svg --force", kinds[k].kind);
        assert_int_equal(run(line)->exit, 0);
    }
}

/* Writes what gyre passkey writes, of `methods` methods at as many lengths, and depths, as it says. */
static void write_keys(const char *name, int methods, int lengths, int depths) {
    json_t *results = json_array();
    for (int m = 0; m < methods; m++)
        for (int l = 0; l < lengths; l++)
            for (int d = 0; d < depths; d++) {
                char label[16];
                snprintf(label, sizeof label, "ntk:%d", m + 2);
                json_array_append_new(results, json_pack("{s:s, s:i, s:f, s:f}", "label", label, "length", 16 + l, "depth",
                                                         (double)d / depths, "right", 0.5));
            }
    json_t *root = json_pack("{s:o}", "results", results);
    assert_int_equal(json_dump_file(root, in_folder(name), JSON_COMPACT), 0);
    json_decref(root);
}

/* Results that no figure shows are refused, and their numbers printed all the same. */
static void results_without_end(void **state) {
    (void)state;
    static const struct {
        int methods, lengths, depths;
        const char *says;
    } rows[] = {{96, 10, 10, NULL},
                {1, 256, 39, NULL},
                {1, 101, 100, "results: 10100 do not fit one figure, which holds 10000; --csv prints them"},
                {1, 257, 2, "results: 1, 257 and 2 methods, lengths and depths do not fit one figure"},
                {1, 2, 257, "results: 1, 2 and 257 methods, lengths and depths do not fit one figure"},
                {97, 1, 1, "results: 97, 1 and 1 methods, lengths and depths do not fit one figure"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t count = (int64_t)rows[i].methods * rows[i].lengths * rows[i].depths;
        write_keys("many.json", rows[i].methods, rows[i].lengths, rows[i].depths);
        if (rows[i].says)
            assert_fails("plot passkey @many.json -o @many.svg --force", CLI_FAILED, rows[i].says);
        else
            assert_int_equal(run("plot passkey @many.json -o @many.svg --force")->exit, 0);
        table t = table_of("passkey @many.json");
        assert_int_equal(rows_of(&t), count);
        table_free(&t);
    }
    write_keys("many.json", 1024, 1, 1);
    assert_fails("plot passkey @many.json --csv", CLI_FAILED, "results: more than 1024 names of methods and runs");
}

/* A trained length that no integer holds says nothing. */
static void trained_past_integers(void **state) {
    (void)state;
    static const char written[] = "{\"run\": {\"trained_length\": 64}, \"results\": ["
                                  "{\"label\": \"none\", \"context\": 32, \"perplexity\": 2}, "
                                  "{\"label\": \"none\", \"context\": 128, \"perplexity\": 3}]}\n"
                                  "{\"run\": {\"trained_length\": 1e300}}\n";
    static char figure[1 << 20];
    write_file("far.json", written, sizeof written - 1);
    assert_int_equal(run("plot perplexity @far.json -o @far.svg")->exit, 0);
    read_whole(in_folder("far.svg"), figure, sizeof figure);
    assert_non_null(strstr(figure, "trained"));
}

/* A length that a factor makes is counted in whole tokens. */
static void factor_past_integers(void **state) {
    (void)state;
    static const char far[] = "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
                              "\"max_position_embeddings\": 9007199254740990, \"rope_theta\": 10000.0}";
    write_file("far.json", far, sizeof far - 1);
    assert_fails("plot wavelengths @far.json --csv --factor 1000000", CLI_USAGE,
                 "--factor: 1000000 times the trained length of 9007199254740990 is more than 2^53 tokens");
    assert_int_equal(run("plot wavelengths @far.json --csv")->exit, 0);
}

static void biases_of_too_many_heads(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"bloom\", \"n_head\": 65536, \"hidden_size\": 65536, \"n_layer\": 2}";
    write_file("heads.json", config, sizeof config - 1);
    assert_fails("plot bias @heads.json --csv", 1, "heads: 65536, and a figure computes the biases of 1024 at most");
    unlink(in_folder("heads.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(biases_of_too_many_heads),
                                       cmocka_unit_test(t5_of_transformers),
                                       cmocka_unit_test(lab),
                                       cmocka_unit_test(lab_of_one_encoding),
                                       cmocka_unit_test(results_without_end),
                                       cmocka_unit_test(trained_past_integers),
                                       cmocka_unit_test(factor_past_integers)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}

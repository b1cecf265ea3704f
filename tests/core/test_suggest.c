/* test_suggest.c: gyre_config_suggest fills in the fields of schemes of scores from the sizes of the model, as the papers
 * do. */
#include "naive_attention_tables.h"

static gyre_config suggested(gyre_kind kind, int64_t length) {
    gyre_config config = WITH(kind, .decay = GYRE_DECAY_LOG);
    config.trained_length = length;
    assert_ok(gyre_config_suggest(&config));
    return config;
}

static void suggestions(void **state) {
    (void)state;
    static const struct {
        gyre_kind kind;
        int64_t length, buckets, max_distance, hidden_units;
    } want[] = {
        {GYRE_KIND_ALIBI, 64, 0, 0, 0},           {GYRE_KIND_T5, 64, 32, 128, 0},
        {GYRE_KIND_KERPLE, 64, 0, 0, 0},          {GYRE_KIND_SHAW, 64, 0, 16, 0},
        {GYRE_KIND_NEZHA, 512, 0, 64, 0},         {GYRE_KIND_BERT, 512, 0, 512, 0},
        {GYRE_KIND_DEBERTA, 512, 256, 512, 0},    {GYRE_KIND_DEBERTA, 4096, 256, 512, 0},
        {GYRE_KIND_DEBERTA, 0, 256, 512, 0},      {GYRE_KIND_DEBERTA, 254, 126, 254, 0},
        {GYRE_KIND_DEBERTA, 8, 4, 8, 0},          {GYRE_KIND_DEBERTA, 7, 0, 7, 0},
        {GYRE_KIND_TRANSFORMER_XL, 64, 0, 63, 0}, {GYRE_KIND_TRANSFORMER_XL, 1, 0, 1, 0},
        {GYRE_KIND_TRANSFORMER_XL, 0, 0, 1, 0},   {GYRE_KIND_FIRE, 64, 0, 0, 32},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const gyre_config config = suggested(want[i].kind, want[i].length);
        const int deberta = want[i].kind == GYRE_KIND_DEBERTA, bert = want[i].kind == GYRE_KIND_BERT;
        assert_int_equal(config.score.buckets, deberta ? 0 : want[i].buckets);
        assert_int_equal(config.score.position_buckets, deberta ? want[i].buckets : 0);
        assert_int_equal(config.score.max_distance, bert ? 0 : want[i].max_distance);
        assert_int_equal(config.score.max_positions, bert ? want[i].max_distance : 0);
        assert_int_equal(config.score.hidden_units, want[i].hidden_units);
        assert_int_equal(config.score.sinusoid_dim, 0);
    }
}

static void set_fields_are_preserved(void **state) {
    (void)state;
    for (int kind = GYRE_KIND_ALIBI; gyre_kind_name((gyre_kind)kind); kind++) {
        gyre_config config = WITH((gyre_kind)kind, .buckets = 8, .position_buckets = 8, .max_distance = 20,
                                  .max_positions = 20, .hidden_units = 3, .sinusoid_dim = 4);
        config.trained_length = 512;
        const gyre_config was = config;
        assert_ok(gyre_config_suggest(&config));
        assert_memory_equal(&config, &was, sizeof was);
    }
    gyre_config v1 = WITH(GYRE_KIND_DEBERTA, .max_distance = 20); /* no buckets is a valid choice */
    assert_ok(gyre_config_suggest(&v1));
    assert_int_equal(v1.score.position_buckets, 0);
}

/* The suggestion is a valid config for every trained length. */
static void suggestions_are_valid_configs(void **state) {
    (void)state;
    for (int kind = GYRE_KIND_ALIBI; gyre_kind_name((gyre_kind)kind); kind++)
        for (int64_t length = 1; length < 600; length += length < 20 ? 1 : 57) {
            gyre_config config = suggested((gyre_kind)kind, length);
            config.heads = 2;
            config.head_dim = 8;
            gyre_encoding_free(test_encoding(&config));
        }
    gyre_config none = WITH((gyre_kind)1000, .buckets = 0);
    assert_int_equal(gyre_config_suggest(&none), GYRE_EINVAL);
    assert_int_equal(gyre_config_suggest(NULL), GYRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suggestions),
        cmocka_unit_test(set_fields_are_preserved),
        cmocka_unit_test(suggestions_are_valid_configs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

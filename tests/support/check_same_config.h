/* check_same_config.h: two gyre_configs, field by field. */
#ifndef GYRE_TESTS_CHECK_SAME_CONFIG_H
#define GYRE_TESTS_CHECK_SAME_CONFIG_H
#include "gyre/gyre_fields.h"
#include "support.h"

#include <string.h>

static inline int same_value(const gyre_config *a, const gyre_config *b, const gyre_config_field *f) {
    const gyre_field_value x = gyre_config_get(a, f), y = gyre_config_get(b, f);
    if (f->type != GYRE_FIELD_LIST || !x.list || !y.list)
        return x.integer == y.integer && x.number == y.number && !x.list == !y.list;
    return memcmp(x.list, y.list, (size_t)gyre_config_list_length(a, f) * sizeof *x.list) == 0;
}

/* b: a as it was read back. A field that b does not state may have its default (none, or NULL). */
static inline void assert_reads(const gyre_config *a, const gyre_config *b, const gyre_config *plain) {
    static const gyre_config zero;
    const gyre_config_field *f;
    for (int i = 0; (f = gyre_config_field_at(i)); i++)
        if (!(f->marks & GYRE_FIELD_MARK_MEMORY) && !same_value(a, b, f) &&
            !(plain && same_value(b, &zero, f) && same_value(a, plain, f)))
            fail_msg("%s is not what it was", f->name);
}

static inline void assert_same(const gyre_config *a, const gyre_config *b) {
    assert_reads(a, b, NULL);
}

#endif

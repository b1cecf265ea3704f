/* option_order.c: sorts options as argp's help does. */
#include "tools/help/option_order.h"
#include <stdlib.h>
#include <string.h>

static int order(const void *left, const void *right) {
    const struct argp_option *a = *(const struct argp_option *const *)left, *b = *(const struct argp_option *const *)right;
    const int a_last = a->group < 0, b_last = b->group < 0;
    if (a_last != b_last) return a_last - b_last;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    if (!a->name || !b->name) return (a->name != NULL) - (b->name != NULL);
    return strcmp(a->name, b->name);
}

int option_order(const cli_description *command, const struct argp_option *options[OPTION_ORDER_MAX]) {
    const struct argp_option *const tables[] = {command->own, command->common};
    int count = 0;
    for (int i = 0; i < 2; i++)
        for (const struct argp_option *o = tables[i]; o && (o->name || o->doc) && count < OPTION_ORDER_MAX; o++)
            if (!(o->flags & OPTION_HIDDEN)) options[count++] = o;
    qsort((void *)options, (size_t)count, sizeof(const struct argp_option *), order);
    return count;
}

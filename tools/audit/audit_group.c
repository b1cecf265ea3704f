/* audit_group.c: one finding for a fault that tensors of several layers have alike. */
#include "tools/audit/audit.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 8, RANGES = 96 };

/* The tensor that a text begins with.  Its numbers, of a layer or an expert, are what tensors of a group differ in. */
typedef struct tensor_name {
    const char *name, *rest; /* rest: from the ": " after the name on */
    const char *at[MAX_PARTS];
    long number[MAX_PARTS]; /* "model.layers.7.mlp.experts.3.w1" -> 7, 3 */
    int parts;
} tensor_name;

/* out = 1 if the text begins with a tensor whose name holds a number between dots. */
static int find_name(const char *text, tensor_name *out) {
    *out = (tensor_name){.name = text, .rest = strstr(text, ": ")};
    if (!out->rest) return 0;
    for (const char *at = strchr(text, '.'); at && at < out->rest; at = strchr(at + 1, '.')) {
        const size_t digits = strspn(at + 1, "0123456789");
        if (digits < 1 || digits > 9 || at[1 + digits] != '.') continue;
        if (out->parts == MAX_PARTS) return 0;
        out->at[out->parts] = at + 1;
        out->number[out->parts++] = strtol(at + 1, NULL, 10);
    }
    return out->parts > 0;
}

/* out = the digits that say where in a tensor or a file something is, and that no group is asked to share; else 0. */
static size_t digits_of_place(const char *text, const char *at) {
    static const char *const words[] = {"element ", "block ", "byte ", "offset "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(at - text) >= length && strncmp(at - length, words[i], length) == 0) return strspn(at, "0123456789");
    }
    return 0;
}

static int same_but_places(const char *a, const char *b) {
    for (const char *x = a, *y = b;; x++, y++) {
        const size_t own = digits_of_place(a, x), other = digits_of_place(b, y);
        x += own, y += other;
        if (*x != *y || (own > 0) != (other > 0)) return 0;
        if (!*x) return 1;
    }
}

static int same_name(const tensor_name *a, const tensor_name *b) {
    const char *x = a->name, *y = b->name;
    if (a->parts != b->parts) return 0;
    for (int i = 0; i < a->parts; i++) {
        if (a->at[i] - x != b->at[i] - y || strncmp(x, y, (size_t)(a->at[i] - x)) != 0) return 0;
        x = a->at[i] + strspn(a->at[i], "0123456789"), y = b->at[i] + strspn(b->at[i], "0123456789");
    }
    return a->rest - x == b->rest - y && strncmp(x, y, (size_t)(a->rest - x)) == 0;
}

static int same_fault(const audit_finding *a, const audit_finding *b) {
    tensor_name x, y;
    return a->status == b->status && strcmp(a->check, b->check) == 0 && strcmp(a->remedy, b->remedy) == 0 &&
           find_name(a->text, &x) && find_name(b->text, &y) && same_name(&x, &y) && same_but_places(x.rest, y.rest) &&
           same_but_places(a->place, b->place);
}

static int by_number(const void *a, const void *b) {
    const long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

/* Writes "0-4,7", cut with "..." where there is no room for more.  numbers: sorted in place. */
static void write_ranges(long *numbers, int count, char out[RANGES]) {
    size_t length = 0;
    qsort(numbers, (size_t)count, sizeof *numbers, by_number);
    for (int i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && numbers[next] <= numbers[next - 1] + 1; next++) {
        }
        const char *comma = i ? "," : "";
        if (length + 32 > RANGES) {
            snprintf(out + length, RANGES - length, "%s...", comma);
            return;
        }
        length += (size_t)(numbers[next - 1] == numbers[i]
                               ? snprintf(out + length, RANGES - length, "%s%ld", comma, numbers[i])
                               : snprintf(out + length, RANGES - length, "%s%ld-%ld", comma, numbers[i], numbers[next - 1]));
    }
}

/* The text of a group: the numbers of all its tensors in the place of those of the first. */
static void write_text(audit_finding *first, long *const numbers[MAX_PARTS], int count, int varies) {
    char text[AUDIT_TEXT], ranges[RANGES] = "";
    size_t length = 0;
    tensor_name name;
    (void)find_name(first->text, &name);
    const char *from = name.name;
    for (int i = 0; i < name.parts; i++) {
        write_ranges(numbers[i], count, ranges);
        length += (size_t)snprintf(text + length, sizeof text - length, "%.*s%s", (int)(name.at[i] - from), from, ranges);
        if (length >= sizeof text) return;
        from = name.at[i] + strspn(name.at[i], "0123456789");
    }
    size_t digits = 0;
    const char *where = name.rest;
    while (varies && *where && !(digits = digits_of_place(name.rest, where)))
        where++;
    where += digits;
    snprintf(text + length, sizeof text - length, "%.*s (%d tensors)%.*s%s%s", (int)(name.rest - from), from, count,
             (int)(digits ? where - name.rest : 0), name.rest, digits ? " of the first" : "", digits ? where : name.rest);
    memcpy(first->text, text, sizeof text);
}

/* The file alone: every tensor stands elsewhere in it. */
static void cut_place(char *place) {
    for (char *at = place; *at; at++)
        if (digits_of_place(place, at)) {
            while (at > place && *at != ',')
                at--;
            *at = 0;
            return;
        }
}

/* *merged[i] = 1 for the findings past `first` that go into it. */
static void merge(audit *a, int first, char *merged, long *numbers) {
    audit_finding *f = &a->findings[first];
    long *lists[MAX_PARTS];
    tensor_name name;
    int count = 0, varies = 0;
    for (int i = 0; i < MAX_PARTS; i++)
        lists[i] = numbers + (size_t)i * AUDIT_MAX_FINDINGS;
    for (int i = first; i < a->count; i++) {
        if (merged[i] || (i > first && !same_fault(f, &a->findings[i]))) continue;
        if (!find_name(a->findings[i].text, &name)) return;
        for (int p = 0; p < name.parts; p++)
            lists[p][count] = name.number[p];
        varies |= strcmp(strstr(f->text, ": "), name.rest) != 0;
        merged[i] = i > first;
        count++;
    }
    if (count < 2) return;
    f->count = count;
    write_text(f, lists, count, varies);
    cut_place(f->place);
}

static void merge_all(audit *a, int from, char *merged, long *numbers) {
    int kept = from;
    for (int i = from; i < a->count; i++)
        if (!merged[i]) merge(a, i, merged, numbers);
    for (int i = from; i < a->count; i++)
        if (!merged[i]) a->findings[kept++] = a->findings[i];
    a->count = kept;
    audit_recount(a);
}

gyre_status audit_group(audit *a, int from, gyre_error *err) {
    char *merged = calloc(AUDIT_MAX_FINDINGS, 1);
    long *numbers = malloc((size_t)MAX_PARTS * AUDIT_MAX_FINDINGS * sizeof *numbers);
    gyre_status status = GYRE_OK;
    if (merged && numbers)
        merge_all(a, from, merged, numbers);
    else
        status = audit_no_memory(a, err);
    free(merged);
    free(numbers);
    return status;
}

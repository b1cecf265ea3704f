/* audit_config.c: what the reader of the config refuses or warns of. */
#include "tools/audit/audit.h"
#include "tools/explain/explain_format.h"
#include "tools/explain/glossary.h"

gyre_status audit_config(audit *a, gyre_error *err) {
    const gyre_reading *r = a->reading;
    const int before = a->count;
    gyre_status status = GYRE_OK;
    if (!r) {
        audit_finding *f = audit_add_error(a, AUDIT_WRONG, "config", a->refused.text);
        if (audit_has_key_twice(a)) audit_set_remedy(f, "leave one of the two");
        status = audit_read_again(a, err);
    }
    for (int64_t i = 0; r && i < r->warnings_count; i++) {
        char place[AUDIT_PLACE], entry[GLOSSARY_PLACE];
        const gyre_reading_warning *w = &r->warnings[i];
        const char *meant = w->key ? audit_key_meant(w->key) : NULL;
        /* audit_keys says so of a misspelt key, with what to do. */
        if (w->kind == GYRE_WARNING_UNREAD_KEY && meant && a->config.root && !audit_key_is_in_dict(w->key)) continue;
        const char *see = glossary_place(w->key, entry);
        audit_finding *f = audit_add(a, AUDIT_DOUBT, "config", "%s%s%s%s%s%s", w->text, meant ? "; did you mean " : "",
                                     meant ? meant : "", meant ? "?" : "", see ? "; see " : "", see ? see : "");
        explain_format_location(w->key, w->line, place, sizeof place);
        audit_set_place(f, "%s", place);
    }
    audit_keys(a);
    if (r && a->count == before)
        audit_add(a, AUDIT_OK, "config", "every key about positions is read, and makes sense to %s",
                  gyre_profile_name(r->profile));
    return status;
}

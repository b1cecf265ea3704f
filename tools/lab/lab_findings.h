/* lab_findings.h: what the lab found, in three sentences. */
#ifndef GYRE_TOOLS_LAB_FINDINGS_H
#define GYRE_TOOLS_LAB_FINDINGS_H
#include "tools/lab/lab.h"

enum { LAB_FINDINGS = 3, LAB_FINDING = 512 };

/* Fills in out[0 .. result - 1], in the markup of gyre_report_page_paragraph, from the rows that are measured at the longest
 * context; of a stopped run there may be none. */
int lab_findings(const lab *l, char out[LAB_FINDINGS][LAB_FINDING]);
/* The same sentence about one table: the methods, or else the encodings.  out = 0 if there is nothing to say. */
int lab_finding(const lab *l, int methods, char out[LAB_FINDING]);
/* out = the row that is best in a measure at the longest context, without `none`; NULL if none is measured there. */
const lab_row *lab_best_row(const lab *l, const lab_row *rows, int count, lab_measure measure);

#endif

/* Lists of lines, and where two of them depart. */
#include "util/agreement.h"

#include "util/error.h"
#include "util/ranks.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

void agreement_put(struct strbuf *list, const char *name, const char *format, ...)
{
    va_list args;
    size_t value;

    strbuf_printf(list, "%s\t", name);
    value = list->length;
    va_start(args, format);
    strbuf_vprintf(list, format, args);
    va_end(args);
    for (char *c = list->failed ? NULL : list->data + value; c && *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?';
    strbuf_putc(list, '\n');
}

/* ---- the comparison ---- */

/* The value of a name, which a line or the end follows, among `lines`; NULL: there is none. */
static const char *find_value(const char *lines, const char *name)
{
    size_t length = strcspn(name, "\t\n");

    while (*lines) {
        if (!strncmp(lines, name, length) && lines[length] == '\t')
            return lines + length + 1;
        lines += strcspn(lines, "\n");
        lines += *lines != '\0';
    }
    return NULL;
}

int agreement_find(const char *root, const char *mine, char name[AGREEMENT_NAME])
{
    int begin = 0, at = 0;
    const char *line;

    for (; root[at] && root[at] == mine[at]; at++)
        if (root[at] == '\n')
            begin = at + 1;
    if (root[at] == mine[at])
        return INT_MAX;
    /* a line that `mine` lacks; else one that rank 0 lacks, or another value of the same name */
    line = root[begin] && !find_value(mine + begin, root + begin) ? root + begin : mine + begin;
    snprintf(name, AGREEMENT_NAME, "%.*s", (int)strcspn(line, "\t\n"), line);
    return begin;
}

void agreement_copy_value(const char *lines, const char *name, char out[AGREEMENT_VALUE])
{
    enum { HALF = AGREEMENT_VALUE / 2 - 6 };
    const char *value = find_value(lines, name);
    int length = value ? (int)strcspn(value, "\n") : 0;

    memset(out, 0, AGREEMENT_VALUE);
    if (!value)
        strcpy(out, "not set");
    else if (length < AGREEMENT_VALUE)
        memcpy(out, value, (size_t)length);
    else
        snprintf(out, AGREEMENT_VALUE, "%.*s ... %.*s", HALF, value, HALF, value + length - HALF);
}

void agreement_difference(const char *there, const char *here, struct strbuf *out)
{
    char name[AGREEMENT_NAME], old[AGREEMENT_VALUE], new[AGREEMENT_VALUE];
    int begin = agreement_find(there, here, name);

    if (begin == INT_MAX)
        return;
    agreement_copy_value(there + begin, name, old);
    agreement_copy_value(here + begin, name, new);
    strbuf_printf(out, "%s: %s there, %s here", name, old, new);
}

int agreement_describe(const char *name, const char *values, int nranks, const char *advice)
{
    struct strbuf text = {.data = NULL};

    for (int r = 0; r < nranks; r++) {
        if (ranks_were_said(values, AGREEMENT_VALUE, r))
            continue;
        strbuf_printf(&text, "%s%s", r ? "; " : "", values + (size_t)r * AGREEMENT_VALUE);
        ranks_put_alike(&text, " on rank", values, AGREEMENT_VALUE, nranks, r);
    }
    error_set("%s differs: %s; %s", name, strbuf_text(&text), advice);
    strbuf_free(&text);
    return -1;
}

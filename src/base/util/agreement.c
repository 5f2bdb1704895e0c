/* Lists of lines, and the search for the first line in which two lists differ. */
#include "util/agreement.h"

#include "util/alloc.h"
#include "util/ranks.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 128 }; /* bytes of a value in a message; a longer value loses its middle */

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

/* Returns the value of `name` in `lines`, or NULL. A tab, a newline or a NUL ends `name`. */
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

/* Returns the length of the lines that both lists begin with, or SIZE_MAX if the lists are equal.
 * Sets *line to the next line of `root` if `other` lacks its name, else to the next line of
 * `other`. */
static size_t find_difference(const char *root, const char *other, const char **line)
{
    size_t begin = 0, at = 0;

    for (; root[at] && root[at] == other[at]; at++)
        if (root[at] == '\n')
            begin = at + 1;
    if (root[at] == other[at])
        return SIZE_MAX;
    *line = root[begin] && !find_value(other + begin, root + begin) ? root + begin : other + begin;
    return begin;
}

/* Copies the value of `name`, a long value without its middle, or "not set". */
static void copy_value(const char *lines, const char *name, char out[VALUE_BYTES])
{
    enum { HALF = VALUE_BYTES / 2 - 6 };
    const char *value = find_value(lines, name);
    int length = value ? (int)strcspn(value, "\n") : 0;

    if (!value)
        strcpy(out, "not set");
    else if (length < VALUE_BYTES)
        snprintf(out, VALUE_BYTES, "%.*s", length, value);
    else
        snprintf(out, VALUE_BYTES, "%.*s ... %.*s", HALF, value, HALF, value + length - HALF);
}

void agreement_difference(const char *there, const char *here, struct strbuf *out)
{
    char old[VALUE_BYTES], new[VALUE_BYTES];
    const char *line;
    size_t begin = find_difference(there, here, &line);

    if (begin == SIZE_MAX)
        return;
    copy_value(there + begin, line, old);
    copy_value(here + begin, line, new);
    strbuf_printf(out, "%.*s: %s there, %s here", (int)strcspn(line, "\t\n"), line, old, new);
}

int agreement_describe(const char *lists, size_t room, int nranks, const char *advice)
{
    char(*values)[VALUE_BYTES] = alloc_array((size_t)nranks, sizeof *values, "the ranks' values");
    const char *first = "", *line;
    struct strbuf text = {.data = NULL};
    size_t least = SIZE_MAX;

    if (!values)
        return -1;
    for (int r = 1; r < nranks; r++) {
        size_t begin = find_difference(lists, lists + (size_t)r * room, &line);
        first = begin < least ? line : first;
        least = begin < least ? begin : least;
    }
    assert(least < SIZE_MAX);
    /* before offset `least` all lists are equal */
    for (int r = 0; r < nranks; r++)
        copy_value(lists + (size_t)r * room + least, first, values[r]);
    for (int r = 0; r < nranks; r++) {
        if (ranks_were_said(values[0], sizeof *values, r))
            continue;
        strbuf_printf(&text, "%s%s", r ? "; " : "", values[r]);
        ranks_put_alike(&text, " on rank", values[0], sizeof *values, nranks, r);
    }
    error_set("%.*s differs: %s; %s", (int)strcspn(first, "\t\n"), first, strbuf_text(&text),
              advice);
    strbuf_free(&text);
    free(values);
    return -1;
}

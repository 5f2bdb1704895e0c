/* Lists of lines, and where two of them depart. */
#include "util/agreement.h"

#include "util/error.h"

#include <limits.h>
#include <stdbool.h>
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

static size_t line_length(const char *line)
{
    return strcspn(line, "\n");
}

static const char *next_line(const char *line)
{
    line += line_length(line);
    return *line ? line + 1 : line;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "\t");

    return *a && !strncmp(a, b, length + 1);
}

/* The line of that name among `lines`; NULL: there is none. */
static const char *find_line(const char *lines, const char *name)
{
    while (*lines && !same_name(lines, name))
        lines = next_line(lines);
    return *lines ? lines : NULL;
}

int agreement_find(const char *root, const char *mine, const char **at)
{
    int line = 0;

    for (; *root || *mine; root = next_line(root), mine = next_line(mine), line++) {
        size_t length = line_length(root);
        if (length == line_length(mine) && !strncmp(root, mine, length))
            continue;
        /* a value that differs; else a line that one of the two lacks */
        *at = *root && (same_name(root, mine) || !find_line(mine, root)) ? root : mine;
        return line;
    }
    return INT_MAX;
}

void agreement_copy_name(const char *line, char out[AGREEMENT_NAME])
{
    size_t length = strcspn(line, "\t");

    memset(out, 0, AGREEMENT_NAME);
    memcpy(out, line,
           length < AGREEMENT_NAME - 2 ? length + 1 : AGREEMENT_NAME - 1); /* with its tab */
}

void agreement_copy_value(const char *list, int line, const char *name, char out[AGREEMENT_VALUE])
{
    const char *found;
    size_t length;

    while (line-- > 0)
        list = next_line(list);
    found = find_line(list, name);
    memset(out, 0, AGREEMENT_VALUE);
    if (!found) {
        strcpy(out, "not set");
        return;
    }
    found += strcspn(found, "\t") + 1;
    length = line_length(found);
    if (length < AGREEMENT_VALUE)
        memcpy(out, found, length);
    else
        snprintf(out, AGREEMENT_VALUE, "%.*s ... %.*s", AGREEMENT_VALUE / 2 - 6, found,
                 AGREEMENT_VALUE / 2 - 6, found + length - (AGREEMENT_VALUE / 2 - 6));
}

void agreement_difference(const char *there, const char *here, struct strbuf *out)
{
    char name[AGREEMENT_NAME], old[AGREEMENT_VALUE], new[AGREEMENT_VALUE];
    const char *at = "";
    int line = agreement_find(there, here, &at);

    if (line == INT_MAX)
        return;
    agreement_copy_name(at, name);
    agreement_copy_value(there, line, name, old);
    agreement_copy_value(here, line, name, new);
    strbuf_append(out, name, strcspn(name, "\t"));
    strbuf_printf(out, ": %s there, %s here", old, new);
}

bool agreement_is_said(const char *texts, size_t room, int rank)
{
    int before = 0;

    while (strcmp(texts + (size_t)before * room, texts + (size_t)rank * room) != 0)
        before++;
    return before < rank;
}

int agreement_put_ranks(struct strbuf *out, const char *word, const char *texts, size_t room,
                        int nranks, int first)
{
    const char *text = texts + (size_t)first * room;
    int count = 0;

    for (int r = first; r < nranks; r++)
        count += !strcmp(texts + (size_t)r * room, text);
    strbuf_printf(out, count > 1 ? "%ss " : "%s ", word);
    for (int r = first, end; r < nranks; r = end) {
        end = r + 1;
        if (strcmp(texts + (size_t)r * room, text) != 0)
            continue;
        while (end < nranks && !strcmp(texts + (size_t)end * room, text))
            end++;
        strbuf_printf(out, end > r + 1 ? "%s%d-%d" : "%s%d", r > first ? ", " : "", r, end - 1);
    }
    return count;
}

int agreement_describe(const char *name, const char *values, int nranks, const char *advice)
{
    struct strbuf text = {.data = NULL};
    size_t length = strcspn(name, "\t");

    strbuf_append(&text, name, length);
    for (int r = 0; r < nranks; r++) {
        if (agreement_is_said(values, AGREEMENT_VALUE, r))
            continue;
        strbuf_printf(&text, "%s%s", r ? "; " : " differs: ", values + (size_t)r * AGREEMENT_VALUE);
        agreement_put_ranks(&text, " on rank", values, AGREEMENT_VALUE, nranks, r);
    }
    strbuf_printf(&text, "; %s", advice);
    if (!strbuf_status(&text))
        error_set("%s", strbuf_text(&text));
    strbuf_free(&text);
    return -1;
}

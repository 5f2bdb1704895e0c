/* Turns an option's text into its value. */
#include "util/option.h"

#include "util/choice.h"
#include "util/error.h"
#include "util/suggest.h"
#include "util/units.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void options_add(struct option_rows *rows, const struct option *added, int n)
{
    assert(rows->n + n <= OPTIONS_MOST);
    memcpy(rows->row + rows->n, added, (size_t)n * sizeof *added);
    rows->n += n;
}

bool option_warns(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
    const char *rank = NULL;

    for (size_t i = 0; i < sizeof ranks / sizeof *ranks && !rank; i++)
        rank = getenv(ranks[i]);
    return !rank || !strcmp(rank, "0");
}

/* Parses a number of threads. More threads than cores take turns and wait for each other; many more
 * never finish, or find no memory for their stacks. */
static int parse_threads(const char *name, const char *text, int *out)
{
    enum { PER_CORE = 16 };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long long number;

    if (units_parse_whole(name, text, 1, INT_MAX, &number))
        return -1;
    if (cores > 0 && number > PER_CORE * cores)
        return error_set("%s=%lld is too many: this machine has %s; expected at most one thread "
                         "per core",
                         name, number, units_count(cores, "core").text);
    if (cores > 0 && number > cores && option_warns())
        fprintf(stderr,
                "warning: %s=%lld is more than this machine's %s: threads that share a core are "
                "slower than fewer threads\n",
                name, number, units_count(cores, "core").text);
    *out = (int)number;
    return 0;
}

static int add_item(const char *name, const char *text, struct option_list *list)
{
    if (list->n == OPTIONS_ITEMS)
        return error_set("%s was given more than %d times", name, list->n);
    list->item[list->n++] = text;
    return 0;
}

int option_store(const struct option *o, const char *name, const char *text)
{
    long long number;

    switch (o->kind) {
    case OPTION_TEXT:
        if (!*text && !strncmp(o->value, "FILE", 4))
            return error_set("%s= names no file: %s=%s", name, name, o->value);
        *(const char **)o->target = text;
        return 0;
    case OPTION_THREADS:
        return parse_threads(name, text, o->target);
    case OPTION_INT:
    case OPTION_COUNT:
        if (units_parse_whole(name, text, o->kind == OPTION_COUNT, INT_MAX, &number))
            return -1;
        *(int *)o->target = (int)number;
        return 0;
    case OPTION_SEED:
        return units_parse_whole(name, text, 0, LLONG_MAX, (long long *)o->target);
    case OPTION_BYTES:
        return units_parse_bytes(name, text, o->target);
    case OPTION_REAL:
        return units_parse_positive(name, text, o->target);
    case OPTION_CHOICE:
        return choice_parse(name, text, o->words, o->target);
    case OPTION_WORD:
    case OPTION_CALL:
        return o->parse ? o->parse(name, text, o->target)
                        : choice_parse(name, text, o->words, o->target);
    case OPTION_LIST:
        return add_item(name, text, o->target);
    default: /* flags have no text, headings no value */
        return 0;
    }
}

/* Parses NAME=VALUE, which is cut apart. */
static int parse_word(struct option_rows *rows, char *text)
{
    char *value = strchr(text, '=');
    struct suggest near;

    if (!value)
        return error_set("'%s' has no value: expected NAME=VALUE", text);
    *value++ = '\0';
    near = suggest_start(text);
    for (int i = 0; i < rows->n; i++) {
        const struct option *row = &rows->row[i];
        if (!strcmp(text, row->name)) {
            rows->given[i] = true;
            return option_store(row, text, value);
        }
        suggest_offer(&near, row->name);
    }
    return error_set("'%s' is no option%s%s", text, near.nearest ? "; did you mean " : "",
                     near.nearest ? near.nearest : "");
}

int options_parse_words(struct option_rows *rows, char *text)
{
    char *word;

    while ((word = strsep(&text, ",")))
        if (*word && parse_word(rows, word))
            return -1;
    return 0;
}

/* Reads and writes the file of a cluster's figures, driven and checked by one table. */
#include "plan/probe.h"

#include "util/suggest.h"
#include "util/error.h"
#include "util/file.h"
#include "util/path.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IS_COUNT = 1,      /* a whole number, kept in an int */
    MAY_BE_0 = 2,      /* 0 is valid, not only values above 0 */
    MAY_BE_MISSING = 4 /* may be missing, which means 0: older files lack the figure */
};

static const struct figure {
    const char *key, *about;
    size_t offset;
    int kind;
} figures[] = {
#define CLUSTER(member) offsetof(struct probe, cluster.member)
    {"ranks", "ranks of the measured job", offsetof(struct probe, nranks), IS_COUNT},
    {"ranks_per_node", "largest number on a node", offsetof(struct probe, ranks_per_node),
     IS_COUNT},
    {"latency_seconds", "a few bytes, from one node to another", CLUSTER(latency_seconds),
     MAY_BE_0},
    {"message_seconds", "each further message", CLUSTER(message_seconds), MAY_BE_0},
    {"link_bytes_per_second", "a node, one direction, all nodes at once", CLUSTER(link_Bps), 0},
    {"local_bytes_per_second", "a rank, one direction, within its node", CLUSTER(local_Bps), 0},
    {"gemm_flops", "a rank, operations per second in products", CLUSTER(gemm_flops), 0},
    {"copy_bytes_per_second", "a rank, in memory", CLUSTER(copy_Bps), 0},
    {"sum_bytes_per_second", "a rank, gradients added up", CLUSTER(sum_Bps), 0},
    {"served_bytes_per_second",
     "a rank, parameters updated in the memory of its engine; 0: host memory", CLUSTER(serve_Bps),
     MAY_BE_0},
    {"device_bytes_per_second", "between a rank's host and its device; 0: nothing is copied",
     CLUSTER(device_Bps), MAY_BE_0 | MAY_BE_MISSING},
    {"transport_bytes_per_second", "a rank, of its communication thread's processor time",
     CLUSTER(transport_Bps), 0},
    {"core_share", "fraction of the communication thread's time that delays the passes, 0 to 8",
     CLUSTER(core_share), MAY_BE_0},
    {"thread_bytes_per_second",
     "a rank's communication thread, sent while as many are received; 0: the link is the limit",
     CLUSTER(thread_Bps), MAY_BE_0 | MAY_BE_MISSING},
    {"header_bytes", "what headers and replies add to each message on a link",
     CLUSTER(header_bytes), MAY_BE_0 | MAY_BE_MISSING},
};

enum { NFIGURES = sizeof figures / sizeof *figures, LINE_BYTES = 512 };

static double get(const struct probe *probe, const struct figure *figure)
{
    const char *at = (const char *)probe + figure->offset;

    return figure->kind & IS_COUNT ? *(const int *)(const void *)at
                                   : *(const double *)(const void *)at;
}

static void set(struct probe *probe, const struct figure *figure, double value)
{
    char *at = (char *)probe + figure->offset;

    if (figure->kind & IS_COUNT)
        *(int *)(void *)at = (int)value;
    else
        *(double *)(void *)at = value;
}

int probe_write(const char *file, const struct probe *probe)
{
    struct strbuf text = {0};

    strbuf_puts(
        &text, "# Figures of a cluster, measured by poseidon. Remove the file to measure again.\n");
    for (int i = 0; i < NFIGURES; i++)
        strbuf_printf(&text, "%s = %.17g # %s\n", figures[i].key, get(probe, &figures[i]),
                      figures[i].about);
    return file_write_text(file, &text);
}

/* Refuses an unknown key, with a suggestion. where: "FILE:LINE", or an option. */
static int unknown_key(const char *where, const char *key)
{
    struct suggest suggest = suggest_start(key);

    for (int i = 0; i < NFIGURES; i++)
        suggest_offer(&suggest, figures[i].key);
    if (suggest.nearest)
        return error_set("%s: unknown figure '%s'; did you mean '%s'?", where, key,
                         suggest.nearest);
    return error_set("%s: unknown figure '%s'", where, key);
}

static const struct figure *find(const char *key)
{
    for (int i = 0; i < NFIGURES; i++)
        if (!strcmp(figures[i].key, key))
            return &figures[i];
    return NULL;
}

/* Stores the figure if its value is valid. */
static int take(const char *where, const struct figure *figure, double value, struct probe *out)
{
    if ((figure->kind & IS_COUNT) && (!(value >= 1 && value <= INT_MAX) || value != floor(value)))
        return error_set("%s: %s must be a whole number of at least 1, found %g", where,
                         figure->key, value);
    if (!isfinite(value) || value < 0 || (value == 0 && !(figure->kind & MAY_BE_0)))
        return error_set("%s: %s must be %s, found %g", where, figure->key,
                         (figure->kind & MAY_BE_0) ? "0 or more" : "more than 0", value);
    if (figure->offset == CLUSTER(core_share) && value > COST_MOST_SHARE)
        return error_set("%s: core_share must be at most %g, found %g", where, COST_MOST_SHARE,
                         value);
    set(out, figure, value);
    return 0;
}

/* Parses a number in the file's unit, or one with a unit of its own. */
static int parse_value(const char *option, const char *key, const char *text, double *out)
{
    char name[128], *end;

    *out = strtod(text, &end);
    if (end > text && !*end)
        return 0;
    snprintf(name, sizeof name, "%s %s", option, key);
    return path_ends(key, "_per_second") ? units_parse_rate(name, text, out)
           : path_ends(key, "_seconds")  ? units_parse_time(name, text, out)
                                         : error_set("%s expects a number, found '%s'", name, text);
}

int probe_set(const char *option, const char *text, struct probe *out)
{
    const char *equals = strchr(text, '=');
    const struct figure *figure;
    char key[64];
    double value;

    if (!equals || equals == text || (size_t)(equals - text) >= sizeof key)
        return error_set("%s=%s: expected KEY=VALUE, such as latency_seconds=30us", option, text);
    snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    figure = find(key);
    if (!figure || figure->kind & IS_COUNT) /* the job gives the numbers of ranks */
        return unknown_key(option, key);
    return error_status(parse_value(option, key, equals + 1, &value) ||
                        take(option, figure, value, out));
}

const char *probe_figure(const struct probe *probe, int i, const char **about, double *value)
{
    if (i >= NFIGURES)
        return NULL;
    *about = figures[i].about;
    *value = get(probe, &figures[i]);
    return figures[i].key;
}

/* Parses a trimmed line without comment. seen: per figure the line where it stood; 0: none yet. */
static int read_line(const char *file, int line, char *text, int *seen, struct probe *out)
{
    char key[LINE_BYTES], where[PATH_MAX + 16], *end, *equals = strchr(text, '=');
    const struct figure *figure;
    double value;

    snprintf(where, sizeof where, "%s:%d", file, line);
    if (!equals || sscanf(text, "%511[^= \t]", key) != 1)
        return error_set("%s: expected KEY = NUMBER, found '%s'", where, text);
    figure = find(key);
    if (!figure)
        return unknown_key(where, key);
    if (seen[figure - figures])
        return error_set("%s: %s is already in line %d", where, key, seen[figure - figures]);
    errno = 0;
    value = strtod(equals + 1, &end);
    if (end == equals + 1 || *end || errno == ERANGE)
        return error_set("%s: %s expects a number, found '%s'", where, key, equals + 1);
    seen[figure - figures] = line;
    return take(where, figure, value, out);
}

static char *trim(char *text)
{
    char *end;

    text[strcspn(text, "#\r\n")] = '\0';
    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static int read_lines(const char *file, FILE *from, struct probe *out)
{
    char buffer[LINE_BYTES], *text;
    int line = 0, seen[NFIGURES] = {0};

    while (fgets(buffer, sizeof buffer, from)) {
        line++;
        if (strlen(buffer) + 1 == sizeof buffer && !strchr(buffer, '\n'))
            return error_set(
                "%s:%d: a line of more than %d characters: this is not a file of figures", file,
                line, LINE_BYTES - 2);
        text = trim(buffer);
        if (*text && read_line(file, line, text, seen, out))
            return -1;
    }
    if (ferror(from))
        return error_set("%s: %s", file, strerror(errno));
    for (int i = 0; i < NFIGURES; i++)
        if (!seen[i] && !(figures[i].kind & MAY_BE_MISSING))
            return error_set("%s:%d: the file ends without %s", file, line, figures[i].key);
    return 0;
}

int probe_read(const char *file, struct probe *out)
{
    FILE *from = file_open_stream(file);
    int status;

    memset(out, 0, sizeof *out);
    if (!from)
        return -1;
    status = read_lines(file, from, out);
    fclose(from);
    if (!status && out->ranks_per_node > out->nranks)
        status = error_set("%s: %d ranks per node are more than the %d ranks in all", file,
                           out->ranks_per_node, out->nranks);
    out->from_file = true;
    return status;
}

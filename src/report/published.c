/* Reads the published figures. */
#include "report/published.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"

static const char HEAD[] = "table,system,comm,nodes,gbps,figure,value,grade,source,note";

/* Cuts `line` at its first commas, in place. */
static bool cut(char *line, char *fields[PUBLISHED_FIELDS])
{
    int n = 0;

    fields[n++] = line;
    for (char *at = line; *at && n < PUBLISHED_FIELDS; at++)
        if (*at == ',') {
            *at = '\0';
            fields[n++] = at + 1;
        }
    return n == PUBLISHED_FIELDS;
}

static bool parse_number(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end != text && !*end && *out > 0 && isfinite(*out);
}

static int read_point(const char *line, struct published_point *out)
{
    char *fields[PUBLISHED_FIELDS];
    double nodes, gbps;

    *out = (struct published_point){.line = strdup(line)};
    if (!out->line)
        return error_memory(strlen(line), "a published figure");
    if (!cut(out->line, fields))
        return error_set("expected the fields %s, found '%s'", HEAD, line);
    out->table = fields[0];
    out->system = fields[1];
    out->comm = fields[2];
    out->speedup = !strcmp(fields[5], "speedup");
    out->grade = fields[7];
    out->source = fields[8];
    out->note = fields[9];
    if (!out->speedup && strcmp(fields[5], "images_per_second"))
        return error_set("figure '%s' is not known (speedup or images_per_second)", fields[5]);
    if (!parse_number(fields[3], &nodes) || !parse_number(fields[4], &gbps) ||
        !parse_number(fields[6], &out->value))
        return error_set("nodes, gbps and value are numbers above 0; found '%s', '%s', '%s'",
                         fields[3], fields[4], fields[6]);
    out->nodes = (int)nodes;
    out->link_Bps = gbps * 1e9 / 8;
    return 0;
}

static int add_line(struct published *out, const char *line)
{
    struct published_point *grown =
        realloc(out->points, ((size_t)out->count + 1) * sizeof *out->points);

    if (!grown)
        return error_memory(sizeof *grown, "published figures");
    out->points = grown;
    return read_point(line, &grown[out->count++]);
}

int published_read(const char *path, struct published *out)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    int number = 0, status = 0;

    *out = (struct published){.count = 0};
    if (!file)
        return error_set("%s: %s", path, strerror(errno));
    while (!status && getline(&line, &room, file) >= 0) {
        number++;
        line[strcspn(line, "\r\n")] = '\0';
        if (*line && *line != '#' && strcmp(line, HEAD) && add_line(out, line))
            status = error_context("%s:%d", path, number);
    }
    free(line);
    fclose(file);
    if (status)
        published_free(out);
    return status;
}

void published_free(struct published *published)
{
    for (int i = 0; i < published->count; i++)
        free(published->points[i].line);
    free(published->points);
    *published = (struct published){.count = 0};
}

bool published_is_of(const struct published_point *point, const struct run *run)
{
    return point->nodes == run->nodes && !strcmp(point->comm, run->comm) &&
           fabs(point->link_Bps - run->link_Bps) <= 1e-3 * point->link_Bps;
}

/* Profiles as CSV: four fields, quotes as in RFC 4180, comment lines. */
#define _GNU_SOURCE
#include "engine/replay/profile.h"

#include "util/alloc.h"
#include "util/file.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 4 };

#define HEADER "layer,type,forward_s,backward_s"
/* Longest time of a pass; a larger number is a mistake in the unit. */
#define MOST_SECONDS 1e5

/* Takes one field off *rest, unquoting in place; sets *rest to NULL after the last field. */
static int take_field(char **rest, char **out)
{
    char *from = *rest, *to = *rest;

    *out = to;
    if (*from != '"') {
        char *comma = strchr(from, ',');
        if (comma)
            *comma++ = '\0';
        *rest = comma;
        return 0;
    }
    for (from++; *from; *to++ = *from++) {
        if (*from == '"' && *++from != '"')
            break;
        if (!*from)
            break;
    }
    if (from[-1] != '"' || (*from && *from != ','))
        return error_set("a quoted field must end in a quote before the next comma");
    *rest = *from ? from + 1 : NULL;
    *to = '\0';
    return 0;
}

static int split(char *line, char *field[FIELDS])
{
    int n = 0;

    for (char *rest = line; rest; n++) {
        char *value;
        if (take_field(&rest, &value))
            return -1;
        if (n < FIELDS)
            field[n] = value;
    }
    if (n != FIELDS)
        return error_set("expected %d fields (%s), found %d", FIELDS, HEADER, n);
    return 0;
}

static int parse_seconds(const char *text, const char *what, double *out)
{
    char *end;

    errno = 0;
    *out = strtod(text, &end);
    if (end == text || *end || !isfinite(*out) || *out < 0 || *out > MOST_SECONDS)
        return error_set("%s must be seconds from 0 to %g, found '%s'", what, MOST_SECONDS, text);
    return 0;
}

static int add_layer(struct profile *profile, char *field[FIELDS], int line)
{
    const struct profile_layer *earlier = profile_find(profile, field[0]);
    struct profile_layer layer = {.line = line};
    int status;

    if (!*field[0])
        return error_set("expected a layer's name, found nothing");
    if (earlier)
        return error_set("layer '%s' is in line %d already", field[0], earlier->line);
    if (parse_seconds(field[2], "forward_s", &layer.forward) ||
        parse_seconds(field[3], "backward_s", &layer.backward))
        return error_context("layer '%s'", field[0]);
    if (ALLOC_ROOM(profile->layers, profile->nlayers, "a profile"))
        return -1;
    status = alloc_text(&layer.name, field[0], "a profile") ||
             alloc_text(&layer.type, field[1], "a profile");
    profile->layers[profile->nlayers++] = layer;
    return status ? -1 : 0;
}

/* Reads the batch from "# input 64 ..."; that comment without a number is ignored. */
static int take_comment(struct profile *profile, const char *text)
{
    static const char input[] = "# input ";
    const char *number = text + sizeof input - 1;
    long batch;

    if (strncmp(text, input, sizeof input - 1) || *number < '0' || *number > '9')
        return 0;
    errno = 0;
    batch = strtol(number, NULL, 10);
    if (errno || batch < 1 || batch > INT_MAX)
        return error_set("the input's first axis must be a batch from 1 to %d, found '%s'", INT_MAX,
                         number);
    profile->batch = (int)batch;
    return 0;
}

static int read_lines(FILE *in, struct profile *profile)
{
    char *text = NULL, *field[FIELDS];
    size_t size = 0;
    ssize_t length;
    bool header = false;
    int line = 0, status = 0;

    while (!status && (length = getline(&text, &size, in)) >= 0) {
        line++;
        while (length > 0 && strchr(" \t\r\n", text[length - 1]))
            text[--length] = '\0';
        if (length == 0)
            continue;
        if (text[0] == '#')
            status = take_comment(profile, text);
        else if (!header && strcmp(text, HEADER) != 0)
            status = error_set("expected the header '%s', found '%s'", HEADER, text);
        else if (header)
            status = split(text, field) || add_layer(profile, field, line);
        header |= text[0] != '#';
        if (status)
            error_context("%s:%d", profile->file, line);
    }
    if (!status && ferror(in))
        status = error_set("%s: %s", profile->file, strerror(errno));
    else if (!status && !header)
        status =
            error_set("%s: expected the header '%s', found an empty file", profile->file, HEADER);
    free(text);
    return status ? -1 : 0;
}

int profile_read(const char *file, struct profile *out)
{
    FILE *in = file_open_stream(file);
    int status;

    *out = (struct profile){.file = NULL};
    if (!in)
        return error_context("profile");
    status = error_status(alloc_text(&out->file, file, "a profile") || read_lines(in, out));
    fclose(in);
    if (status)
        profile_free(out);
    return status;
}

const struct profile_layer *profile_find(const struct profile *profile, const char *layer)
{
    for (int i = 0; i < profile->nlayers; i++)
        if (!strcmp(profile->layers[i].name, layer))
            return &profile->layers[i];
    return NULL;
}

static void put_field(struct strbuf *text, const char *field)
{
    if (!strpbrk(field, ",\"") && field[0] != '#') {
        strbuf_puts(text, field);
        return;
    }
    strbuf_putc(text, '"');
    for (; *field; field++) {
        if (*field == '"')
            strbuf_putc(text, '"');
        strbuf_putc(text, *field);
    }
    strbuf_putc(text, '"');
}

void profile_begin(struct strbuf *text)
{
    strbuf_puts(text, HEADER "\n");
}

void profile_add(struct strbuf *text, const char *layer, const char *type, double forward,
                 double backward)
{
    put_field(text, layer);
    strbuf_putc(text, ',');
    put_field(text, type);
    strbuf_printf(text, ",%.9g,%.9g\n", forward, backward);
}

void profile_free(struct profile *profile)
{
    for (int i = 0; i < profile->nlayers; i++) {
        free(profile->layers[i].name);
        free(profile->layers[i].type);
    }
    free(profile->layers);
    free(profile->file);
    *profile = (struct profile){.file = NULL};
}

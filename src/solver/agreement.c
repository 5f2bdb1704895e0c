/* The comparison of what ranks were given. The one trick: only a hash travels. Where hashes differ,
 * rank 0's whole list is broadcast and every rank looks for the first line in which its own departs
 * from it; up to the first of these lines all ranks agree, so what a rank has there is well
 * defined. */
#include "solver/agreement.h"

#include "spec/caffe.pb-c.h"
#include "spec/field.h"
#include "spec/print.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/sha256.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HASH_BYTES = 32,
    NAME_BYTES = 1024, /* of a message; no layer's name is nearly that long */
    VALUE_BYTES = 128, /* longer values lose their middle in messages */
};

/* ---- the list ---- */

void agreement_put(struct strbuf *list, const char *name, const char *format, ...)
{
    va_list args;

    strbuf_printf(list, "%s\t", name);
    va_start(args, format);
    strbuf_vprintf(list, format, args);
    va_end(args);
    strbuf_putc(list, '\n');
}

static bool is_named(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (!strcmp(*names, name))
            return true;
    return false;
}

static void cut(struct strbuf *text, size_t length)
{
    if (text->failed)
        return;
    text->length = length;
    text->data[length] = '\0';
}

/* "layer 'conv1'", with nothing in it that would end a name or a line. */
static void put_layer(struct strbuf *path, const Caffe__LayerParameter *layer)
{
    strbuf_puts(path, "layer '");
    for (const char *c = layer->name ? layer->name : ""; *c; c++)
        strbuf_putc(path, (unsigned char)*c < ' ' ? '?' : *c);
    strbuf_putc(path, '\'');
}

static void put_fields(struct strbuf *list, struct strbuf *path, const ProtobufCMessage *message,
                       const char *const *except);

static void put_inner(struct strbuf *list, struct strbuf *path,
                      const ProtobufCFieldDescriptor *field, size_t index,
                      const ProtobufCMessage *inner, const char *const *except)
{
    size_t length = path->length;

    strbuf_puts(path, field->name);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        strbuf_printf(path, "[%zu]", index);
    if (inner->descriptor == &caffe__layer_parameter__descriptor) {
        /* a layer that only one rank has shows here, before its fields could seem to differ */
        strbuf_printf(list, "%s\t", strbuf_text(path));
        cut(path, length);
        put_layer(path, (const Caffe__LayerParameter *)inner);
        strbuf_printf(list, "%s\n", strbuf_text(path) + length);
        strbuf_putc(path, ' ');
    } else {
        strbuf_putc(path, '.');
    }
    put_fields(list, path, inner, except);
    cut(path, length);
}

static void put_fields(struct strbuf *list, struct strbuf *path, const ProtobufCMessage *message,
                       const char *const *except)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t count = is_named(except, field->name) ? 0 : field_count(message, field);

        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            for (size_t k = 0; k < count; k++)
                put_inner(list, path, field, k,
                          *(ProtobufCMessage *const *)field_at(message, field, k), except);
        } else if (count > 0) {
            strbuf_printf(list, "%s%s\t", strbuf_text(path), field->name);
            for (size_t k = 0; k < count; k++) {
                strbuf_puts(list, k ? ", " : "");
                print_value(list, field, field_at(message, field, k));
            }
            strbuf_putc(list, '\n');
        }
    }
}

void agreement_put_message(struct strbuf *list, const char *prefix, const ProtobufCMessage *message,
                           const char *const *except)
{
    struct strbuf path = {.data = NULL};

    strbuf_puts(&path, prefix);
    put_fields(list, &path, message, except);
    list->failed |= path.failed;
    strbuf_free(&path);
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

/* The first line where `mine` departs from rank 0's list: its number, and in *at the line whose
 * name tells what differs. INT_MAX: the lists are the same. */
static int find_difference(const char *root, const char *mine, const char **at)
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

static void copy_name(const char *line, char out[NAME_BYTES])
{
    size_t length = strcspn(line, "\t");

    memset(out, 0, NAME_BYTES);
    memcpy(out, line, length < NAME_BYTES - 2 ? length + 1 : NAME_BYTES - 1); /* with its tab */
}

/* This rank's value of that name, among the lines from number `line` on. */
static void copy_value(const char *list, int line, const char *name, char out[VALUE_BYTES])
{
    const char *found;
    size_t length;

    while (line-- > 0)
        list = next_line(list);
    found = find_line(list, name);
    memset(out, 0, VALUE_BYTES);
    if (!found) {
        strcpy(out, "not set");
        return;
    }
    found += strcspn(found, "\t") + 1;
    length = line_length(found);
    if (length < VALUE_BYTES)
        memcpy(out, found, length);
    else
        snprintf(out, VALUE_BYTES, "%.*s ... %.*s", VALUE_BYTES / 2 - 6, found, VALUE_BYTES / 2 - 6,
                 found + length - (VALUE_BYTES / 2 - 6));
}

void agreement_difference(const char *there, const char *here, struct strbuf *out)
{
    char name[NAME_BYTES], old[VALUE_BYTES], new[VALUE_BYTES];
    const char *at = "";
    int line = find_difference(there, here, &at);

    if (line == INT_MAX)
        return;
    copy_name(at, name);
    copy_value(there, line, name, old);
    copy_value(here, line, name, new);
    strbuf_append(out, name, strcspn(name, "\t"));
    strbuf_printf(out, ": %s there, %s here", old, new);
}

/* " on ranks 0, 2-5": those that have the same value as rank `first`. */
static void put_ranks(struct strbuf *out, const char *values, int nranks, int first)
{
    const char *value = values + (size_t)first * VALUE_BYTES;
    bool several = false;

    for (int r = first + 1; r < nranks && !several; r++)
        several = !strcmp(values + (size_t)r * VALUE_BYTES, value);
    strbuf_puts(out, several ? " on ranks " : " on rank ");
    for (int r = first, end; r < nranks; r = end) {
        end = r + 1;
        if (strcmp(values + (size_t)r * VALUE_BYTES, value))
            continue;
        while (end < nranks && !strcmp(values + (size_t)end * VALUE_BYTES, value))
            end++;
        strbuf_printf(out, "%s%d", r > first ? ", " : "", r);
        if (end - r > 1)
            strbuf_printf(out, end - r > 2 ? "-%d" : ", %d", end - 1);
    }
}

/* Sets the message; -1. */
static int describe(const char *name, const char *values, int nranks)
{
    struct strbuf text = {.data = NULL};
    size_t length = strcspn(name, "\t");

    strbuf_append(&text, name, length);
    for (int r = 0; r < nranks; r++) {
        const char *value = values + (size_t)r * VALUE_BYTES;
        bool said = false;

        for (int before = 0; before < r && !said; before++)
            said = !strcmp(values + (size_t)before * VALUE_BYTES, value);
        if (said)
            continue;
        strbuf_printf(&text, "%s%s", r ? "; " : " differs: ", value);
        put_ranks(&text, values, nranks, r);
    }
    strbuf_puts(&text, "; start all ranks with the same files and the same command line");
    if (!strbuf_status(&text))
        error_set("%s", strbuf_text(&text));
    strbuf_free(&text);
    return -1;
}

/* What rank 0 has. To be freed. Collective. */
static int share_list(MPI_Comm comm, int rank, const struct strbuf *list, char **out)
{
    uint64_t length = list->length;

    *out = NULL;
    MPI_TRY(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, comm));
    *out = length < INT_MAX ? calloc(1, (size_t)length + 1) : NULL;
    if (error_agree(comm, *out ? 0 : error_memory(length, "the comparison of ranks")))
        return -1;
    if (rank == 0)
        memcpy(*out, strbuf_text(list), (size_t)length);
    MPI_TRY(MPI_Bcast(*out, (int)length, MPI_CHAR, 0, comm));
    return 0;
fail:
    return -1;
}

/* Some rank differs: which, and in what. Collective; returns -1. */
static int explain(MPI_Comm comm, const struct strbuf *list)
{
    struct {
        int line, rank;
    } mine, first;
    char name[NAME_BYTES] = "", value[VALUE_BYTES], *root = NULL, *values = NULL;
    const char *at = "";
    int nranks;

    MPI_TRY(MPI_Comm_rank(comm, &mine.rank));
    MPI_TRY(MPI_Comm_size(comm, &nranks));
    if (share_list(comm, mine.rank, list, &root))
        goto fail;
    values = mine.rank == 0 ? calloc((size_t)nranks, VALUE_BYTES) : NULL;
    if (error_agree(comm, mine.rank == 0 && !values
                              ? error_memory((size_t)nranks * VALUE_BYTES, "the ranks' values")
                              : 0))
        goto fail;
    mine.line = find_difference(root, strbuf_text(list), &at);
    MPI_TRY(MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, comm));
    if (mine.rank == first.rank)
        copy_name(at, name);
    MPI_TRY(MPI_Bcast(name, NAME_BYTES, MPI_CHAR, first.rank, comm));
    copy_value(strbuf_text(list), first.line, name, value);
    MPI_TRY(MPI_Gather(value, VALUE_BYTES, MPI_CHAR, values, VALUE_BYTES, MPI_CHAR, 0, comm));
    if (mine.rank == 0)
        describe(name, values, nranks);
    error_agree(comm, -1); /* rank 0's message, since all fail */
fail:
    free(root);
    free(values);
    return -1;
}

int agreement_check(MPI_Comm comm, const struct strbuf *list)
{
    unsigned char mine[HASH_BYTES], root[HASH_BYTES];
    struct sha256 hash;
    int differs, any = 0;

    if (error_agree(comm, strbuf_status(list)))
        return -1;
    sha256_init(&hash);
    sha256_update(&hash, strbuf_text(list), list->length);
    sha256_final(&hash, mine);
    memcpy(root, mine, sizeof root);
    MPI_TRY(MPI_Bcast(root, HASH_BYTES, MPI_BYTE, 0, comm));
    differs = memcmp(mine, root, sizeof root) != 0;
    MPI_TRY(MPI_Allreduce(&differs, &any, 1, MPI_INT, MPI_MAX, comm));
    return any ? explain(comm, list) : 0;
fail:
    return -1;
}

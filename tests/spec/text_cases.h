/* The cases of data/spec/text_cases.txt: a message's type, a text of it, and the bytes that protoc
 * makes of that. */
#ifndef POSEIDON_TESTS_SPEC_TEXT_CASES_H
#define POSEIDON_TESTS_SPEC_TEXT_CASES_H

#include "spec/caffe.pb-c.h"
#include "util/error.h"
#include "util/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_CASES 270 /* how many the file holds: a lost case fails */

struct text_case {
    const ProtobufCMessageDescriptor *type;
    const char *text, *bytes;
    size_t length, nbytes;
    bool accepted; /* by protoc; bytes: where it is */
};

/* Up to the next tab or the line's end, in place: "\ooo" is a byte. */
static inline char *text_case_field(char **line, size_t *length)
{
    char *field = *line, *out = field, *at = field;

    for (; *at != '\t' && *at != '\n'; out++) {
        *out = *at++;
        if (*out == '\\') {
            *out = (char)((at[0] - '0') << 6 | (at[1] - '0') << 3 | (at[2] - '0'));
            at += 3;
        }
    }
    *line = at + 1;
    *out = '\0';
    *length = (size_t)(out - field);
    return field;
}

/* Ends the program where the file is not as expected. */
static inline const struct text_case *text_cases_read(void)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &caffe__net_parameter__descriptor, &caffe__solver_parameter__descriptor,
        &caffe__blob_proto__descriptor, &caffe__datum__descriptor, &caffe__blob_shape__descriptor};
    static struct text_case cases[TEXT_CASES];
    static struct strbuf text;
    size_t n = 0, length;

    if (file_load(&text, TEST_DATA "/spec/text_cases.txt", SIZE_MAX)) {
        fprintf(stderr, "%s\n", error_text());
        exit(1);
    }
    strbuf_putc(&text, '\0');
    for (char *line = text.data; *line && n < TEXT_CASES; n++) {
        struct text_case *c = &cases[n];
        const char *type = text_case_field(&line, &length);
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            if (strcmp(types[i]->short_name, type) == 0)
                c->type = types[i];
        c->accepted = strcmp(text_case_field(&line, &length), "accepted") == 0;
        c->text = text_case_field(&line, &c->length);
        c->bytes = text_case_field(&line, &c->nbytes);
        if (!c->type)
            break;
        if (!*line && n == TEXT_CASES - 1)
            return cases;
    }
    fprintf(stderr, "text_cases.txt: %zu cases before its end, expected %d\n", n, TEXT_CASES);
    exit(1);
}

#endif

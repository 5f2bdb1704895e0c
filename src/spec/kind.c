/* Net or solver? */
#include "spec/read.h"

#include "spec/field.h"
#include "spec/scan.h"
#include "spec/text_internal.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_field(const ProtobufCMessageDescriptor *type, const struct scan_token *token)
{
    char name[64];

    if (token->length >= sizeof name)
        return false;
    memcpy(name, token->text, token->length);
    name[token->length] = '\0';
    return message_find_field(type, name) != NULL;
}

/* > 0: a solver. */
static int balance(const char *path, const char *text, size_t length)
{
    struct scanner scanner;
    int solver = 0, depth = 0;
    bool had_mark, value = false;
    int status = scan_start(&scanner, path, text, length, &had_mark);

    while (status == 0 && scanner.token.kind != SCAN_END) {
        bool name = depth == 0 && !value && scanner.token.kind == SCAN_IDENTIFIER;

        if (name)
            solver += has_field(&caffe__solver_parameter__descriptor, &scanner.token) -
                      has_field(&caffe__net_parameter__descriptor, &scanner.token);
        if (scan_is(&scanner, "{") || scan_is(&scanner, "<") || scan_is(&scanner, "["))
            depth++;
        else if (scan_is(&scanner, "}") || scan_is(&scanner, ">") || scan_is(&scanner, "]"))
            depth--;
        value = scan_is(&scanner, ":");
        status = scan_next(&scanner);
    }
    error_clear();
    return solver;
}

int spec_is_solver(const char *path, bool *is)
{
    size_t length = 0;
    char *text = NULL;

    if (text_read_bytes(path, &text, &length))
        return -1;
    *is = balance(path, text, length) > 0;
    free(text);
    return 0;
}

int spec_kind_error(const char *path, bool wants_solver)
{
    char error[4096];
    size_t length = 0;
    char *text = NULL;
    int found;

    snprintf(error, sizeof error, "%s", error_text());
    found = text_read_bytes(path, &text, &length) ? 0 : balance(path, text, length);
    free(text);
    if (!wants_solver && found > 0)
        return error_set(
            "%s: expected a net, found a solver, which only names one; --solver (of poseidon "
            "train) takes a solver",
            path);
    if (wants_solver && found < 0)
        return error_set(
            "%s: expected a solver, found a net, which a solver names (net: \"%s\"); --model (of "
            "poseidon summary, plan, time and others) takes a net",
            path, path);
    return error_set("%s", error);
}

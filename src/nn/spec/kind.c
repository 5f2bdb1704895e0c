/* Tells a net from a solver by its field names. */
#include "spec/read.h"

#include "spec/field.h"
#include "spec/scan.h"
#include "spec/text_internal.h"
#include "util/error.h"

#include <stdio.h>
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

struct guess {
    int solver;       /* fields of solvers minus fields of nets: > 0: a solver; < 0: a net */
    char net[512];    /* net file named by the solver; "" if none */
    char inlined[32]; /* or the solver's field that holds the net: "net_param" */
};

/* Notes a solver's net: "net" and "train_net" name a file, their _param holds the net itself. */
static void note_net(const struct scan_token *field, struct scanner *scanner, struct guess *out)
{
    static const char *const names[] = {"net", "train_net", "net_param", "train_net_param"};

    for (int i = 0; i < 4; i++) {
        if (strlen(names[i]) != field->length || strncmp(names[i], field->text, field->length))
            continue;
        if (i >= 2)
            snprintf(out->inlined, sizeof out->inlined, "%s", names[i]);
        else if (scanner->token.kind == SCAN_STRING && scanner->token.length < sizeof out->net)
            out->net[scan_string(&scanner->token, out->net)] = '\0';
    }
}

static int look(const char *path, struct guess *out)
{
    struct strbuf text = {0};
    struct scan_token field = {.length = 0}; /* last field name at the top */
    struct scanner scanner;
    int depth = 0;
    bool had_mark, value = false;
    int status;

    *out = (struct guess){.solver = 0};
    if (text_read_bytes(path, &text)) {
        strbuf_free(&text);
        return -1;
    }
    status = scan_start(&scanner, path, strbuf_text(&text), text.length, &had_mark);
    while (status == 0 && scanner.token.kind != SCAN_END) {
        bool name = depth == 0 && !value && scanner.token.kind == SCAN_IDENTIFIER;

        if (depth == 0 && (value || scan_is(&scanner, "{") || scan_is(&scanner, "<")))
            note_net(&field, &scanner, out);
        if (name) {
            field = scanner.token;
            out->solver += has_field(&caffe__solver_parameter__descriptor, &field) -
                           has_field(&caffe__net_parameter__descriptor, &field);
        }
        if (scan_is(&scanner, "{") || scan_is(&scanner, "<") || scan_is(&scanner, "["))
            depth++;
        else if (scan_is(&scanner, "}") || scan_is(&scanner, ">") || scan_is(&scanner, "]"))
            depth--;
        value = scan_is(&scanner, ":");
        status = scan_next(&scanner);
    }
    error_clear();
    strbuf_free(&text);
    return 0;
}

int spec_is_solver(const char *path, bool *solver)
{
    struct guess guess;
    int status = look(path, &guess);

    *solver = guess.solver > 0;
    return status;
}

static int refuse_solver(const char *path, const struct guess *guess)
{
    if (*guess->inlined)
        return error_set("%s: expected a net, found a solver that holds its net in %s { }: write "
                         "what is between the braces into a file of its own; 'poseidon train "
                         "--solver=%s' takes the solver",
                         path, guess->inlined, path);
    return error_set("%s: expected a net, found a solver; use the net that it names%s%s; 'poseidon "
                     "train --solver=%s' takes the solver",
                     path, *guess->net ? ", " : "", guess->net, path);
}

int spec_kind_error(const char *path, bool wants_solver)
{
    struct guess guess;
    char error[4096];

    snprintf(error, sizeof error, "%s", error_text());
    (void)look(path, &guess); /* if this fails, the first error stands */
    if (!wants_solver && guess.solver > 0)
        return refuse_solver(path, &guess);
    if (wants_solver && guess.solver < 0)
        return error_set("%s: expected a solver, found a net; use the solver that names it, or "
                         "write one (net: \"%s\"); poseidon summary, plan, time and others take "
                         "the net by --model",
                         path, path);
    return error_set("%s", error);
}

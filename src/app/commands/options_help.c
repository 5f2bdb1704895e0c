/* Prints --help and 'help tuning': tables of options in 80 columns. */
#include "commands/options.h"

#include <stdio.h>
#include <string.h>

enum { HELP_WIDTH = 80 };

/* Prints text in lines of at most HELP_WIDTH columns, from column `at` on; further lines begin at
 * `indent`. Keeps the text's own line breaks, and blanks after them if `indent` is 0. */
static void print_wrapped(const char *text, int at, int indent)
{
    while (*text) {
        int blanks = (int)strspn(text, " "), word = (int)strcspn(text + blanks, " \n");

        if (*text == '\n') {
            printf("\n%*s", text[1] && text[1] != '\n' ? indent : 0, "");
            at = indent;
            text++;
            text += indent > 0 ? strspn(text, " ") : 0;
            continue;
        }
        if (at > indent && at + blanks + word > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            at = indent;
            text += blanks;
            blanks = 0;
        }
        printf("%.*s", blanks + word, text);
        at += blanks + word;
        text += blanks + word;
    }
    printf("\n");
}

void options_print_entry(const char *name, const char *text)
{
    printf("  %-*s", OPTIONS_INDENT - 2, name);
    if (strlen(name) + 2 >= OPTIONS_INDENT)
        printf("\n%*s", OPTIONS_INDENT, "");
    print_wrapped(text, OPTIONS_INDENT, OPTIONS_INDENT);
}

/* Prints an option's row. between: "=" before the value, or "[=" if the value may be left out. */
static void print_option(const char *name, const char *between, const char *value, const char *help)
{
    char left[64];

    snprintf(left, sizeof left, "--%s%s%s%s", name, value ? between : "", value ? value : "",
             value && *between == '[' ? "]" : "");
    options_print_entry(left, help);
}

void options_print_text(const char *text)
{
    print_wrapped(text, 0, 0);
}

void options_print_tuning(const struct option_rows *rows)
{
    char name[64];

    for (int i = 0; i < rows->n; i++) {
        const struct option *o = &rows->row[i];

        if (!(o->flags & OPTION_TUNE))
            continue;
        snprintf(name, sizeof name, "%s%s%s", o->name, o->value ? "=" : "",
                 o->value ? o->value : "");
        options_print_entry(name, o->help);
    }
}

void options_print_help(const struct command_line *line)
{
    bool grouped = line->noptions > 0 && line->options[0].kind == OPTION_GROUP;

    printf("usage: poseidon %s%s%s\n\n", line->command, *line->synopsis ? " " : "", line->synopsis);
    print_wrapped(line->about, 0, 0);
    if (line->noptions > 0 && !grouped)
        printf("\noptions:\n");
    for (int i = 0; i < line->noptions; i++) {
        const struct option *o = &line->options[i];

        if (o->kind == OPTION_GROUP)
            printf("\n%s:\n", o->help);
        else if (!(o->flags & (OPTION_TUNE | OPTION_CAFFE)))
            print_option(o->name, o->kind == OPTION_WORD || o->kind == OPTION_NAME ? "[=" : "=",
                         o->value, o->help);
    }
    print_option("help", "", NULL, "show this help and exit");
    if (line->example)
        printf("\nexample:\n%s\n", line->example);
}

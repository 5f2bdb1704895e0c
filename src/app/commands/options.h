/* Command lines: one table per command drives parsing, checks and --help.
 *
 * Caffe's forms are accepted: -x v, --x v, -x=v, --x=v; flags as --x and --nox. */
#ifndef POSEIDON_COMMANDS_OPTIONS_H
#define POSEIDON_COMMANDS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "util/option.h"
#include "util/strbuf.h"

/* Texts for `need` of rows that many commands have. */
#define NEED_MODEL   "a model definition: --model=FILE"
#define NEED_WEIGHTS "model weights: --weights=FILE"

struct computing;
struct model_options;

struct command_line {
    const char *command;  /* "train" */
    const char *synopsis; /* text after the command's name in the first line of --help */
    const char *about;    /* a paragraph for --help */
    const char *example;  /* one or more commands that work, one a line; NULL: none */
    const struct option *options;
    int noptions;
    struct model_options *net;   /* target of options_add_model, rows come first; NULL: none */
    const char *net_rows;        /* names of the rows for nets, separated by blanks */
    struct computing *computing; /* target of options_add_computing, rows come last; NULL: none */
    const char **gpus, **engine; /* arguments of options_settle_engine, called after parsing, which
                                    refuses rows of other engines; set from `computing` if given;
                                    NULL: the command computes nothing */
    int least_words, max_words;  /* number of words besides options */
    const char *expected;        /* message if words are missing */
    struct strbuf *alike; /* for agree_alike: options that all ranks must share; NULL: one rank */
    struct strbuf *run;   /* given options of OPTION_OF_RUN; filled if `alike` is; NULL: none */
};

/* Initializes a command line's table from an array of rows. */
#define OPTION_ROWS(rows) .options = (rows), .noptions = (int)(sizeof(rows) / sizeof *(rows))

/* Prints --help of a command on standard output. */
void options_print_help(const struct command_line *line);

/* Prints the rows with OPTION_TUNE on standard output. */
void options_print_tuning(const struct option_rows *rows);

/* Prints a name and its description on standard output, in the layout of --help. */
void options_print_entry(const char *name, const char *text);

/* Prints a paragraph on standard output, in lines of --help's width. */
void options_print_text(const char *text);

/* Finds advice for an option of another program (foreign_options.c), by its name with dashes: what
 * `command` offers in its place, in out of `room` bytes. Knows options of Caffe, PyTorch and
 * others; for train, every field of the solver. Returns false if there is none. */
bool foreign_option_find(const char *command, const char *name, char *out, size_t room);

/* Result of options_parse if --help was printed; not an exit status. */
enum { OPTIONS_HELPED = 256 };

/* Parses argv[1..]; argv[0] is the command's name. Moves words besides options to the front of
 * argv[1..] and counts them in *nwords, which may be NULL. Returns 0, OPTIONS_HELPED if --help was
 * given (and printed), or -1 with a message such as "unknown option --x; did you mean --y?". */
int options_parse(const struct command_line *line, int argc, char **argv, int *nwords);

#endif

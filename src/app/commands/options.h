/* Command lines: one table per command drives parsing, checks and --help.
 *
 * Caffe's forms are all taken: -x v, --x v, -x=v, --x=v; flags as --x and --nox. */
#ifndef POSEIDON_COMMANDS_OPTIONS_H
#define POSEIDON_COMMANDS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "util/option.h"
#include "util/strbuf.h"

/* `need` of rows that many commands have. */
#define NEED_MODEL   "a model definition: --model=FILE"
#define NEED_WEIGHTS "model weights: --weights=FILE"

struct computing;
struct model_options;

struct command_line {
    const char *command;  /* "train" */
    const char *synopsis; /* what follows the command's name in the first line of --help */
    const char *about;    /* a paragraph for --help */
    const char *example;  /* a command that works, or several, one a line; NULL: none */
    const struct option *options;
    int noptions;
    struct model_options *net; /* filled by options_add_model's rows, the first ones; NULL: none */
    const char *net_rows;      /* names of the options that do, separated by blanks */
    struct computing *computing; /* filled by options_add_computing's rows, the last; NULL: none */
    const char **gpus, **engine; /* arguments of options_settle_engine, which is called after
                                    parsing and refuses rows of other engines; those of `computing`
                                    if it is given; NULL: the command computes nothing */
    int least_words, max_words;  /* number of words that are no options */
    const char *expected;        /* the message if there are fewer words */
    struct strbuf *alike; /* for agree_alike: the options that all ranks must have alike; NULL:
                             the command has one rank */
    struct strbuf *run;   /* beside alike: the given options of OPTION_OF_RUN; NULL: none is */
};

/* A command line's table, from an array of rows. */
#define OPTION_ROWS(rows) .options = (rows), .noptions = (int)(sizeof(rows) / sizeof *(rows))

/* --help of a command, on standard output. */
void options_print_help(const struct command_line *line);

/* The rows with OPTION_TUNE, on standard output. */
void options_print_tuning(const struct option_rows *rows);

/* A name and what is said of it, on standard output, laid out as the options of --help. */
void options_print_entry(const char *name, const char *text);

/* A paragraph, on standard output, in lines as long as those of --help. */
void options_print_text(const char *text);

/* Pointers from what other programs call it (pointers.c): what to give in place of an option (its
 * name with dashes) that `command` does not have, in out of `room` bytes: an option of Caffe,
 * PyTorch and others, and for train every field of the solver. False: it is none of these. */
bool foreign_option_find(const char *command, const char *name, char *out, size_t room);

/* What to use in place of a command that there is not; NULL: not known. */
const char *foreign_command_find(const char *name);

/* OPTIONS_HELPED is no exit status. */
enum { OPTIONS_HELPED = 256 };

/* Parses argv[1..]; argv[0] is the command's name. The words that are no options are moved to the
 * front of argv[1..] and counted in *nwords, which may be NULL. Returns 0, OPTIONS_HELPED if --help
 * was asked for (and printed), -1 with the message set ("unknown option --x; did you mean --y?",
 * "--x wants a number, found 'z'",
 * ...). */
int options_parse(const struct command_line *line, int argc, char **argv, int *nwords);

#endif

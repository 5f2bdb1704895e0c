/* Command lines: one table per command drives parsing, checks and --help.
 *
 * Caffe's forms are all taken: -x v, --x v, -x=v, --x=v; flags as --x and --nox. */
#ifndef POSEIDON_COMMANDS_OPTIONS_H
#define POSEIDON_COMMANDS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "util/strbuf.h"

enum option_type {
    OPTION_TEXT,    /* const char **: borrowed from argv */
    OPTION_INT,     /* int * */
    OPTION_COUNT,   /* int *: at least 1 */
    OPTION_THREADS, /* int *: at least 1, at most 16 for each core; more than the cores is warned of
                       on standard error, by one rank alone */
    OPTION_SEED,    /* long long * */
    OPTION_BYTES,   /* size_t *: a number with an optional k, m or g */
    OPTION_REAL,    /* double *: above 0 */
    OPTION_FLAG,    /* bool * */
    OPTION_CHOICE,  /* int *, or an enumeration's: the place of one of `words` */
    OPTION_WORD,    /* the same, whose value may be left out: words[1]; words[0] is "not given" */
    OPTION_NAME,    /* OPTION_TEXT whose value may be left out: "" */
    OPTION_CALL,    /* whatever `parse` makes of it */
    OPTION_LIST,    /* struct option_list *: may be given again and again */
    OPTION_TUNING,  /* no target: NAME=VALUE of a row with OPTION_TUNE; may be repeated */
    OPTION_GROUP,   /* a heading of --help, in `help`; no option */
    /* added to one of these: */
    OPTION_OWN = 16,  /* each rank may have its own; else all ranks must be given the same */
    OPTION_TUNE = 32, /* behind the row of OPTION_TUNING; listed by options_print_tuning */
    OPTION_OLD = 64,  /* a word of former releases, not listed; `help` is today's, for a warning;
                         NULL: Caffe's own word, which is taken without one */
};

enum { OPTIONS_INDENT = 29 }; /* columns before an option's words in --help */

enum { OPTIONS_ITEMS = 64 }; /* times that a user may give an OPTION_LIST */

/* The values of an option that was given several times; borrowed from argv. */
struct option_list {
    const char *item[OPTIONS_ITEMS + 1]; /* with room for one of the command's own */
    int n;
};

/* `need` of rows that many commands have. */
#define NEED_MODEL   "a model definition: --model=FILE"
#define NEED_WEIGHTS "model weights: --weights=FILE"

/* Rows leave out what they do not need. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct computing;
struct model_options;

struct option {
    const char *name;  /* without dashes */
    int type;          /* of enum option_type */
    void *target;      /* keeps its value where the option is not given */
    const char *value; /* what stands for the value in --help; NULL for flags. */
    const char *help;
    const char *const *words; /* ended by NULL; of the enumeration's own header */
    /* Fills the target, or fails with a message that begins with --OPTION; borrows `text`. */
    int (*parse)(const char *option, const char *text, void *target);
    const char *need; /* it must be given: what a message says behind "Need " where it is not */
};

struct command_line {
    const char *command;  /* "train" */
    const char *synopsis; /* what follows the command's name in the first line of --help */
    const char *about;    /* a paragraph for --help */
    const char *example;  /* a command that works, or several, one a line; NULL: none */
    const struct option *options;
    int noptions;
    struct model_options *net;   /* options_add_model's rows stand in front; NULL: they do not */
    const char *net_rows;        /* the names of those that do, with blanks between them */
    struct computing *computing; /* options_add_computing's stand behind, and options_settle_engine
                                    is done; NULL: neither */
    int least_words, max_words;  /* how many words that are no options may stand there */
    const char *expected;        /* the message where there are fewer words */
    struct strbuf *alike; /* for agreement_check: what all ranks must have been given; NULL: the
                             command has one rank */
};

/* A command line's table, from an array of rows. */
#define OPTION_ROWS(rows) .options = (rows), .noptions = (int)(sizeof(rows) / sizeof *(rows))

/* A table that is made of several parts. */
enum { OPTIONS_MOST = 128 };
struct option_rows {
    struct option row[OPTIONS_MOST];
    int n;
};
void options_add(struct option_rows *rows, const struct option *more, int n);

static inline enum option_type option_type_of(const struct option *o)
{
    return (enum option_type)(o->type & ~(OPTION_OWN | OPTION_TUNE | OPTION_OLD));
}

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
bool pointer_of_option(const char *command, const char *name, char *out, size_t room);

/* What to use in place of a command that there is not; NULL: not known. */
const char *pointer_of_command(const char *name);

/* OPTIONS_HELPED is no exit status. */
enum { OPTIONS_HELPED = 256 };

/* Parses argv[1..]; argv[0] is the command's name. The words that are no options are moved to the
 * front of argv[1..] and counted in *nwords, which may be NULL. Returns 0, OPTIONS_HELPED if --help
 * was asked for (and printed), -1 with the message set ("unknown option --x; did you mean --y?",
 * "--x wants a number, found 'z'",
 * ...). */
int options_parse(const struct command_line *line, int argc, char **argv, int *nwords);

#endif

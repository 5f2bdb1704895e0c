/* An option as a row of a table: its name, its target, and how a text becomes its value. Command
 * lines (commands/options.h) and libposeidon's option string are such tables. Not collective. */
#ifndef POSEIDON_UTIL_OPTION_H
#define POSEIDON_UTIL_OPTION_H

#include <stdbool.h>
#include <stddef.h>

enum option_kind {
    OPTION_TEXT,    /* const char **: borrowed from argv */
    OPTION_INT,     /* int * */
    OPTION_COUNT,   /* int *: at least 1 */
    OPTION_THREADS, /* int *: at least 1, at most 16 for each core; one rank warns on standard error
                       of more threads than cores */
    OPTION_SEED,    /* long long * */
    OPTION_BYTES,   /* size_t *: a number with an optional k, m or g */
    OPTION_REAL,    /* double *: above 0 */
    OPTION_FLAG,    /* bool * */
    OPTION_CHOICE,  /* int *, or an enumeration's: an index into `words` */
    OPTION_WORD,    /* OPTION_CALL whose value may be left out: words[1]; words[0] is "not given" */
    OPTION_NAME,    /* OPTION_TEXT whose value may be left out: "" */
    OPTION_CALL,    /* any type, which `parse` fills */
    OPTION_LIST,    /* struct option_list *: may be given repeatedly */
    OPTION_TUNING,  /* no target: NAME=VALUE of a row with OPTION_TUNE; may be repeated */
    OPTION_GROUP,   /* heading of --help, whose text is in `help`; no option */
};

enum option_flag {
    OPTION_OWN = 1,   /* ranks may have different values; else all ranks must be given the same */
    OPTION_TUNE = 2,  /* given as NAME=VALUE of OPTION_TUNING; listed by options_print_tuning */
    OPTION_CAFFE = 4, /* Caffe's name of an option that has another name here: accepted, but not
                         listed; with OPTION_TUNE: accepted without --tune, too */
};

/* Effect of an option on the parameters that a run ends with. Rows without a value take their
 * heading's. */
enum option_run {
    OPTION_UNSAID,
    OPTION_FREE,   /* each start of a run may have another value */
    OPTION_OF_RUN, /* all starts of a run must have the same text */
    OPTION_OF_JOB, /* agree_job_describe compares the job's setting that the value leads to */
};

enum { OPTIONS_INDENT = 29 }; /* column of an option's description in --help */

enum { OPTIONS_ITEMS = 64 }; /* most values that a user may give an OPTION_LIST */

/* The values of an option that was given several times; borrowed from argv. */
struct option_list {
    const char *item[OPTIONS_ITEMS + 1]; /* room for one more, given by the command itself */
    int n;
};

/* Rows omit the members that they do not need. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct option {
    const char *name; /* without dashes */
    enum option_kind kind;
    void *target;      /* target, which keeps its value if the option is not given */
    const char *value; /* placeholder for the value in --help; NULL for flags */
    const char *help;
    const char *const *words; /* words of OPTION_CHOICE and OPTION_WORD, ended by NULL */
    /* Fills the target, or fails with a message that begins with --OPTION; borrows `text`. */
    int (*parse)(const char *option, const char *text, void *target);
    const char *need;          /* for an option that must be given: the message after "Need " */
    const char *engines;       /* engines that use the option, separated by blanks; NULL: all. Other
                                  engines refuse the option */
    const char *default_words; /* values that do the same, so every engine accepts them; or NULL */
    const char *not_with; /* options that exclude this option: "batch comm=none" means --batch, and
                             --comm with that value alone; NULL: none */
    const char *why;      /* reason for `not_with`, printed after the option's name */
    unsigned flags;       /* bits of enum option_flag */
    enum option_run run;  /* set in tables of command_line.run */
};

/* A table composed of several parts. */
enum { OPTIONS_MOST = 128 };
struct option_rows {
    struct option row[OPTIONS_MOST];
    int n;
    bool given[OPTIONS_MOST]; /* set by options_parse_words */
};
void options_add(struct option_rows *rows, const struct option *added, int n);

/* Stores the value of `text` in the row's target, for all kinds that have a text. name: the option
 * in messages, "--chunk", "--tune=chunk" or "chunk". Fails with a message. */
int option_store(const struct option *option, const char *name, const char *text);

/* Stores the values of "NAME=VALUE,NAME=VALUE" in the rows' targets; cuts `text` apart. */
int options_parse_words(struct option_rows *rows, char *text);

/* Returns true in the one process of a job that prints warnings. Asks the launcher's variables,
 * since MPI may not be started yet. */
bool option_warns(void);

#endif

/* Runs poseidon as a user runs it: standard output, standard error, exit status. */
#ifndef POSEIDON_TESTS_COMMANDS_COMMAND_RUNNER_H
#define POSEIDON_TESTS_COMMANDS_COMMAND_RUNNER_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct ran {
    int status;
    char out[32768], err[8192];
};

static inline void read_file(const char *name, char *text, size_t size)
{
    FILE *file = fopen(name, "rb");
    size_t length;

    ck_assert_msg(file != NULL, "%s is missing", name);
    length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
}

static inline void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

/* Runs poseidon with these arguments in the test's own folder. */
static inline const struct ran *run(const char *arguments)
{
    static struct ran ran;
    const char *program = getenv("POSEIDON");
    char command[2048];
    int status;

    ck_assert_msg(program != NULL, "POSEIDON is not set: run this through make check");
    snprintf(command, sizeof command, "'%s' %s >stdout 2>stderr", program, arguments);
    status = system(command);
    ck_assert_msg(WIFEXITED(status), "%s: ended by signal %d", arguments, WTERMSIG(status));
    ran.status = WEXITSTATUS(status);
    read_file("stdout", ran.out, sizeof ran.out);
    read_file("stderr", ran.err, sizeof ran.err);
    return &ran;
}

static inline void assert_ran(const struct ran *ran, int status, const char *out, const char *err)
{
    ck_assert_str_eq(ran->err, err);
    ck_assert_str_eq(ran->out, out);
    ck_assert_int_eq(ran->status, status);
}

/* Copies the small weights to "W". */
static inline void copy_weights(void)
{
    char command[1024];

    snprintf(command, sizeof command, "cp '%s/tests/data/spec/today.caffemodel' W",
             getenv("abs_top_srcdir"));
    ck_assert_int_eq(system(command), 0);
}

#endif

/* Runs gnuplot on the scripts of plots. */
#include "report/tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/error.h"

enum { NOT_THERE = 127, NO_FOLDER = 126 };

static int run(const char *folder, char **command)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        if (chdir(folder))
            _exit(NO_FOLDER);
        execvp(command[0], command);
        _exit(NOT_THERE);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return error_set("%s: %s", command[0], strerror(errno));
    if (child < 0)
        return error_set("%s cannot be started: %s", command[0], strerror(errno));
    if (!WIFEXITED(status))
        return error_set("%s was ended by signal %d", command[0], WTERMSIG(status));
    return WEXITSTATUS(status);
}

int plots_draw(const char *folder, const struct plots *plots, int nplots, bool *missing)
{
    const char *program = getenv("GNUPLOT");
    int scripts = 0, status;
    char **command;

    *missing = false;
    for (int p = 0; p < nplots; p++)
        scripts += plots[p].count;
    if (!scripts)
        return 0;
    command = alloc_array((size_t)scripts + 2, sizeof *command, "gnuplot's words");
    if (!command)
        return -1;
    command[0] = strdup(program ? program : "gnuplot");
    scripts = 1;
    for (int p = 0; p < nplots; p++)
        for (int i = 0; i < plots[p].count; i++) {
            size_t room = strlen(plots[p].name[i]) + sizeof "./.gp";
            command[scripts] = malloc(room);
            if (command[scripts])
                snprintf(command[scripts++], room, "./%s.gp", plots[p].name[i]);
        }
    status = command[0] ? run(folder, command) : error_memory(16, "gnuplot's words");
    if (status == NOT_THERE) {
        *missing = true;
        status = 0;
    } else if (status > 0) {
        status = error_set("%s failed with status %d in %s", command[0], status, folder);
    }
    for (int i = 0; i < scripts; i++)
        free(command[i]);
    free(command);
    return status;
}

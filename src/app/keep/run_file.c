/* Reads and writes PREFIX.run. One table drives reading and writing of the numbers. */
#include "keep/run_file.h"

#include "util/choice.h"
#include "util/error.h"
#include "util/file.h"
#include "util/strbuf.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char *const ends[] = {
    [RUN_GOES_ON] = "goes-on", [RUN_STOPPED] = "stopped", [RUN_DONE] = "done", NULL};

enum { LINES_MOST = 1 << 20 };

char *run_file_path(const char *prefix)
{
    struct strbuf path = {0};

    strbuf_printf(&path, "%s.run", prefix);
    return strbuf_take(&path);
}

void run_file_free(struct run_file *file)
{
    free(file->about);
    *file = (struct run_file){.iteration = 0};
}

static void put_about(struct strbuf *text, const char *about)
{
    while (about && *about) {
        size_t length = strcspn(about, "\n");

        strbuf_putc(text, '+');
        strbuf_append(text, about, length);
        strbuf_putc(text, '\n');
        about += length + (about[length] != '\0');
    }
}

/* Numbers of the file, in the file's order. */
static const struct number {
    const char *key;
    size_t place; /* offset in struct run_file of an int64_t, or of a double if most is 0 */
    int64_t least, most;
} numbers[] = {
    {"iteration", offsetof(struct run_file, iteration), -1, INT32_MAX},
    {"begun", offsetof(struct run_file, begun), 0, INT32_MAX},
    {"starts", offsetof(struct run_file, starts), 0, INT32_MAX},
    {"furthest", offsetof(struct run_file, furthest), 0, INT32_MAX},
    {"global_batch", offsetof(struct run_file, global_batch), 0, INT64_MAX},
    {"ranks", offsetof(struct run_file, ranks), 0, INT32_MAX},
    {"launches", offsetof(struct run_file, ledger.launches), 0, INT64_MAX},
    {"repeated_iterations", offsetof(struct run_file, ledger.again), 0, INT64_MAX},
    {"training_seconds", offsetof(struct run_file, ledger.trained), 0, 0},
    {"repeated_seconds", offsetof(struct run_file, ledger.repeated), 0, 0},
    {"starting_seconds", offsetof(struct run_file, ledger.starting), 0, 0},
    {"saving_seconds", offsetof(struct run_file, ledger.saving), 0, 0},
    {"waiting_seconds", offsetof(struct run_file, ledger.waiting), 0, 0},
    {"last_seen", offsetof(struct run_file, pulse.seen), 0, 0},
    {"last_reached", offsetof(struct run_file, pulse.reached), 0, INT32_MAX},
    {"last_training_seconds", offsetof(struct run_file, pulse.trained), 0, 0},
    {"last_saving_seconds", offsetof(struct run_file, pulse.saving), 0, 0},
    {"best", offsetof(struct run_file, best), 0, INT32_MAX},
};

enum { NUMBERS = sizeof numbers / sizeof *numbers, BEST = NUMBERS - 1 };

int run_file_write(const char *path, const struct run_file *file)
{
    bool best = file->best_of[0] && file->best >= 0;
    struct strbuf text = {0};

    strbuf_puts(&text, "# The run that writes the snapshots beside this file; \"poseidon train "
                       "--resume\" continues it.\n");
    strbuf_printf(&text, "run\t%s\ndigest\t%s\nend\t%s\n", file->run, file->digest,
                  ends[file->end]);
    for (int i = 0; i < NUMBERS; i++) {
        const void *place = (const char *)file + numbers[i].place;

        if (!numbers[i].most)
            strbuf_printf(&text, "%s\t%.3f\n", numbers[i].key, *(const double *)place);
        else if (i != BEST || best)
            strbuf_printf(&text, "%s\t%" PRId64 "\n", numbers[i].key, *(const int64_t *)place);
    }
    if (best)
        strbuf_printf(&text, "best_score\t%.17g\nbest_of\t%s\n", file->best_score, file->best_of);
    put_about(&text, file->about);
    return file_write_text(path, &text);
}

static bool read_number(const char *text, const struct number *number, struct run_file *file)
{
    void *place = (char *)file + number->place;
    int64_t whole = 0;
    double real = 0;
    char *end;

    errno = 0;
    if (number->most)
        *(int64_t *)place = whole = strtoll(text, &end, 10);
    else
        *(double *)place = real = strtod(text, &end);
    return end != text && !*end && !errno &&
           (number->most ? whole >= number->least && whole <= number->most
                         : real >= 0 && isfinite(real));
}

/* Stores a value under its key; false: the value is invalid. Skips keys of later versions. */
static bool take_figure(struct run_file *file, const char *key, const char *value)
{
    int end;

    for (int i = 0; i < NUMBERS; i++)
        if (!strcmp(key, numbers[i].key))
            return read_number(value, &numbers[i], file);
    if (!strcmp(key, "run"))
        return snprintf(file->run, sizeof file->run, "%s", value) < RUN_NAME_BYTES &&
               run_check_name(value) == 0;
    if (!strcmp(key, "digest"))
        return snprintf(file->digest, sizeof file->digest, "%s", value) < SHA256_HEX;
    if (!strcmp(key, "best_of"))
        return snprintf(file->best_of, sizeof file->best_of, "%s", value) < RUN_NAME_BYTES;
    if (!strcmp(key, "best_score"))
        return sscanf(value, "%lf", &file->best_score) == 1;
    if (!strcmp(key, "end")) {
        end = choice_find(ends, value);
        file->end = end < 0 ? RUN_GOES_ON : (enum run_end)end;
        return end >= 0;
    }
    return true;
}

static int read_lines(FILE *in, const char *path, struct run_file *file)
{
    struct strbuf about = {0};
    char *line = NULL;
    size_t room = 0;
    int number = 0, status = 0;

    for (ssize_t length; !status && (length = getline(&line, &room, in)) > 0;) {
        char *value;

        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        if (++number > LINES_MOST)
            status = error_set("%s: more than %d lines", path, LINES_MOST);
        else if (line[0] == '+')
            strbuf_printf(&about, "%s\n", line + 1);
        else if (line[0] && line[0] != '#') {
            value = strchr(line, '\t');
            if (value)
                *value++ = '\0';
            if (!value || !take_figure(file, line, value))
                status = error_set("%s:%d: expected a run's figure, \"KEY<tab>VALUE\", found "
                                   "'%.40s'; --snapshot=FILE does without this file",
                                   path, number, line);
        }
    }
    free(line);
    file->about = strbuf_take(&about);
    return file->about ? status : -1;
}

int run_file_read(const char *path, struct run_file *out, bool *found)
{
    FILE *in = file_open_stream(path);
    int status;

    *out = (struct run_file){.iteration = -1, .best = -1};
    *found = in != NULL;
    if (!in)
        return errno == ENOENT ? 0 : -1;
    status = read_lines(in, path, out);
    if (!status && ferror(in))
        status = error_set("cannot read '%s': %s", path, strerror(errno));
    if (!status && !out->run[0])
        status = error_set("%s names no run; --snapshot=FILE does without this file", path);
    fclose(in);
    if (status)
        run_file_free(out);
    return status;
}

int run_check_name(const char *name)
{
    size_t length = strlen(name);
    bool good = length > 0 && length < RUN_NAME_BYTES && isalnum((unsigned char)name[0]);

    for (size_t i = 0; good && i < length; i++)
        good = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);
    return good ? 0
                : error_set("'%.80s' cannot name a run: expected 1 to %d letters, digits, '.', '_' "
                            "and '-', the first a letter or a digit",
                            name, RUN_NAME_BYTES - 1);
}

int run_new_name(char out[RUN_NAME_BYTES])
{
    unsigned char bytes[6];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set("no random numbers for the run's name: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);
    return 0;
}

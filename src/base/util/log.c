/* Log lines. A line is composed first and written by one call, so that lines of several ranks on
 * one pipe do not mix. The stream's own lock guards struct log. */
#include "util/log.h"

#include "util/clock.h"
#include "util/path.h"
#include "util/strbuf.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.2
#define ERASE_LINE     "\r\033[K"

/* Returns true if mpirun's own stdout or stderr is a terminal: mpirun gives each rank a pipe and
 * copies what arrives. Only possible if the launcher runs on this node. */
static bool launcher_has_terminal(int fd)
{
    char path[64];
    bool result;

    if (getenv("OMPI_COMM_WORLD_RANK") == NULL || (fd != STDOUT_FILENO && fd != STDERR_FILENO))
        return false;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getppid(), fd);
    fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return false;
    result = isatty(fd);
    close(fd);
    return result;
}

void log_init(struct log *log, bool enabled, FILE *to)
{
    int fd = to ? fileno(to) : -1;
    bool terminal = fd >= 0 && (isatty(fd) || launcher_has_terminal(fd));

    *log = (struct log){.enabled = enabled, .to = to, .terminal = enabled && terminal};
}

static void write_prefix(struct strbuf *text, char level, const char *file, int line)
{
    struct timeval now;
    struct tm local;

    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &local);
    strbuf_printf(text, "%c%02d%02d %02d:%02d:%02d.%06ld %5ld %s:%d] ", level, local.tm_mon + 1,
                  local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, (long)now.tv_usec,
                  (long)syscall(SYS_gettid), path_base(file), line);
}

/* Draws the progress line. Callers hold the lock of log->to. */
static void draw_line(struct log *log)
{
    fprintf(log->to, ERASE_LINE "%s", log->line);
    fflush(log->to);
    log->progress = true;
    log->drawn = clock_seconds();
}

static void emit(struct log *log, const struct strbuf *text)
{
    flockfile(log->to);
    if (log->progress)
        fputs(ERASE_LINE, log->to);
    fwrite(text->data, 1, text->length, log->to);
    if (log->progress)
        draw_line(log);
    fflush(log->to);
    funlockfile(log->to);
}

void log_write(struct log *log, char level, const char *file, int line, const char *format, ...)
{
    struct strbuf text = {0};
    va_list args;

    if (log == NULL || log->to == NULL || (!log->enabled && level != 'E'))
        return;
    write_prefix(&text, level, file, line);
    va_start(args, format);
    strbuf_vprintf(&text, format, args);
    va_end(args);
    strbuf_putc(&text, '\n');
    if (text.length > 0)
        emit(log, &text);
    strbuf_free(&text);
}

static void duration_text(double seconds, char *out, size_t size)
{
    long s;

    if (!isfinite(seconds) || seconds < 0 || seconds > 1e8) {
        snprintf(out, size, "--:--");
        return;
    }
    s = lround(seconds);
    if (s >= 86400)
        snprintf(out, size, "%ldd%02ldh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

void log_lines(struct log *log, const char *file, int line, const char *lines)
{
    for (int length; *lines; lines += length + (lines[length] == '\n')) {
        bool warns = !strncmp(lines, LOG_WARNS, strlen(LOG_WARNS));

        lines += warns ? strlen(LOG_WARNS) : 0;
        length = (int)strcspn(lines, "\n");
        log_write(log, warns ? 'W' : 'I', file, line, "%.*s", length, lines);
    }
}

void log_progress(struct log *log, const struct log_progress *progress)
{
    char eta[32], epochs[64] = "";

    if (log == NULL || !log->enabled || !log->terminal || log->to == NULL)
        return;
    flockfile(log->to);
    if (!log->progress || clock_seconds() - log->drawn >= REDRAW_SECONDS) {
        duration_text(progress->eta_seconds, eta, sizeof eta);
        if (progress->max_epochs > 0)
            snprintf(epochs, sizeof epochs, "  epoch %.4g/%.4g", progress->epochs,
                     progress->max_epochs);
        snprintf(log->line, sizeof log->line, "%lld/%lld%s  %.4g images/s  ETA %s  loss %.4g",
                 (long long)progress->iteration, (long long)progress->max_iter, epochs,
                 progress->images_per_second, eta, progress->loss);
        draw_line(log);
    }
    funlockfile(log->to);
}

void log_progress_end(struct log *log)
{
    if (log == NULL || log->to == NULL)
        return;
    flockfile(log->to);
    if (log->progress) {
        fputs(ERASE_LINE, log->to);
        fflush(log->to);
        log->progress = false;
    }
    funlockfile(log->to);
}

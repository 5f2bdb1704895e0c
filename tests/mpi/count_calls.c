/* Preloaded into a program, counts what its main thread asks of the allocator (not what it gives
 * back: that was asked for once), how often it takes a lock, and how often it prints into a string,
 * by who asked: the program, or a library that it uses.
 * When the program ends, they stand in the file COUNT_CALLS.PID, one line each, "WHO WHAT COUNT";
 * behind them the places in the program, "at OFFSET WHO WHAT COUNT", for addr2line. */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum what { ALLOCATION, LOCK, STRING, WHATS };
enum who { PROGRAM, ONEDNN, OPENMP, MPI, HDF5, OTHER, WHOS };
enum { FRAMES = 24, SITES = 8192, PLACES = 1 << 14 };

static const char *const what_words[] = {"allocation", "lock", "string"};
static const char *const who_words[] = {"program", "onednn", "openmp", "mpi", "hdf5", "other"};

static unsigned long counts[WHOS][WHATS];
static struct {
    size_t offset;
    enum who who;
    enum what what;
    unsigned long count;
} sites[SITES];
static bool ready;
static __thread bool inside;
static int (*real_lock)(pthread_mutex_t *);
static int (*real_print)(char *, size_t, const char *, va_list);

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static bool has(const char *text, const char *part)
{
    return text && strstr(text, part);
}

static enum who library_of(const char *file)
{
    if (has(file, "libdnnl"))
        return ONEDNN;
    if (has(file, "libgomp"))
        return OPENMP;
    if (has(file, "libmpi") || has(file, "libopen-") || has(file, "mca_") || has(file, "libpmix") ||
        has(file, "libevent"))
        return MPI;
    return has(file, "libhdf5") ? HDF5 : WHOS;
}

struct place {
    char *at;
    enum who library;
    size_t offset; /* in the program; 0: it is not there */
};

/* dladdr looks through all names of a library: what it said of a place is kept until another one
 * that has the same line here is asked for. */
static const struct place *find_place(char *at)
{
    static struct place known[PLACES];
    struct place *place = &known[((size_t)at >> 2) % PLACES];
    Dl_info info;

    if (place->at == at)
        return place;
    *place = (struct place){.at = at, .library = WHOS};
    if (!dladdr(at, &info))
        return place;
    place->library = library_of(info.dli_fname);
    if (has(info.dli_fname, "poseidon") && !has(info.dli_fname, "count_calls"))
        place->offset = (size_t)(at - (char *)info.dli_fbase);
    return place;
}

/* The innermost library that has a word here, else the program, whose innermost place is noted. */
static void note(enum what what)
{
    void *frames[FRAMES];
    size_t offset = 0;
    enum who who = OTHER;
    int n;

    inside = true;
    n = backtrace(frames, FRAMES);
    for (int i = 1; i < n && offset == 0; i++) {
        const struct place *place = find_place(frames[i]);
        if (who == OTHER && place->library != WHOS)
            who = place->library;
        if (who == OTHER && place->offset > 0)
            who = PROGRAM;
        offset = place->offset;
    }
    counts[who][what]++;
    for (int i = 0; i < SITES; i++)
        if (sites[i].count == 0 ||
            (sites[i].offset == offset && sites[i].who == who && sites[i].what == what)) {
            sites[i].offset = offset;
            sites[i].who = who;
            sites[i].what = what;
            sites[i].count++;
            break;
        }
    inside = false;
}

static bool counts_here(void)
{
    return ready && !inside && gettid() == getpid();
}

void *malloc(size_t bytes)
{
    if (counts_here())
        note(ALLOCATION);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    if (counts_here())
        note(ALLOCATION);
    return __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    if (counts_here())
        note(ALLOCATION);
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (counts_here())
        note(ALLOCATION);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    if (counts_here())
        note(ALLOCATION);
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : 12; /* ENOMEM */
}

void *memalign(size_t alignment, size_t bytes)
{
    if (counts_here())
        note(ALLOCATION);
    return __libc_memalign(alignment, bytes);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!real_lock)
        *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (counts_here())
        note(LOCK);
    return real_lock(mutex);
}

static int print(char *to, size_t size, const char *format, va_list arguments)
{
    if (!real_print)
        *(void **)&real_print = dlsym(RTLD_NEXT, "vsnprintf");
    if (counts_here())
        note(STRING);
    return real_print(to, size, format, arguments);
}

int vsnprintf(char *to, size_t size, const char *format, va_list arguments)
{
    return print(to, size, format, arguments);
}

int snprintf(char *to, size_t size, const char *format, ...)
{
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = print(to, size, format, arguments);
    va_end(arguments);
    return n;
}

/* What FORTIFY makes of the two. */
int __vsnprintf_chk(char *to, size_t size, int flag, size_t room, const char *format,
                    va_list arguments)
{
    (void)flag;
    (void)room;
    return print(to, size, format, arguments);
}

int __snprintf_chk(char *to, size_t size, int flag, size_t room, const char *format, ...)
{
    va_list arguments;
    int n;

    (void)flag;
    (void)room;
    va_start(arguments, format);
    n = print(to, size, format, arguments);
    va_end(arguments);
    return n;
}

__attribute__((constructor)) static void begin(void)
{
    void *frame[1];

    backtrace(frame, 1); /* loads what it needs */
    ready = true;
}

__attribute__((destructor)) static void end(void)
{
    const char *name = getenv("COUNT_CALLS");
    char path[512];
    FILE *out;

    ready = false;
    if (!name)
        return;
    sprintf(path, "%.400s.%d", name, (int)getpid());
    out = fopen(path, "w");
    if (!out)
        return;
    for (int who = 0; who < WHOS; who++)
        for (int what = 0; what < WHATS; what++)
            fprintf(out, "%s %s %lu\n", who_words[who], what_words[what], counts[who][what]);
    for (int i = 0; i < SITES && sites[i].count > 0; i++)
        fprintf(out, "at %#zx %s %s %lu\n", sites[i].offset, who_words[sites[i].who],
                what_words[sites[i].what], sites[i].count);
    fclose(out);
}

/* Files read whole, and files that appear whole or not at all: written beside their place under a
 * temporary name, forced to the disk, renamed. A kill or a crash at any moment leaves the old file
 * or the new one. */
#ifndef POSEIDON_UTIL_FILE_H
#define POSEIDON_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct strbuf;

/* The temporary name for PATH, in its folder: PATH.tmp. Always the same one, so that what a killed
 * run left behind is overwritten and not piled up. One process may write PATH at a time. Returns
 * memory that the caller frees, or NULL with a message. */
char *file_temp_name(const char *path);

/* Puts the complete, closed file `temp` in the place of `path`: fsync, rename, fsync of the folder.
 * When that fails, `temp` is removed, and `path` is what it was. */
int file_commit(const char *temp, const char *path);

/* Copies the file `from` to `path`, whole or not at all. */
int file_copy(const char *from, const char *path);

/* Makes `path` another name of the file `from`: a hard link, and a copy where the file system has
 * none. A kill at any moment leaves what `path` was, or all of the new one. */
int file_link(const char *from, const char *path);

/* Whether `path` could be written, found out by making its temporary file: for a start, so that
 * hours of work do not end in a message. errno is then that of the failure. */
int file_probe(const char *path);

/* Writes `length` bytes as the file `path`, whole or not at all. */
int file_write(const char *path, const void *data, size_t length);

/* A text likewise, which is freed in any case; fails where it is not complete. */
int file_write_text(const char *path, struct strbuf *text);

/* The same piece by piece, through a small buffer. The first failure is remembered, and reported at
 * the end. */
struct file_writer {
    const char *path; /* borrowed */
    char *temp;
    char *buffer;
    size_t used;
    int fd, error; /* errno of the first failure; 0 */
};

int file_writer_open(struct file_writer *writer, const char *path);
void file_writer_put(struct file_writer *writer, const void *data, size_t length);

/* Puts the file in its place; where status or anything before says failure nothing is left, and -1
 * is returned: with the message of status where that failed. To be called also after
 * file_writer_open has failed. */
int file_writer_close(struct file_writer *writer, int status);

/* Refuses a FIFO, a socket and a device, which may keep a reader waiting for good, except for the
 * pipe that a shell gives as /dev/stdin or <(...). */
int file_check_special(const char *path);

/* Opens for reading what file_check_special accepts. Returns the descriptor, or -1 with a message
 * that begins with the path; errno is ENOENT for a missing file. */
int file_open_plain(const char *path);

/* Does the same and returns a stream, or NULL. */
FILE *file_open_stream(const char *path);

/* Reads the whole file, or all that a pipe gives, in place of what `out` holds, to use its memory
 * again; a zero byte follows. Errors name it: missing, a folder, unreadable, larger than `max`
 * bytes. */
int file_load(struct strbuf *out, const char *path, size_t max);

/* Where HDF5's signature stands in an open file: at 0, or behind a user's own block at 512, 1024,
 * 2048, ... -1: nowhere. Moves the place of reading. */
int64_t file_find_hdf5(FILE *file);

/* Whether `path` is a readable file with that signature. Asks no library, so any thread may. */
bool file_is_hdf5(const char *path);

#endif

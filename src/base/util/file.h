/* Reads whole files, and writes files that appear whole or not at all: under a temporary name in
 * the same folder, forced to the disk, then renamed. A kill or crash at any moment leaves the old
 * file or the new one. */
#ifndef POSEIDON_UTIL_FILE_H
#define POSEIDON_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct strbuf;

/* Returns the temporary name for PATH, in its folder: PATH.tmp. The name is always the same, so
 * that a later run overwrites what a killed run left behind. Only one process may write PATH at a
 * time. The caller frees the name; NULL with a message on failure. */
char *file_temp_name(const char *path);

/* Moves the complete, closed file `temp` to `path`: fsync, rename, fsync of the folder. On failure
 * removes `temp` and leaves `path` unchanged. */
int file_commit(const char *temp, const char *path);

/* Forces a file and its folder's entry to the disk. */
int file_sync(const char *path);

/* Copies the file `from` to `path`, whole or not at all. */
int file_copy(const char *from, const char *path);

/* Makes `path` a hard link to the file `from`, or a copy if the file system has no hard links. A
 * kill at any moment leaves the old `path` or the complete new one. */
int file_link(const char *from, const char *path);

/* Fails if `path` cannot be written, found out by creating its temporary file. A check at start, so
 * that hours of work are not lost at the end. Sets errno on failure. */
int file_probe(const char *path);

/* Writes `length` bytes as the file `path`, whole or not at all. */
int file_write(const char *path, const void *data, size_t length);

/* Writes a text as the file `path`, whole or not at all, and frees the text even if that fails. */
int file_write_text(const char *path, struct strbuf *text);

/* A file being written piece by piece, whole or not at all, through a small buffer.
 * file_writer_close reports the first failure. */
struct file_writer {
    const char *path; /* borrowed */
    char *temp;
    char *buffer;
    size_t used;
    int fd, error; /* error: errno of the first failure, or 0 */
    bool unsynced; /* set by the caller, who calls file_sync after file_writer_close */
};

int file_writer_open(struct file_writer *writer, const char *path);
void file_writer_put(struct file_writer *writer, const void *data, size_t length);

/* Puts the file in its place; removes it if `status` or an earlier write failed. Returns 0, or -1
 * with the message of the first failure. To be called even after file_writer_open has failed. */
int file_writer_close(struct file_writer *writer, int status);

/* Fails for a FIFO, a socket and a device, which may block a reader for ever. Accepts the pipe that
 * a shell passes as /dev/stdin or <(...). */
int file_check_special(const char *path);

/* Opens a file that file_check_special accepts, for reading. Returns the descriptor, or -1 with a
 * message that begins with the path; errno is ENOENT if the file is missing. */
int file_open_plain(const char *path);

/* Opens a file like file_open_plain and returns a stream, or NULL. */
FILE *file_open_stream(const char *path);

/* Replaces the content of `out` by the whole file, or by all that a pipe gives, followed by a NUL;
 * reuses the memory of `out`. Fails if the file is missing, a folder, unreadable or larger than
 * `max` bytes. */
int file_load(struct strbuf *out, const char *path, size_t max);

/* Returns the offset of HDF5's signature in an open file: 0, or 512, 1024, 2048, ... behind a user
 * block; -1 if there is none. Moves the file position. */
int64_t file_find_hdf5(FILE *file);

/* Returns true if `path` is a readable file with HDF5's signature. Makes no HDF5 call, so any
 * thread may call this function. */
bool file_is_hdf5(const char *path);

#endif

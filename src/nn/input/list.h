/* A list of image files with their labels. A million files take little more memory than their
 * names. */
#ifndef POSEIDON_INPUT_LIST_H
#define POSEIDON_INPUT_LIST_H

#include "input/class_names.h"
#include "util/strbuf.h"

/* All zero is an empty list. */
struct list {
    struct strbuf text; /* the list file, or names one after another; each NUL-terminated */
    uint64_t *start;    /* owned; count offsets into text */
    int32_t *label;     /* owned; count labels, zeros if `value` has the labels */
    int nvalues;        /* real labels of an image; 0: one integer label; or LIST_... */
    float *value;       /* owned; count x nvalues */
    uint64_t *picture;  /* owned; count offsets of pictures of labels; NULL without LIST_PAIRS */
    uint64_t count;
    uint64_t passed_over;       /* a folder's hidden files, Thumbs.db and desktop.ini */
    struct class_names classes; /* names of the class folders, else none; owned */
};

/* Forms of a line without numbers. A path with blanks is in double quotes. */
enum {
    LIST_PAIRS = -1, /* two paths: an image and its picture of labels */
    LIST_PATHS = -2  /* a path; more words are ignored */
};

/* Reads a text file with a line "PATH LABEL" for every image. Lines are split at the last blank;
 * PATH may be in double quotes; empty lines are ignored. nvalues > 0: that many numbers instead of
 * one label; < 0: LIST_.... Errors name file and line: unreadable, no label, label not an integer,
 * wrong number of labels or paths, no lines. */
int list_read_file(struct list *list, const char *path, int nvalues);

/* Reads a folder with a folder of images for every class. Classes in the order of names have labels
 * 0, 1, ...; images follow in the order of names, those of subfolders last. Hidden files,
 * Thumbs.db and desktop.ini are passed over; all other files are taken for images. If `classes` is
 * not NULL, this file of names (class_names_read) lists the classes, with or without a folder.
 * Errors: unreadable, no class folders or only one, a folder that is not a class, no images. */
int list_read_folder(struct list *list, const char *path, const char *classes);

/* Adds a file, or all files of a folder and its subfolders, in the order of names. inside: paths
 * omit the folder. */
int list_add(struct list *list, const char *path, bool inside);

const char *list_path(const struct list *list, uint64_t n);

/* Returns the path of image n's picture of labels; NULL without LIST_PAIRS. */
const char *list_picture(const struct list *list, uint64_t n);

void list_free(struct list *list);

#endif

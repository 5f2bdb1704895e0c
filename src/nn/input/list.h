/* A list of image files with their labels, in little memory: a million files take what their names
 * take. */
#ifndef POSEIDON_INPUT_LIST_H
#define POSEIDON_INPUT_LIST_H

#include "input/class_names.h"
#include "util/strbuf.h"

/* All zero is empty. */
struct list {
    struct strbuf text; /* the file as it is, or names one after another; each NUL-terminated */
    uint64_t *start;    /* owned; count offsets into text */
    int32_t *label;     /* owned; count; 0 where there are values */
    int nvalues;        /* 0: images have one label, an integer */
    float *value;       /* owned; count x nvalues */
    uint64_t count;
    struct class_names classes; /* of a folder, else none; owned */
};

/* A text file with a line "PATH LABEL" for every image: cut at the last blank, empty lines left
 * out, PATH in double quotes or not. nvalues not 0: as many numbers instead of the label. Errors
 * name file and line: unreadable, no label, a label that is no integer, another number of labels,
 * no lines. */
int list_read_file(struct list *list, const char *path, int nvalues);

/* A folder with a folder of images for every class: classes in the order of their names are labels
 * 0, 1, ..., images in the order of theirs, those of folders in it last. Hidden files are left out,
 * everything else is taken for an image. `classes`, where it is not NULL, is a file of names
 * (class_names_read) that are the classes instead, with or without a folder. Errors: unreadable, no
 * class folders or one alone, a folder that is none of the classes, empty. */
int list_read_folder(struct list *list, const char *path, const char *classes);

/* Adds a file, or all files of a folder and of the folders in it, in the order of their names. */
int list_add(struct list *list, const char *path);

const char *list_path(const struct list *list, uint64_t n);

void list_free(struct list *list);

#endif

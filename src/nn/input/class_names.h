/* The names of classes: those that go with a set of images, or a list that a user has. */
#ifndef POSEIDON_INPUT_CLASS_NAMES_H
#define POSEIDON_INPUT_CLASS_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Class n is called name[n]. All zero: none are known. */
struct class_names {
    char **name; /* owned */
    int count;
    uint64_t images; /* 0: a file says the names; else they are folders of that many listed
                        images, and NULL for a label that no image has */
};

/* The names of classes that a file holds: the attribute `classes` of a set of images or of a model
 * in HDF5, classes.txt of an LMDB folder. *out is empty where the file has none. */
int class_names_of_data(const char *path, struct class_names *out);

/* The same, or a text with a name on every line; there must be some. Errors: not there, a file that
 * is no text, a set of images without names. */
int class_names_read(const char *path, struct class_names *out);

/* Adds those of a text, one a line; NULL has none. */
int class_names_split(const char *text, struct class_names *out);

/* Fails where the two lists, each of that file, differ at a place that both have: a label would
 * mean two classes. Folders are no names for sure: with them it fails only where both lists have a
 * name, each of them once, at different places. */
int class_names_compare(const char *path, const struct class_names *names, const char *other_path,
                        const struct class_names *others);

/* Adds one, of the first `length` letters. */
int class_names_add(struct class_names *names, const char *text, size_t length);

void class_names_free(struct class_names *names);

#endif

/* Names of classes: stored with a set of images, or in a list of the user's. */
#ifndef POSEIDON_INPUT_CLASS_NAMES_H
#define POSEIDON_INPUT_CLASS_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* name[n] is the name of class n. All zero: no names are known. */
struct class_names {
    char **name; /* owned */
    int count;
    uint64_t images; /* number of listed images whose folders are the names (NULL for a label
                        without images); 0: the names come from a file */
};

/* Reads the class names that a data file holds: the attribute `classes` of an HDF5 set or model, or
 * classes.txt of an LMDB folder. *out is empty if there are none. */
int class_names_of_data(const char *path, struct class_names *out);

/* Reads the class names of a data file, or of a text with a name on every line. Errors: missing,
 * not a text, no names. */
int class_names_read(const char *path, struct class_names *out);

/* Adds the names of a text, one a line; NULL adds none. */
int class_names_split(const char *text, struct class_names *out);

/* Fails if the lists of two files differ at a label that both have: the label would mean two
 * classes. Folders are less reliable names. If either list has folders, fails only if no list
 * repeats a name and a name has two labels. */
int class_names_compare(const char *path, const struct class_names *names, const char *other_path,
                        const struct class_names *others);

/* Adds a name: the first `length` letters of `text`. */
int class_names_add(struct class_names *names, const char *text, size_t length);

void class_names_free(struct class_names *names);

#endif

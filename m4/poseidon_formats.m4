# Libraries for formats that not everybody has: image data bases, photographs.
# Each is optional; commands name the missing one when they meet such a file.

# POSEIDON_OPTIONAL(NAME, OPTION, MODULE, HEADERS, LIBRARIES, PROLOGUE, BODY, VERSION, DEBIAN, SPACK)
# --with-OPTION[=DIR]; else pkg-config MODULE, else LIBRARIES. Defines HAVE_NAME (macro and
# conditional) and sets NAME_CFLAGS, NAME_LIBS, poseidon_OPTION_found (for the summary).
AC_DEFUN([POSEIDON_OPTIONAL],
[AC_ARG_WITH([$2],
    [AS_HELP_STRING([--with-$2@<:@=DIR@:>@], [use $1 (in DIR); default: if it is there])],
    [], [with_$2=auto])
AC_ARG_VAR([$1_CFLAGS], [flags to compile with $1])
AC_ARG_VAR([$1_LIBS], [libraries to link $1])
poseidon_linked=no
AS_CASE([$with_$2],
[no], [:],
[yes|auto],
[AS_IF([test -z "$$1_LIBS"],
[m4_ifval([$3], [AS_IF([test -n "$PKG_CONFIG" && $PKG_CONFIG --exists $3],
      [$1_CFLAGS=`$PKG_CONFIG --cflags $3`
$1_LIBS=`$PKG_CONFIG --libs $3`], [$1_LIBS='$5'])], [$1_LIBS='$5'])])],
[POSEIDON_PREFIX([$1], [$with_$2], [$4], [$1_CFLAGS], [$1_LIBS])
$1_LIBS="$$1_LIBS $5"])
AS_IF([test "$with_$2" != no],
[AC_MSG_CHECKING([for $1])
POSEIDON_TRY_LINK([$$1_CFLAGS], [$$1_LIBS], [$6], [$7])
AC_MSG_RESULT([$poseidon_linked])
AS_IF([test "$poseidon_linked" = no && test "$with_$2" != auto],
      [POSEIDON_MISSING([$1 was asked for], [it could not be linked], [$9], [$10],
                        [name its folder with --with-$2=DIR])])])
AS_IF([test "$poseidon_linked" = yes],
[AC_DEFINE([HAVE_$1], [1], [Define to 1 if $1 can be linked.])
POSEIDON_HEADER_VERSION([poseidon_$2_found], [$$1_CFLAGS], [$6], [$8])],
[$1_CFLAGS=
$1_LIBS=
AS_IF([test "$with_$2" = no], [poseidon_$2_found='off'], [poseidon_$2_found='no (Debian: $9)'])])
AM_CONDITIONAL([HAVE_$1], [test "$poseidon_linked" = yes])])

AC_DEFUN([POSEIDON_FORMATS],
[POSEIDON_OPTIONAL([LMDB], [lmdb], [lmdb], [lmdb.h], [-llmdb],
    [@%:@include <lmdb.h>], [MDB_env *e;
return mdb_env_create(&e);],
    [MDB_VERSION_MAJOR.MDB_VERSION_MINOR.MDB_VERSION_PATCH], [liblmdb-dev], [lmdb])
POSEIDON_OPTIONAL([LEVELDB], [leveldb], [], [leveldb/c.h], [-lleveldb],
    [@%:@include <leveldb/c.h>], [leveldb_options_t *o = leveldb_options_create();
return !o;],
    [yes], [libleveldb-dev], [leveldb])
POSEIDON_OPTIONAL([JPEG], [jpeg], [libjpeg], [jpeglib.h], [-ljpeg],
    [@%:@include <stdio.h>
@%:@include <jpeglib.h>], [struct jpeg_decompress_struct d;
jpeg_create_decompress(&d);
d.out_color_space = JCS_EXT_BGR;
jpeg_mem_src(&d, (const unsigned char *)"", 0);],
    [JPEG_LIB_VERSION], [libjpeg-dev], [libjpeg-turbo])
POSEIDON_OPTIONAL([PNG], [png], [libpng], [png.h], [-lpng],
    [@%:@include <png.h>], [png_image i;
return png_image_begin_read_from_memory(&i, "", 0);],
    [PNG_LIBPNG_VER_STRING], [libpng-dev], [libpng])
POSEIDON_OPTIONAL([WEBP], [webp], [libwebp], [webp/decode.h], [-lwebp],
    [@%:@include <webp/decode.h>], [return WebPGetInfo((const uint8_t *)"", 0, 0, 0);],
    [yes], [libwebp-dev], [libwebp])
FORMAT_CFLAGS="$LMDB_CFLAGS $LEVELDB_CFLAGS $JPEG_CFLAGS $PNG_CFLAGS $WEBP_CFLAGS"
FORMAT_LIBS="$LMDB_LIBS $LEVELDB_LIBS $JPEG_LIBS $PNG_LIBS $WEBP_LIBS"
AC_SUBST([FORMAT_CFLAGS])
AC_SUBST([FORMAT_LIBS])])

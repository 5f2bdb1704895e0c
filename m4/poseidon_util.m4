# Small tools for the probes of this folder.

# POSEIDON_MISSING(WHAT, WHY, DEBIAN, SPACK, [MORE])
# The one sentence that a missing dependency ends in.
AC_DEFUN([POSEIDON_MISSING],
[AC_MSG_ERROR([$1: $2; install Debian's $3 or Spack's $4[]m4_ifval([$5], [, or $5]).])])

# POSEIDON_TRY_LINK(CPPFLAGS, LIBS, PROLOGUE, BODY, [IF-YES], [IF-NO])
# Compiles and links with these flags in front of the user's own, and leaves no flag behind.
AC_DEFUN([POSEIDON_TRY_LINK],
[poseidon_save_CPPFLAGS=$CPPFLAGS
poseidon_save_LIBS=$LIBS
CPPFLAGS="$1 $CPPFLAGS"
LIBS="$2 $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([$3], [$4])], [poseidon_linked=yes], [poseidon_linked=no])
CPPFLAGS=$poseidon_save_CPPFLAGS
LIBS=$poseidon_save_LIBS
AS_IF([test "$poseidon_linked" = yes], [m4_default([$5], [:])], [m4_default([$6], [:])])])

# POSEIDON_HEADER_VERSION(VARIABLE, CPPFLAGS, PROLOGUE, TOKENS)
# VARIABLE becomes TOKENS as the preprocessor expands them, without spaces and quotes. The
# preprocessor may spread the tokens over lines with line markers between. Runs nothing, so it
# works where programs cannot be started (login nodes, cross compilers).
AC_DEFUN([POSEIDON_HEADER_VERSION],
[AC_LANG_CONFTEST([AC_LANG_SOURCE([$3
poseidon_version $4])])
$1=`$CC -E $2 $CPPFLAGS conftest.$ac_ext 2>/dev/null |
    sed -n '/^poseidon_version/,$p' | grep -v '^#' | tr -d ' "\n' | sed 's/^poseidon_version//'`
rm -f conftest.$ac_ext
AS_IF([test -z "$$1"], [$1=unknown])])

# POSEIDON_PREFIX_FLAGS(DIR, CPPFLAGS-VARIABLE, LDFLAGS-VARIABLE)
# The flags of a library installed under DIR. A run path is recorded: a prefix given by hand is
# rarely known to the loader.
AC_DEFUN([POSEIDON_PREFIX_FLAGS],
[$2="-I$1/include"
$3=
for poseidon_lib in lib64 lib lib/x86_64-linux-gnu lib/aarch64-linux-gnu; do
    AS_IF([test -d "$1/$poseidon_lib"],
          [$3="$$3 -L$1/$poseidon_lib -Wl,-rpath,$1/$poseidon_lib"])
done])

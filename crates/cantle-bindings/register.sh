#!/bin/sh
# Makes an installed shared library known to the loader, or says what is left to do:
#
#     register.sh DIRECTORY SONAME
#
# Runs ldconfig where this user may and the loader searches the directory. LDCONFIG names another
# ldconfig, for tests.
set -eu
directory=$1 soname=$2
# A user's PATH often lacks the directories of root's tools.
PATH=$PATH:/usr/sbin:/sbin
ldconfig=${LDCONFIG:-ldconfig}

is_searched() {
    # -N and -X: change nothing, list the directories.
    "$ldconfig" -v -N -X 2>/dev/null | sed -n 's|^\(/[^:]*\):.*|\1|p' | {
        while read -r searched; do
            if [ "$searched" = "$directory" ] || [ "$searched" -ef "$directory" ]; then
                exit 0
            fi
        done
        exit 1
    }
}

if ! command -v "$ldconfig" >/dev/null; then
    echo "$soname is installed in $directory"
elif ! is_searched; then
    echo "$soname is installed in $directory, where the loader does not search. To run programs that use it, either"
    echo "    link them with -Wl,-rpath,$directory, or"
    echo "    set LD_LIBRARY_PATH=$directory, or"
    echo "    write $directory into a file of /etc/ld.so.conf.d and run ldconfig as root."
    echo "pkg-config finds it with PKG_CONFIG_PATH=$directory/pkgconfig"
elif [ "$(id -u)" = 0 ]; then
    "$ldconfig"
    echo "$soname is installed in $directory and known to the loader (ldconfig ran)"
else
    echo "$soname is installed in $directory. Make it known to the loader now:"
    echo "    sudo ldconfig"
fi

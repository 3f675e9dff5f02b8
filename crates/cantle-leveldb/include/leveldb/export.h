// Macros that the other headers put before declarations. Works in C and C++.

#ifndef CANTLE_LEVELDB_EXPORT_H
#define CANTLE_LEVELDB_EXPORT_H

// Classes and functions stay shared between the libraries of a program that is compiled with
// -fvisibility=hidden.
#if !defined(LEVELDB_EXPORT)
#if defined(__GNUC__)
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#else
#define LEVELDB_EXPORT
#endif
#endif

// LevelDB's C++ interface is inline here. The tag gives each function a symbol of its own. Hence no
// function replaces LevelDB's own function of the same name if another library of the process loads
// libleveldb.
#if defined(__cplusplus)
#if defined(__GNUC__)
#define CANTLE_LEVELDB_INLINE inline __attribute__((abi_tag("cantle"), visibility("default")))
#else
#define CANTLE_LEVELDB_INLINE inline
#endif
#endif

#endif
